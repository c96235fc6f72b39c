// SPDX-License-Identifier: Apache-2.0
#include "load/clients.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "model/error.h"

namespace plimsoll::load {

namespace {
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.time != b.time ? a.time > b.time : a.order > b.order;
};

constexpr std::uint16_t kUnavailable = 503;

Nanos to_nanos(Seconds s) { return std::llround(s.count() * 1e9); }

// The pause of a client after its n-th failed attempt: 1 s, 2 s, 4 s … at most 20 s. This is the standard retry mode of
// the AWS SDKs, without its jitter because runs must repeat exactly.
Nanos back_off(std::int32_t attempts) {
  return std::min<Nanos>(Nanos{1'000'000'000} << std::min(attempts - 1, 5), 20'000'000'000);
}

std::int32_t users(const LoadSpec& load) {
  if (const auto* closed = std::get_if<ClosedLoop>(&load)) return closed->concurrency;
  if (const auto* jumpstart = std::get_if<JumpStart>(&load)) return jumpstart->concurrency;
  if (const auto* sessions = std::get_if<Sessions>(&load)) return sessions->concurrency;
  return 0;
}

// Returns whether anything compares prompts; otherwise their hashes do not matter.
bool uses_prefixes(const Scenario& scenario) {
  if (scenario.pools && uses_prefixes(*scenario.pools->prefill)) return true;
  return scenario.kv.prefix_caching || sched::router_info(scenario.router).compares_prefixes;
}
}  // namespace

FrontEndQueue::FrontEndQueue(const FrontEnd& front_end, std::int32_t replicas, Nanos apart)
    : intake_(to_nanos(front_end.intake)),
      delay_(to_nanos(front_end.delay)),
      apart_(std::max(intake_, apart)),
      stream_(front_end.stream.count() * 1e9 / replicas),
      busy_until_(apart_ > 0 || stream_ > 0 ? static_cast<std::size_t>(replicas) : 0, 0),
      tokens_(front_end.tokens) {
  PLIMSOLL_CHECK(stream_ == 0 || tokens_, "a front end that streams tokens needs the token counts");
}

// One front end per replica, each busy for `intake_` with a request. The first free one takes the next request.
Nanos FrontEndQueue::enter(Nanos sent) {
  if (streams()) note_tokens(sent);
  const Nanos delivered = delivery(sent);
  if (busy_until_.empty()) return delivered;
  std::pop_heap(busy_until_.begin(), busy_until_.end(), std::greater<>());
  busy_until_.back() = std::max(sent, busy_until_.back()) + apart_;
  std::push_heap(busy_until_.begin(), busy_until_.end(), std::greater<>());
  return delivered;
}

// Tokens put out between two looks count as evenly spread over that time, and over the replicas. Counting them makes
// all replicas complete their steps, so large fleets are looked at less often.
void FrontEndQueue::note_tokens(Nanos now) {
  if (now < look_) return;
  constexpr Nanos kApartALook = 1'000'000, kLongest = 50'000'000;
  look_ = now + std::min(kLongest, kApartALook * static_cast<Nanos>(busy_until_.size()));
  const std::int64_t all = tokens_(now);
  const Nanos work = std::llround(stream_ * static_cast<double>(all - noted_));
  noted_ = all;
  // The heap stays a heap: the same nondecreasing function is applied to every element.
  for (Nanos& busy : busy_until_) busy = std::max(now, busy + work);
}

Clients::Clients(const Replication& replication, const FrontEnd& front_end)
    : scenario_(replication.scenario),
      workload_(scenario_.workload, replication.index, front_end.drift),
      out_(replication.out),
      closed_(is_closed_loop(scenario_.workload.load)),
      // A script needs its rows too: the decision log has the names of its requests.
      keep_rows_((replication.options.keep_requests || script_of(scenario_.workload) != nullptr) &&
                 replication.index == 0),
      timeout_(to_nanos(scenario_.limits.timeout)),
      warmup_(to_nanos(scenario_.warmup)),
      front_end_(front_end, scenario_.replicas, closed_ ? kApart : 0),
      unsent_users_(users(scenario_.workload.load)),
      planned_(workload_.planned_requests()) {
  // Only in these cases does a request end other than by its replica's report. Otherwise nothing is kept here for each
  // request, because millions may wait at once.
  keep_open_ = keep_rows_ || timeout_ > 0 || scenario_.limits.retries > 0 || scenario_.life;
  if (has_turns(scenario_.workload.load)) {
    sessions_.emplace(scenario_.workload, replication.index, uses_prefixes(scenario_));
    keep_open_ = true;  // a request's session must be found again
  }
  if (const auto* closed = std::get_if<ClosedLoop>(&scenario_.workload.load)) think_ = to_nanos(closed->think);
  if (scenario_.workload.duration.count() > 0) send_until_ = to_nanos(scenario_.workload.duration);
  draw_arrival();
  if (planned_ == 0) planned_ = scenario_.workload.requests;
  constexpr std::int64_t kMostReserved = 1 << 22;  // a run may stop long before it has sent all planned requests
  out_.reserve(static_cast<std::size_t>(std::min(planned_, kMostReserved)));
}

// All users of a closed loop send at the start, one after the other. A counter suffices, so no list of them is kept.
void Clients::draw_arrival() {
  if (sessions_ && !sessions_->may_begin()) {
    next_arrival_.reset();
    return;
  }
  if (closed_) {
    next_arrival_ = !exhausted_ && unsent_users_-- > 0 ? std::optional<Nanos>(0) : std::nullopt;
    return;
  }
  // Only the first turns among a trace's rows arrive by themselves; the others follow answers.
  do {
    next_arrival_ = workload_.next_arrival();
    ++arrivals_;
  } while (next_arrival_ && sessions_ && !sessions_->begins_at(arrivals_ - 1));
  if (!next_arrival_) return;
  if (last_arrival_ >= 0) {
    const double gap = 1e-9 * static_cast<double>(*next_arrival_ - last_arrival_);
    ++gaps_;
    gap_sum_ += gap;
    gap_square_sum_ += gap * gap;
  }
  last_arrival_ = *next_arrival_;
}

// Computed from the arrivals actually drawn, because traces and bursts have no distribution.
double Clients::gap_scv() const {
  // Turns of sessions are sent too, but only the first ones arrive.
  const double gaps = sessions_ ? gaps_ : static_cast<double>(sent_ - 1);
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
  // Attempts that queue behind tokens enter when they are sent, which is an event of its own.
  if (front_end_.streams()) return entered_.empty() ? sent : std::min(sent, entered_.front().delivery);
  return sent == sched::kNever ? sched::kNever : front_end_.delivery(sent);
}

// Drawn arrivals come one by one from the workload; repetitions and users that send again are in the heap. At equal
// times the arrival goes first.
Clients::Send Clients::take_sending() {
  if (next_arrival_ && (sends_.empty() || *next_arrival_ <= sends_.front().time)) {
    Send arrival{.time = *next_arrival_, .order = 0, .client = 0, .fresh = true};
    if (sessions_) arrival.client = sessions_->begin(arrivals_ - 1, arrival.time);
    draw_arrival();
    return arrival;
  }
  std::pop_heap(sends_.begin(), sends_.end(), kLater);
  const Send next = sends_.back();
  sends_.pop_back();
  return next;
}

std::optional<Attempt> Clients::send(Nanos now) {
  if (front_end_.streams()) return send_entered(now);
  while (next_send() <= now) {
    const Send next = take_sending();
    front_end_.enter(next.time);
    if (std::optional<Attempt> attempt = open_or_repeat(next)) return attempt;
  }
  return {};
}

std::optional<Attempt> Clients::send_entered(Nanos now) {
  while (next_sending() <= now) {
    const Send next = take_sending();
    entered_.push_back({front_end_.enter(next.time), next});
  }
  while (!entered_.empty() && entered_.front().delivery <= now) {
    const Send next = entered_.front().send;
    entered_.pop_front();
    if (std::optional<Attempt> attempt = open_or_repeat(next)) return attempt;
  }
  return {};
}

std::optional<Attempt> Clients::open_or_repeat(const Send& send) {
  if (!send.fresh) return repeat(send.client, send.time);
  std::optional<Attempt> first = open_request(send);
  if (!first) next_arrival_.reset();
  return first;
}

// Every request has been drawn; only retries remain. Pending first sends and arrivals are removed, so that the run ends
// with its last request and not with a user's last pause.
void Clients::end_fresh_sends() {
  exhausted_ = true;
  next_arrival_.reset();
  std::erase_if(sends_, [](const Send& send) { return send.fresh; });
  std::erase_if(entered_, [](const Entered& entered) { return entered.send.fresh; });
  std::make_heap(sends_.begin(), sends_.end(), kLater);
}

std::optional<RequestBody> Clients::next_body(const Send& send) {
  if (!sessions_) return workload_.next_body();
  return workload_.count_turn() ? std::optional(sessions_->turn(send.client)) : std::nullopt;
}

// Draws the next logical request. Returns nullopt if the workload is exhausted.
std::optional<Attempt> Clients::open_request(const Send& send) {
  const Nanos time = send.time;
  const std::optional<RequestBody> body = next_body(send);
  if (!exhausted_ && workload_.exhausted()) end_fresh_sends();
  if (!body) return {};
  sched::NewRequest request;
  request.client = keep_open_ ? keep(*body, time) : next_id_;
  request.input = body->input_tokens;
  request.output = body->output_tokens;
  request.max_new = body->max_new_tokens;
  request.sent = time;
  request.session = body->session;
  request.priority = body->priority;
  if (uses_prefixes(scenario_)) request.prefix_hashes = body->prefix_hashes;
  request.hash_block_tokens = body->hash_block_tokens;
  request.content = body->content_tokens;
  request.hashes_chain = body->hashes_chain;
  if (sessions_) {
    sessions_of_.resize(requests_.size());
    sessions_of_[request.client] = send.client;
  }
  if (keep_rows_) request.name = open_rows_[request.client].name;
  ++next_id_;
  ++open_;
  ++sent_;
  last_sent_ = time;
  return attempt(request, time);
}

// Keeps what outlives the first attempt of a request. Returns its handle.
ClientId Clients::keep(const RequestBody& body, Nanos time) {
  ClientId client;
  if (free_.empty()) {
    client = static_cast<ClientId>(requests_.size());
    requests_.emplace_back();
  } else {
    client = free_.back();
    free_.pop_back();
  }
  requests_[client] = {.sent = time,
                       .id = next_id_,
                       .input = body.input_tokens,
                       .output = body.output_tokens,
                       .max_new = body.max_new_tokens,
                       .open = true};
  const bool hashes = uses_prefixes(scenario_) && !body.prefix_hashes.empty();
  if (scenario_.limits.retries > 0 && (!prompts_.empty() || body.session != 0 || body.priority != 0 || hashes)) {
    if (client >= prompts_.size()) prompts_.resize(requests_.size());
    Prompt& prompt = prompts_[client];
    prompt.session = body.session;
    prompt.priority = body.priority;
    prompt.hash_block_tokens = body.hash_block_tokens;
    prompt.content = body.content_tokens;
    prompt.hashes_chain = body.hashes_chain;
    prompt.hashes.clear();
    if (hashes) prompt.hashes.assign(body.prefix_hashes.begin(), body.prefix_hashes.end());
  }
  if (keep_rows_) {
    if (client >= open_rows_.size()) open_rows_.resize(client + 1);
    sched::RequestRow& row = open_rows_[client] = {};
    row.id = next_id_;
    row.name = body.name.empty() ? "r" + std::to_string(next_id_) : std::string(body.name);
    row.arrival = time;
    row.input = body.input_tokens;
    row.output = body.output_tokens;
    row.priority = body.priority;
    if (sessions_) row.session = body.session;
  }
  return client;
}

Attempt Clients::repeat(ClientId client, Nanos sent) {
  const OpenRequest& open = requests_[client];
  sched::NewRequest request;
  request.client = client;
  request.input = open.input;
  request.output = open.output;
  request.max_new = open.max_new;
  request.sent = open.sent;
  if (client < prompts_.size()) {
    const Prompt& prompt = prompts_[client];
    request.session = prompt.session;
    request.priority = prompt.priority;
    request.prefix_hashes = prompt.hashes;
    request.hash_block_tokens = prompt.hash_block_tokens;
    request.content = prompt.content;
    request.hashes_chain = prompt.hashes_chain;
  }
  if (keep_rows_) request.name = open_rows_[client].name;
  return attempt(request, sent);
}

Attempt Clients::attempt(const sched::NewRequest& request, Nanos sent) {
  attempt_sent_ = sent;
  Attempt a{request.client, request};
  a.request.serial = next_serial_++;
  if (keep_open_) {
    OpenRequest& open = requests_[a.client];
    ++open.attempts;
    open.serial = static_cast<std::uint32_t>(a.request.serial);
    open.replica = -1;
    open.replica_id = sched::kNoRequest;
    open.waits_to_resend = false;
  }
  return a;
}

void Clients::dispatched(ClientId client, std::int32_t replica, std::optional<sched::ReqId> id, Nanos now) {
  if (!keep_open_) return;
  OpenRequest& open = requests_[client];
  open.replica = replica;
  open.replica_id = id.value_or(sched::kNoRequest);
  if (keep_rows_) {  // the row describes the last attempt
    open_rows_[client].replica = replica;
    open_rows_[client].dispatched = now;
  }
  if (timeout_ > 0 && id) timeouts_.push_back({std::max(now, attempt_sent_ + timeout_), client, open.serial});
}

// Ends an attempt whose replica did not report the end.
sched::FinishedAttempt Clients::failed(ClientId client, sched::Outcome outcome, const char* code) const {
  PLIMSOLL_CHECK(keep_open_, "attempts fail only if clients time out or replicas come and go");
  const OpenRequest& open = requests_[client];
  sched::FinishedAttempt ended;
  ended.client = client;
  ended.outcome = outcome;
  if (outcome == sched::Outcome::rejected) ended.http = kUnavailable;
  ended.code = code;
  ended.input = open.input;
  ended.output = open.output;
  ended.sent = open.sent;
  return ended;
}

void Clients::refuse(ClientId client, Nanos now) {
  fail_or_retry(failed(client, sched::Outcome::rejected, "no replica serves"), now);
}

// A scan over all open requests: failures are rare, and an index by replica would cost every request.
void Clients::lose(std::int32_t replica, Nanos now) {
  for (ClientId client = 0; client < requests_.size(); ++client) {
    const OpenRequest& open = requests_[client];
    if (!open.open || open.waits_to_resend || open.replica != replica || open.replica_id == sched::kNoRequest) continue;
    fail_or_retry(failed(client, sched::Outcome::rejected, "the replica failed"), now);
  }
}

// Returns whether the client still waits for this attempt.
bool Clients::is_open(ClientId client, std::uint64_t serial) const {
  if (!keep_open_) return true;
  const OpenRequest& open = requests_[client];
  return open.open && open.serial == serial && !open.waits_to_resend;
}

std::optional<TimedOut> Clients::time_out(Nanos now) {
  while (!timeouts_.empty() && timeouts_.front().deadline <= now) {
    const Deadline due = timeouts_.front();
    timeouts_.pop_front();
    if (!is_open(due.client, due.serial)) continue;
    const OpenRequest& open = requests_[due.client];
    const TimedOut out{std::int64_t{open.input} + open.max_new, open.replica, open.replica_id, due.serial};
    fail_or_retry(failed(due.client, sched::Outcome::timed_out), now);
    return out;
  }
  return {};
}

bool Clients::ended(const sched::FinishedAttempt& ended, Nanos now) {
  if (!is_open(ended.client, ended.serial)) return false;
  if (keep_rows_) open_rows_[ended.client].preemptions += ended.preemptions;
  if (ended.outcome == sched::Outcome::rejected) {
    fail_or_retry(ended, now);
    return true;
  }
  sched::RequestResult result;
  result.sent = ended.sent;
  result.first_token = ended.first_token;
  result.end = now;
  result.input = ended.input;
  result.output = ended.output;
  result.generated = ended.generated;
  result.outcome = ended.outcome;
  result.queue_s = ended.queue_s;
  result.preempt_s = ended.preempt_s;
  result.service = ended.service;
  result.stages = ended.stages;
  // Ids count from 0, so the first ones are those that all users send at once.
  const std::uint32_t id = keep_open_ ? requests_[ended.client].id : ended.client;
  const LoadSpec& load = scenario_.workload.load;
  const bool waves = closed_ && !std::holds_alternative<JumpStart>(load);
  result.first_wave = waves && id < static_cast<std::uint64_t>(users(load));
  // Requests of the warm-up count for the load, not for the mean wait.
  queue_ += result.sent >= warmup_ ? ended.queue_s : 0;
  out_.add(result);
  close(ended, now);
  return true;
}

void Clients::fail_or_retry(const sched::FinishedAttempt& ended, Nanos now) {
  if (keep_open_ && requests_[ended.client].attempts <= scenario_.limits.retries) {
    requests_[ended.client].waits_to_resend = true;
    push_send(now + back_off(requests_[ended.client].attempts), ended.client, false);
    return;
  }
  sched::RequestResult result;
  result.sent = ended.sent;
  result.end = now;
  result.input = ended.input;
  result.output = ended.output;
  result.generated = ended.generated;
  result.outcome = ended.outcome;
  result.code = ended.code;
  result.unfit = ended.outcome == sched::Outcome::rejected && ended.unfit;
  out_.add(result);
  close(ended, now);
}

void Clients::close(const sched::FinishedAttempt& ended, Nanos now) {
  --open_;
  ++finished_;
  last_end_ = std::max(last_end_, now);
  // By Little's law the time average of the requests in the system is this sum over the measured time.
  in_system_ += 1e-9 * static_cast<double>(std::max<Nanos>(0, now - std::max(ended.sent, warmup_)));
  if (keep_rows_) {
    sched::RequestRow& row = open_rows_[ended.client];
    row.outcome = ended.outcome;
    row.http = ended.http;
    row.code = ended.code;
    row.first_token = ended.first_token;
    row.generated = ended.generated;
    row.end = now;
    if (ended.stages != nullptr) row.stages = *ended.stages;
    rows_.push_back(std::move(row));
  }
  // A closed-loop user sends again after its think time, with an extra pause if the service refused.
  if (sessions_)
    next_turn(ended, now);
  else if (closed_)
    push_send(now + think_ + (ended.outcome == sched::Outcome::rejected ? back_off(1) : 0), 0, true);
  if (!keep_open_) return;
  requests_[ended.client].open = false;
  free_.push_back(ended.client);
}

// A session whose turn failed ends. Its user begins the next one, after an extra pause if the service refused.
void Clients::next_turn(const sched::FinishedAttempt& ended, Nanos now) {
  const SessionSlot slot = sessions_of_[ended.client];
  if (ended.outcome == sched::Outcome::completed) {
    if (const std::optional<Nanos> next = sessions_->answered(slot, now)) {
      push_send(*next, slot, true);
      return;
    }
  } else {
    sessions_->end(slot);
  }
  if (!closed_ || !sessions_->may_begin()) return;
  const Nanos begins = now + (ended.outcome == sched::Outcome::rejected ? back_off(1) : 0);
  push_send(begins, sessions_->begin(0, begins), true);
}

// Rows are written when requests end; files list them in the order in which they were sent.
std::vector<sched::RequestRow> Clients::take_rows() {
  std::sort(rows_.begin(), rows_.end(),
            [](const sched::RequestRow& a, const sched::RequestRow& b) { return a.id < b.id; });
  return std::move(rows_);
}

}  // namespace plimsoll::load
