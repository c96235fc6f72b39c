// SPDX-License-Identifier: Apache-2.0
#include "load/clients.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace plimsoll::load {

namespace {
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.time != b.time ? a.time > b.time : a.order > b.order;
};

constexpr std::uint16_t kUnavailable = 503;

Nanos to_nanos(Seconds s) { return std::llround(s.count() * 1e9); }

// Pause of a client after its n-th failed attempt: exponential, as the standard retry mode of the AWS SDKs without its
// jitter (runs must repeat exactly): 1 s, 2 s, 4 s … at most 20 s.
Nanos back_off(std::int32_t attempts) {
  return std::min<Nanos>(Nanos{1'000'000'000} << std::min(attempts - 1, 5), 20'000'000'000);
}

std::int32_t users(const LoadSpec& load) {
  if (const auto* closed = std::get_if<ClosedLoop>(&load)) return closed->concurrency;
  if (const auto* jumpstart = std::get_if<JumpStart>(&load)) return jumpstart->concurrency;
  return 0;
}
}  // namespace

Clients::Clients(const Scenario& scenario, std::uint64_t replication, const sched::RunOptions& options,
                 sched::Measurements& out, const FrontEnd& front_end)
    : scenario_(scenario), workload_(scenario.workload, replication, front_end.drift), out_(out),
      closed_(is_closed_loop(scenario.workload.load)), keep_rows_(options.keep_requests && replication == 0),
      timeout_(to_nanos(scenario.limits.timeout)), warmup_(to_nanos(scenario.warmup)), front_end_(to_nanos(front_end.delay)),
      intake_(to_nanos(front_end.intake)), intakes_(intake_ > 0 ? static_cast<std::size_t>(scenario.replicas) : 0, 0),
      planned_(workload_.planned_requests()) {
  if (const auto* closed = std::get_if<ClosedLoop>(&scenario.workload.load)) think_ = to_nanos(closed->think);
  if (scenario.workload.duration.count() > 0) send_until_ = to_nanos(scenario.workload.duration);
  if (closed_) {
    for (std::int32_t user = 0; user < users(scenario.workload.load); ++user) push_send(0, 0, true);
  } else {
    draw_arrival();
  }
  if (planned_ == 0) planned_ = scenario.workload.requests;
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

// Attempts pass the front end in the order in which they were sent.
Nanos Clients::delivery(Nanos sent) const {
  if (intakes_.empty()) return sent + front_end_;
  return std::max(sent, *std::min_element(intakes_.begin(), intakes_.end())) + intake_ + front_end_;
}

void Clients::take_in(Nanos sent) {
  if (intakes_.empty()) return;
  Nanos& free = *std::min_element(intakes_.begin(), intakes_.end());
  free = std::max(sent, free) + intake_;
}

Nanos Clients::next_send() const {
  const Nanos sent = next_sending();
  return sent == sched::kNever ? sched::kNever : delivery(sent);
}

std::optional<Attempt> Clients::send(Nanos now) {
  while (next_send() <= now) {
    if (next_arrival_ && (sends_.empty() || *next_arrival_ <= sends_.front().time)) {
      const Nanos time = *next_arrival_;
      const std::optional<ClientId> client = open_request(time);
      if (client) draw_arrival();
      else next_arrival_.reset();
      if (client) return attempt(*client, time);
      continue;
    }
    std::pop_heap(sends_.begin(), sends_.end(), kLater);
    const Send next = sends_.back();
    sends_.pop_back();
    if (!next.fresh) return attempt(next.client, next.time);
    if (const std::optional<ClientId> client = open_request(next.time)) return attempt(*client, next.time);
    // Every request has been drawn: only repeated attempts are still to come.
    exhausted_ = true;
    std::erase_if(sends_, [](const Send& send) { return send.fresh; });
    std::make_heap(sends_.begin(), sends_.end(), kLater);
  }
  return {};
}

// Draws the next logical request, sent at `time`; nothing when the workload is exhausted.
std::optional<ClientId> Clients::open_request(Nanos time) {
  body_ = workload_.next_body();
  if (!body_) return {};
  ClientId client;
  if (free_.empty()) {
    client = static_cast<ClientId>(logical_.size());
    logical_.emplace_back();
  } else {
    client = free_.back();
    free_.pop_back();
  }
  Logical& l = logical_[client];
  l = Logical{};
  l.open = true;
  l.row.id = next_id_++;
  l.row.arrival = time;
  l.row.input = body_->input_tokens;
  l.row.output = body_->output_tokens;
  l.max_new = body_->max_new_tokens;
  l.session = body_->session;
  l.hash_block_tokens = body_->hash_block_tokens;
  if (keep_rows_) l.row.name = body_->name.empty() ? "r" + std::to_string(l.row.id) : std::string(body_->name);
  if (scenario_.kv.prefix_caching || scenario_.router == sched::RouterKind::prefix)
    l.hashes.assign(body_->prefix_hashes.begin(), body_->prefix_hashes.end());
  ++open_;
  ++sent_;
  return client;
}

Attempt Clients::attempt(ClientId client, Nanos sent) {
  take_in(sent);
  Logical& l = logical_[client];
  l.sent = sent;
  ++l.attempts;
  l.serial = next_serial_++;
  l.waits_to_resend = false;
  Attempt a;
  a.client = client;
  a.serial = l.serial;
  a.request.serial = l.serial;
  a.request.client = client;
  a.request.input = l.row.input;
  a.request.output = l.row.output;
  a.request.max_new = l.max_new;
  a.request.sent = l.row.arrival;
  a.request.session = l.session;
  a.request.prefix_hashes = l.hashes;
  a.request.hash_block_tokens = l.hash_block_tokens;
  a.request.name = l.row.name;
  return a;
}

void Clients::dispatched(ClientId client, std::int32_t replica, std::optional<sched::ReqId> id, Nanos now) {
  Logical& l = logical_[client];
  l.row.replica = replica;
  l.row.dispatched = now;
  l.replica_id = id.value_or(sched::kNoRequest);
  if (timeout_ > 0 && id) timeouts_.push_back({std::max(now, l.sent + timeout_), client, l.serial});
}

void Clients::refuse(ClientId client, Nanos now) {
  Logical& l = logical_[client];
  l.row.http = kUnavailable;
  l.row.code = "no replica serves";
  fail_or_retry(client, sched::Outcome::rejected, now);
}

void Clients::lose(std::int32_t replica, Nanos now) {
  for (ClientId client = 0; client < logical_.size(); ++client) {
    Logical& l = logical_[client];
    if (!l.open || l.waits_to_resend || l.row.replica != replica || l.replica_id == sched::kNoRequest) continue;
    l.row.http = kUnavailable;
    l.row.code = "the replica failed";
    fail_or_retry(client, sched::Outcome::rejected, now);
  }
}

std::optional<TimedOut> Clients::time_out(Nanos now) {
  while (!timeouts_.empty() && timeouts_.front().deadline <= now) {
    const Deadline due = timeouts_.front();
    timeouts_.pop_front();
    Logical& l = logical_[due.client];
    if (!l.open || l.serial != due.serial || l.waits_to_resend) continue;
    const TimedOut out{std::int64_t{l.row.input} + l.max_new, l.row.replica, l.replica_id, due.serial};
    fail_or_retry(due.client, sched::Outcome::timed_out, now);
    return out;
  }
  return {};
}

bool Clients::ended(const sched::Ended& ended, Nanos now) {
  Logical& l = logical_[ended.client];
  if (!l.open || l.serial != ended.serial || l.waits_to_resend) return false;
  l.row.first_token = ended.first_token;
  l.row.generated = ended.generated;
  l.row.http = ended.http;
  l.row.code = ended.code;
  l.row.preemptions += ended.preemptions;
  if (ended.outcome == sched::Outcome::rejected) {
    fail_or_retry(ended.client, ended.outcome, now);
    return true;
  }
  sched::RequestResult result;
  result.sent = l.row.arrival;
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
  result.first_wave = loop != nullptr && l.row.id < static_cast<std::uint64_t>(loop->concurrency);
  queue_ += result.sent >= warmup_ ? ended.queue_s : 0;
  out_.add(result);
  close(ended.client, ended.outcome, now);
  return true;
}

void Clients::fail_or_retry(ClientId client, sched::Outcome outcome, Nanos now) {
  Logical& l = logical_[client];
  if (l.attempts <= scenario_.limits.retries) {
    l.waits_to_resend = true;
    push_send(now + back_off(l.attempts), client, false);
    return;
  }
  sched::RequestResult result;
  result.sent = l.row.arrival;
  result.end = now;
  result.input = l.row.input;
  result.output = l.row.output;
  result.generated = l.row.generated;
  result.outcome = outcome;
  result.code = l.row.code;
  out_.add(result);
  close(client, outcome, now);
}

void Clients::close(ClientId client, sched::Outcome outcome, Nanos now) {
  Logical& l = logical_[client];
  l.row.outcome = outcome;
  l.row.end = now;
  l.open = false;
  --open_;
  ++finished_;
  last_end_ = std::max(last_end_, now);
  in_system_ += 1e-9 * static_cast<double>(std::max<Nanos>(0, now - std::max(l.row.arrival, warmup_)));
  if (keep_rows_) rows_.push_back(l.row);
  // The user goes on: at once after an answer or a time-out, after a pause when the service refused.
  if (closed_) push_send(now + think_ + (outcome == sched::Outcome::rejected ? back_off(1) : 0), 0, true);
  free_.push_back(client);
}

std::vector<sched::RequestRow> Clients::take_rows() {
  std::sort(rows_.begin(), rows_.end(), [](const sched::RequestRow& a, const sched::RequestRow& b) { return a.id < b.id; });
  return std::move(rows_);
}

}  // namespace plimsoll::load
