// SPDX-License-Identifier: Apache-2.0
#include "serve/arrivals.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace plimsoll::serve {

// Real clients take a moment to react to an answer or to start together; simulated ones take only kApart each. The
// times set here let real requests join the same steps as in the simulation.
Nanos Arrivals::time_of_arrival(Nanos now) {
  if (gap_ == 0) return now;
  const bool belongs = expected_ > 0 && now < closes_;
  if (!belongs && count_ > 0) return now;
  if (!belongs) {  // the server was idle
    instant_ = now;
    patience_ = gap_;
    belonging_ = 0;
    expected_ = std::numeric_limits<std::int64_t>::max();
  }
  --expected_;
  // A request that was received before told() must not close the instant earlier.
  const Nanos closes = std::min(now + patience_, instant_ + longest_);
  closes_ = belongs ? std::max(closes_, closes) : closes;
  return std::min(now, instant_ + load::kApart * belonging_++);
}

// A Python program needs several milliseconds to send its next requests. That delay is small beside a long step, unless
// the requests miss the step's beginning and wait for the next one. Waiting a tenth of a step hardly changes the times
// of an open loop.
void Arrivals::told(Nanos now, Nanos step) {
  if (!ends_untold_) return;
  constexpr Nanos kShareOfStep = 10;
  ends_untold_ = false;
  patience_ = std::max(gap_, std::min(step / kShareOfStep, longest_));
  closes_ = std::min(now + patience_, instant_ + longest_);
}

Nanos Arrivals::awaited_until(Nanos time) const {
  const bool awaits = gap_ > 0 && expected_ > 0 && instant_ >= 0 && front_end_.delivery(instant_) <= time;
  return awaits ? closes_ : -1;
}

ClientId Arrivals::add(NewCall call, Nanos now) {
  const Nanos sent = time_of_arrival(now);
  if (free_.empty()) {
    free_.push_back(static_cast<ClientId>(open_.size()));
    open_.emplace_back();
  }
  const ClientId client = free_.back();
  free_.pop_back();
  open_[client] = {.call = std::move(call), .serial = serials_++, .sent = sent, .open = true};
  queue_.push_back({client, open_[client].serial, front_end_.streams() ? front_end_.enter(sent) : 0});
  ++count_;
  return client;
}

void Arrivals::close(ClientId client) {
  open_[client] = {};
  free_.push_back(client);
  --count_;
}

void Arrivals::drop_left() {
  while (!queue_.empty() && !is_open(queue_.front().client, queue_.front().serial)) queue_.pop_front();
}

void Arrivals::leave(ClientId client, Nanos now) {
  const Open& request = open_[client];
  if (request.id != sched::kNoRequest) {
    const std::int64_t tokens = std::int64_t{request.call.input} + request.call.cap;
    left_.push_back({now, {tokens, request.replica, request.id, request.serial}});
  }
  close(client);
  drop_left();
}

std::optional<ClientId> Arrivals::client_of(std::size_t slot, sched::ReqId id, std::uint64_t serial) const {
  if (id >= handles_[slot].size()) return {};
  const ClientId client = handles_[slot][id];
  if (!is_open(client, serial)) return {};
  return client;
}

Nanos Arrivals::next_send() const {
  if (queue_.empty()) return sched::kNever;
  return front_end_.streams() ? queue_.front().delivery : front_end_.delivery(open_[queue_.front().client].sent);
}

std::optional<load::Attempt> Arrivals::send(Nanos now) {
  if (next_send() > now) return {};
  const ClientId client = queue_.front().client;
  const Open& request = open_[client];
  if (!front_end_.streams()) front_end_.enter(request.sent);
  queue_.pop_front();
  drop_left();
  load::Attempt attempt{.client = client, .request = {}};
  attempt.request.serial = request.serial;
  attempt.request.client = client;
  attempt.request.input = request.call.input;
  attempt.request.output = request.call.output;
  attempt.request.max_new = request.call.cap;
  attempt.request.sent = request.sent;
  attempt.request.session = request.call.session;
  attempt.request.priority = request.call.priority;
  attempt.request.prefix_hashes = request.call.hashes;
  attempt.request.hash_block_tokens = request.call.hash_tokens;
  return attempt;
}

void Arrivals::dispatched(ClientId client, std::int32_t replica, std::optional<sched::ReqId> id, Nanos /*now*/) {
  Open& request = open_[client];
  request.replica = replica;
  if (!id) return;
  request.id = *id;
  request.call.hashes = {};  // the replica has its own copy
  std::vector<ClientId>& handles = handles_[static_cast<std::size_t>(replica)];
  if (*id >= handles.size()) handles.resize(*id + 1);
  handles[*id] = client;
}

void Arrivals::refuse(ClientId client, Nanos now) {
  listener_.failed(client, "no replica serves", now);
  close(client);
}

void Arrivals::lose(std::int32_t replica, Nanos now) {
  std::erase_if(left_, [replica](const Left& left) { return left.attempt.replica == replica; });
  for (ClientId client = 0; client < open_.size(); ++client) {
    if (!open_[client].open || open_[client].replica != replica || open_[client].id == sched::kNoRequest) continue;
    listener_.failed(client, "the replica failed", now);
    close(client);
  }
}

std::optional<load::TimedOut> Arrivals::time_out(Nanos now) {
  if (next_timeout() > now) return {};
  const load::TimedOut out = left_.front().attempt;
  left_.pop_front();
  return out;
}

bool Arrivals::ended(const sched::FinishedAttempt& ended, Nanos /*now*/) {
  if (!is_open(ended.client, ended.serial)) return false;
  if (ended.outcome == sched::Outcome::completed) {
    if (!ends_untold_) {
      expected_ = belonging_ = 0;
      patience_ = gap_;
    }
    ends_untold_ = true;
    instant_ = std::max(instant_, ended.end);
    ++expected_;
  }
  listener_.ended(ended.client, ended);
  close(ended.client);
  return true;
}

}  // namespace plimsoll::serve
