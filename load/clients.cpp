// SPDX-License-Identifier: Apache-2.0
#include "load/clients.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "model/error.h"

namespace plimsoll::load {

namespace {
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.time != b.time ? a.time > b.time : a.order > b.order;
};

constexpr std::uint16_t kUnavailable = 503;

Nanos to_nanos(Seconds s) { return std::llround(s.count() * 1e9); }

// Pause of a client after its n-th failed attempt: 1 s, 2 s, 4 s … at most 20 s. This is the standard retry mode of the
// AWS SDKs without its jitter, since runs must repeat exactly.
Nanos back_off(std::int32_t attempts) {
  return std::min<Nanos>(Nanos{1'000'000'000} << std::min(attempts - 1, 5), 20'000'000'000);
}

std::int32_t users(const LoadSpec& load) {
  if (const auto* closed = std::get_if<ClosedLoop>(&load)) return closed->concurrency;
  if (const auto* jumpstart = std::get_if<JumpStart>(&load)) return jumpstart->concurrency;
  return 0;
}
}  // namespace

FrontEndQueue::FrontEndQueue(const FrontEnd& front_end, std::int32_t replicas)
    : intake_(to_nanos(front_end.intake)),
      delay_(to_nanos(front_end.delay)),
      busy_until_(intake_ > 0 ? static_cast<std::size_t>(replicas) : 0, 0) {}

void FrontEndQueue::take_in(Nanos sent) {
  if (busy_until_.empty()) return;
  std::pop_heap(busy_until_.begin(), busy_until_.end(), std::greater<>());
  busy_until_.back() = std::max(sent, busy_until_.back()) + intake_;
  std::push_heap(busy_until_.begin(), busy_until_.end(), std::greater<>());
}

Clients::Clients(const Replication& replication, const FrontEnd& front_end)
    : scenario_(replication.scenario),
      workload_(scenario_.workload, replication.index, front_end.drift),
      out_(replication.out),
      closed_(is_closed_loop(scenario_.workload.load)),
      keep_rows_(replication.options.keep_requests && replication.index == 0),
      timeout_(to_nanos(scenario_.limits.timeout)),
      warmup_(to_nanos(scenario_.warmup)),
      front_end_(front_end, scenario_.replicas),
      planned_(workload_.planned_requests()) {
  if (const auto* closed = std::get_if<ClosedLoop>(&scenario_.workload.load)) think_ = to_nanos(closed->think);
  if (scenario_.workload.duration.count() > 0) send_until_ = to_nanos(scenario_.workload.duration);
  if (closed_) {
    for (std::int32_t user = 0; user < users(scenario_.workload.load); ++user) push_send(0, 0, true);
  } else {
    draw_arrival();
  }
  if (planned_ == 0) planned_ = scenario_.workload.requests;
}

void Clients::draw_arrival() {
  next_arrival_ = workload_.next_arrival();
  if (!next_arrival_) return;
  if (last_arrival_ >= 0) {
    const double gap = 1e-9 * static_cast<double>(*next_arrival_ - last_arrival_);
    gap_sum_ += gap;
    gap_square_sum_ += gap * gap;
  }
  last_arrival_ = *next_arrival_;
}

double Clients::gap_scv() const {
  const auto gaps = static_cast<double>(sent_ - 1);
  if (gaps < 2 || gap_sum_ <= 0) return 0;
  const double mean = gap_sum_ / gaps;
  return std::max(0.0, gap_square_sum_ / gaps - mean * mean) / (mean * mean);
}

void Clients::push_send(Nanos time, ClientId client, bool fresh) {
  if (fresh && (exhausted_ || time > send_until_)) return;
  sends_.push_back({time, next_order_++, client, fresh});
  std::push_heap(sends_.begin(), sends_.end(), kLater);
}

Nanos Clients::next_sending() const {
  const Nanos scheduled = sends_.empty() ? sched::kNever : sends_.front().time;
  return next_arrival_ ? std::min(*next_arrival_, scheduled) : scheduled;
}

Nanos Clients::next_send() const {
  const Nanos sent = next_sending();
  return sent == sched::kNever ? sched::kNever : front_end_.delivery(sent);
}

std::optional<Attempt> Clients::send(Nanos now) {
  while (next_send() <= now) {
    if (next_arrival_ && (sends_.empty() || *next_arrival_ <= sends_.front().time)) {
      const Nanos time = *next_arrival_;
      const std::optional<ClientId> client = open_request(time);
      if (client)
        draw_arrival();
      else
        next_arrival_.reset();
      if (client) return attempt(*client, time);
      continue;
    }
    std::pop_heap(sends_.begin(), sends_.end(), kLater);
    const Send next = sends_.back();
    sends_.pop_back();
    if (!next.fresh) return attempt(next.client, next.time);
    if (const std::optional<ClientId> client = open_request(next.time)) return attempt(*client, next.time);
  }
  return {};
}

// Every request has been drawn; only retries remain. Users in a pause send nothing more, so that the run ends with its
// last request and not with the last pause.
void Clients::end_fresh_sends() {
  exhausted_ = true;
  std::erase_if(sends_, [](const Send& send) { return send.fresh; });
  std::make_heap(sends_.begin(), sends_.end(), kLater);
}

// Draws the next logical request, sent at `time`; nothing when the workload is exhausted.
std::optional<ClientId> Clients::open_request(Nanos time) {
  body_ = workload_.next_body();
  if (!exhausted_ && workload_.exhausted()) end_fresh_sends();
  if (!body_) return {};
  ClientId client;
  if (free_.empty()) {
    client = static_cast<ClientId>(logical_.size());
    logical_.emplace_back();
  } else {
    client = free_.back();
    free_.pop_back();
  }
  OpenRequest& l = logical_[client];
  l = OpenRequest{};
  l.open = true;
  l.id = next_id_++;
  l.arrival = time;
  l.input = body_->input_tokens;
  l.output = body_->output_tokens;
  l.max_new = body_->max_new_tokens;
  keep_prompt(client);
  if (keep_rows_) {
    if (client >= open_rows_.size()) open_rows_.resize(client + 1);
    sched::RequestRow& row = open_rows_[client] = {};
    row.id = l.id;
    row.name = body_->name.empty() ? "r" + std::to_string(l.id) : std::string(body_->name);
    row.arrival = time;
    row.input = l.input;
    row.output = l.output;
  }
  ++open_;
  ++sent_;
  last_sent_ = time;
  return client;
}

void Clients::keep_prompt(ClientId client) {
  const bool hashes =
      (scenario_.kv.prefix_caching || scenario_.router == sched::RouterKind::prefix) && !body_->prefix_hashes.empty();
  if (prompts_.empty() && body_->session == 0 && !hashes) return;
  if (client >= prompts_.size()) prompts_.resize(logical_.size());
  Prompt& prompt = prompts_[client];
  prompt.session = body_->session;
  prompt.hash_block_tokens = body_->hash_block_tokens;
  prompt.hashes.clear();
  if (hashes) prompt.hashes.assign(body_->prefix_hashes.begin(), body_->prefix_hashes.end());
}

Attempt Clients::attempt(ClientId client, Nanos sent) {
  front_end_.take_in(sent);
  attempt_sent_ = sent;
  OpenRequest& l = logical_[client];
  ++l.attempts;
  l.serial = static_cast<std::uint32_t>(next_serial_++);
  l.replica = -1;
  l.replica_id = sched::kNoRequest;
  l.waits_to_resend = false;
  Attempt a;
  a.client = client;
  a.request.serial = l.serial;
  a.request.client = client;
  a.request.input = l.input;
  a.request.output = l.output;
  a.request.max_new = l.max_new;
  a.request.sent = l.arrival;
  if (client < prompts_.size()) {
    const Prompt& prompt = prompts_[client];
    a.request.session = prompt.session;
    a.request.prefix_hashes = prompt.hashes;
    a.request.hash_block_tokens = prompt.hash_block_tokens;
  }
  if (keep_rows_) a.request.name = open_rows_[client].name;
  return a;
}

void Clients::dispatched(ClientId client, std::int32_t replica, std::optional<sched::ReqId> id, Nanos now) {
  OpenRequest& l = logical_[client];
  l.replica = replica;
  l.replica_id = id.value_or(sched::kNoRequest);
  if (keep_rows_) {  // the row tells of the last attempt
    open_rows_[client].replica = replica;
    open_rows_[client].dispatched = now;
  }
  if (timeout_ > 0 && id) timeouts_.push_back({std::max(now, attempt_sent_ + timeout_), client, l.serial});
}

void Clients::refuse(ClientId client, Nanos now) {
  fail_or_retry(client, {.outcome = sched::Outcome::rejected, .http = kUnavailable, .code = "no replica serves"}, now);
}

void Clients::lose(std::int32_t replica, Nanos now) {
  for (ClientId client = 0; client < logical_.size(); ++client) {
    const OpenRequest& l = logical_[client];
    if (!l.open || l.waits_to_resend || l.replica != replica || l.replica_id == sched::kNoRequest) continue;
    fail_or_retry(client, {.outcome = sched::Outcome::rejected, .http = kUnavailable, .code = "the replica failed"},
                  now);
  }
}

std::optional<TimedOut> Clients::time_out(Nanos now) {
  while (!timeouts_.empty() && timeouts_.front().deadline <= now) {
    const Deadline due = timeouts_.front();
    timeouts_.pop_front();
    const OpenRequest& l = logical_[due.client];
    if (!l.open || l.serial != due.serial || l.waits_to_resend) continue;
    const TimedOut out{std::int64_t{l.input} + l.max_new, l.replica, l.replica_id, due.serial};
    fail_or_retry(due.client, {.outcome = sched::Outcome::timed_out}, now);
    return out;
  }
  return {};
}

bool Clients::ended(const sched::FinishedAttempt& ended, Nanos now) {
  const OpenRequest& l = logical_[ended.client];
  if (!l.open || l.serial != ended.serial || l.waits_to_resend) return false;
  const Ending ending{.outcome = ended.outcome,
                      .http = ended.http,
                      .code = ended.code,
                      .first_token = ended.first_token,
                      .generated = ended.generated};
  if (keep_rows_) open_rows_[ended.client].preemptions += ended.preemptions;
  if (ended.outcome == sched::Outcome::rejected) {
    fail_or_retry(ended.client, ending, now);
    return true;
  }
  sched::RequestResult result;
  result.sent = l.arrival;
  result.first_token = ended.first_token;
  result.end = now;
  result.input = ended.input;
  result.output = ended.output;
  result.generated = ended.generated;
  result.outcome = ended.outcome;
  result.queue_s = ended.queue_s;
  result.preempt_s = ended.preempt_s;
  result.service = ended.service;
  const auto* const loop = std::get_if<ClosedLoop>(&scenario_.workload.load);
  result.first_wave = loop != nullptr && l.id < static_cast<std::uint64_t>(loop->concurrency);
  queue_ += result.sent >= warmup_ ? ended.queue_s : 0;
  out_.add(result);
  close(ended.client, ending, now);
  return true;
}

// The request was refused for its length: even an empty engine would refuse it (docs/policies.md, Refusals).
bool Clients::is_unfit(const Ending& ending) {
  constexpr std::uint16_t kBadRequest = 400, kUnprocessable = 422, kTooLargeForPool = 500;
  const bool waited_too_long = std::string_view(ending.code) == "time_out";
  if (std::string_view(ending.code).starts_with("failed")) return false;  // of a server that was measured
  return ending.http == kUnprocessable || ending.http == kTooLargeForPool ||
         (ending.http == kBadRequest && !waited_too_long);
}

void Clients::fail_or_retry(ClientId client, const Ending& ending, Nanos now) {
  OpenRequest& l = logical_[client];
  if (l.attempts <= scenario_.limits.retries) {
    l.waits_to_resend = true;
    push_send(now + back_off(l.attempts), client, false);
    return;
  }
  sched::RequestResult result;
  result.sent = l.arrival;
  result.end = now;
  result.input = l.input;
  result.output = l.output;
  result.generated = ending.generated;
  result.outcome = ending.outcome;
  result.code = ending.code;
  result.unfit = ending.outcome == sched::Outcome::rejected && is_unfit(ending);
  out_.add(result);
  close(client, ending, now);
}

void Clients::close(ClientId client, const Ending& ending, Nanos now) {
  OpenRequest& l = logical_[client];
  l.open = false;
  --open_;
  ++finished_;
  last_end_ = std::max(last_end_, now);
  in_system_ += 1e-9 * static_cast<double>(std::max<Nanos>(0, now - std::max(l.arrival, warmup_)));
  if (keep_rows_) {
    sched::RequestRow& row = open_rows_[client];
    row.outcome = ending.outcome;
    row.http = ending.http;
    row.code = ending.code;
    row.first_token = ending.first_token;
    row.generated = ending.generated;
    row.end = now;
    rows_.push_back(std::move(row));
  }
  // A closed-loop user sends again: after its think time, with an extra pause if the service refused.
  if (closed_) push_send(now + think_ + (ending.outcome == sched::Outcome::rejected ? back_off(1) : 0), 0, true);
  free_.push_back(client);
}

std::vector<sched::RequestRow> Clients::take_rows() {
  std::sort(rows_.begin(), rows_.end(),
            [](const sched::RequestRow& a, const sched::RequestRow& b) { return a.id < b.id; });
  return std::move(rows_);
}

}  // namespace plimsoll::load
