// SPDX-License-Identifier: Apache-2.0
// The requests of a served run. They arrive from outside at any time, pass the engine's front end, and end or are
// abandoned by their client. For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "load/senders.h"
#include "sched/replica.h"

namespace plimsoll::serve {

using load::ClientId;

/// What a real model must know about a request.
struct TokenCall {
  std::vector<std::int32_t> prompt;
  double temperature = 0;  // 0: always the most probable token
  std::int32_t top_k = 0;  // 0: all
  double top_p = 1, min_p = 0;
  std::uint64_t seed = 0;
};

/// What the scheduler must know about a request.
struct NewCall {
  sched::Tok input = 1, output = 1, cap = 1;  // output: the true length, at most cap
  std::uint64_t session = 0;
  std::int32_t priority = 0;          // a lower value is served sooner, by policies that know priorities
  std::vector<std::uint64_t> hashes;  // of the blocks of the prompt
  sched::Tok hash_tokens = 0;
  std::shared_ptr<const TokenCall> tokens = {};  // only with a real model; then output is the cap
};

/// Is notified of the progress of requests. `client` may be reused after ended() or failed().
class CallListener {
 public:
  virtual ~CallListener() = default;
  /// A real model has produced the next token of the request. Returns whether it is the last one; produced() or ended()
  /// follows.
  [[nodiscard]] virtual bool took(ClientId /*client*/, std::int32_t /*token*/) { return false; }
  /// The request has `generated` output tokens so far; more will follow.
  virtual void produced(ClientId client, sched::Tok generated, Nanos now) = 0;
  virtual void ended(ClientId client, const sched::FinishedAttempt& attempt) = 0;
  /// The request's replica has failed, or no replica serves.
  virtual void failed(ClientId client, const char* code, Nanos now) = 0;
};

class Arrivals final : public load::Senders {
 public:
  /// The listener must outlive this object.
  Arrivals(std::int32_t replicas, CallListener& listener)
      : front_end_({}, replicas), handles_(static_cast<std::size_t>(replicas)), listener_(listener) {}
  /// Requests that arrive within `gap` of each other, and at most `longest` after the first, may count as sent at one
  /// instant. That holds for requests that follow answers, and for the first ones to an idle server: they get the time
  /// of the instant, load::kApart after each other. Without this call every request keeps its own time.
  void gather(Nanos gap, Nanos longest) {
    gap_ = gap;
    longest_ = longest;
  }
  /// Reports that the ended answers reach their clients at `now`, after a step of `step`. The gap for the requests that
  /// follow them is at least a tenth of the step.
  void told(Nanos now, Nanos step = 0);
  /// Returns when the instant closes, if more of its requests are expected and would be delivered by `time`; else -1.
  [[nodiscard]] Nanos awaited_until(Nanos time) const;
  /// Sets the front end that requests pass before they are delivered. Call it before the first add().
  void pass_through(const load::FrontEnd& front_end) {
    front_end_ = {front_end, static_cast<std::int32_t>(handles_.size())};
  }

  /// Adds a request that a client sends at `now`. Requests are delivered in the order in which they are added.
  ClientId add(NewCall call, Nanos now);
  /// The client has left: its request is cancelled, and the listener is not notified.
  void leave(ClientId client, Nanos now);
  /// Returns the client of the request with handle `id` in a replica; nullopt if it has left.
  [[nodiscard]] std::optional<ClientId> client_of(std::size_t slot, sched::ReqId id, std::uint64_t serial) const;
  [[nodiscard]] const NewCall& call(ClientId client) const { return open_[client].call; }
  [[nodiscard]] Nanos sent(ClientId client) const { return open_[client].sent; }
  /// Returns the replica to which the request was delivered; -1 if none yet.
  [[nodiscard]] std::int32_t replica(ClientId client) const { return open_[client].replica; }
  [[nodiscard]] std::size_t open() const { return count_; }

  // ---- load::Senders ----------------------------------------------------------------------------------------
  [[nodiscard]] Nanos next_send() const override;
  [[nodiscard]] Nanos next_timeout() const override { return left_.empty() ? sched::kNever : left_.front().time; }
  [[nodiscard]] std::optional<load::Attempt> send(Nanos now) override;
  void dispatched(ClientId client, std::int32_t replica, std::optional<sched::ReqId> id, Nanos now) override;
  void refuse(ClientId client, Nanos now) override;
  void lose(std::int32_t replica, Nanos now) override;
  [[nodiscard]] std::optional<load::TimedOut> time_out(Nanos now) override;
  bool ended(const sched::FinishedAttempt& ended, Nanos now) override;
  /// Never true, since more requests may arrive.
  [[nodiscard]] bool done() const override { return false; }

 private:
  struct Open {
    NewCall call;
    std::uint64_t serial = 0;
    Nanos sent = 0;
    std::int32_t replica = -1;
    sched::ReqId id = sched::kNoRequest;
    bool open = false;
  };
  struct Queued {
    ClientId client;
    std::uint64_t serial;
    Nanos delivery;  // if the front end streams; otherwise it is computed when it is needed
  };
  struct Left {
    Nanos time;
    load::TimedOut attempt;
  };

  [[nodiscard]] bool is_open(ClientId client, std::uint64_t serial) const {
    return client < open_.size() && open_[client].open && open_[client].serial == serial;
  }
  [[nodiscard]] Nanos time_of_arrival(Nanos now);
  void close(ClientId client);
  void drop_left();

  load::FrontEndQueue front_end_;
  std::vector<Open> open_;
  std::vector<ClientId> free_;
  std::deque<Queued> queue_;                    // requests in the front end; the first one is open
  std::deque<Left> left_;                       // clients that left while a replica had their request
  std::vector<std::vector<ClientId>> handles_;  // indexed by replica, then by handle
  CallListener& listener_;
  Nanos gap_ = 0, longest_ = 0;
  Nanos patience_ = 0;                // the gap for the instant
  Nanos instant_ = -1, closes_ = -1;  // requests until closes_ were sent at instant_, one shortly after the other
  std::int64_t belonging_ = 0;        // requests of the instant so far
  std::int64_t expected_ = 0;         // how many more are expected
  bool ends_untold_ = false;          // answers ended at instant_, and told() follows
  std::uint64_t serials_ = 0;
  std::size_t count_ = 0;
};

}  // namespace plimsoll::serve
