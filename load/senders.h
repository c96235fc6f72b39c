// SPDX-License-Identifier: Apache-2.0
// The senders of a run's requests, which also learn how they end: the simulated clients of a workload (clients.h), or
// the clients of a server in real time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "load/workload.h"
#include "sched/replica.h"

namespace plimsoll::load {

/// Handle of a logical request that is still open.
using ClientId = std::uint32_t;

/// An attempt to deliver.
struct Attempt {
  ClientId client = 0;
  sched::NewRequest request;  // the serial is the order of sending
};

/// An attempt whose client gave up.
struct TimedOut {
  std::int64_t tokens = 0;  // input + cap, as the router counted them
  std::int32_t replica = 0;
  sched::ReqId id = 0;
  std::uint64_t serial = 0;
};

/// The delays of an attempt before it is delivered in simulated runs; a real engine has its own front end.
struct FrontEnd {
  Seconds intake{0};  // first: attempts queue; as many in parallel as there are replicas, each for this long
  Seconds delay{0};   // then: every attempt is delayed by this, without queueing
  /// The intake's process also sends each output token, which takes this long; attempts queue behind tokens.
  Seconds stream{0};
  /// Returns the tokens that all replicas have produced by `now`. Must be set if `stream` is not 0.
  std::function<std::int64_t(Nanos now)> tokens = {};
  OutputDrift drift = {};  // drift of equal requests in a closed loop
};

/// Clients that wait for the same instant do not reach a server simultaneously: each sends this much later than the one
/// before. An idle engine therefore begins with the first request alone.
inline constexpr Nanos kApart = 1'000;

/// Computes when attempts leave the front end, which processes them in order of sending.
class FrontEndQueue {
 public:
  /// There are as many parallel front ends as replicas; each takes attempts at least `apart` apart.
  FrontEndQueue(const FrontEnd& front_end, std::int32_t replicas, Nanos apart = 0);
  /// Returns whether attempts queue behind tokens. They must then enter when they are sent, since tokens put out later
  /// do not delay them; otherwise they may enter at any later time.
  [[nodiscard]] bool streams() const { return stream_ > 0; }
  /// Returns when an attempt sent at `sent` would be delivered if it entered next; of the tokens, only those noted
  /// before count.
  [[nodiscard]] Nanos delivery(Nanos sent) const {
    if (busy_until_.empty()) return sent + delay_;
    return std::max(sent, busy_until_.front()) + intake_ + delay_;
  }
  /// Makes an attempt sent at `sent` enter. Returns when it is delivered.
  Nanos enter(Nanos sent);

 private:
  void note_tokens(Nanos now);

  Nanos intake_ = 0, delay_ = 0, apart_ = 0;
  double stream_ = 0;              // nanoseconds that one front end works for each token sent by any replica
  std::vector<Nanos> busy_until_;  // min-heap of the times at which each is free again; empty: none is ever busy
  std::function<std::int64_t(Nanos)> tokens_;
  std::int64_t noted_ = 0;  // tokens whose time busy_until_ includes
  Nanos look_ = 0;          // when tokens are counted again
};

/// Sends attempts and learns how they end. Called from one thread.
class Senders {
 public:
  virtual ~Senders() = default;

  /// Returns when the next attempt is delivered; kNever if none is on its way.
  [[nodiscard]] virtual Nanos next_send() const = 0;
  /// Returns when the next client may give up; kNever if none may.
  [[nodiscard]] virtual Nanos next_timeout() const = 0;
  /// Returns the next attempt that is delivered by `now`, in order of sending; nullopt if there is none. The request's
  /// spans and name are valid until the next call.
  [[nodiscard]] virtual std::optional<Attempt> send(Nanos now) = 0;
  /// Records that the attempt of `client` reached `replica`, and its handle there; no handle if it was refused.
  virtual void dispatched(ClientId client, std::int32_t replica, std::optional<sched::ReqId> id, Nanos now) = 0;
  /// Fails the attempt at once, because no replica serves.
  virtual void refuse(ClientId client, Nanos now) = 0;
  /// Fails every open attempt on a replica that died.
  virtual void lose(std::int32_t replica, Nanos now) = 0;
  /// Returns the next open attempt whose client gives up at or before `now`.
  [[nodiscard]] virtual std::optional<TimedOut> time_out(Nanos now) = 0;
  /// Reports that an attempt left its replica. Returns false, and ignores it, if its client had given up.
  virtual bool ended(const sched::FinishedAttempt& ended, Nanos now) = 0;
  /// Returns whether no request is open and none will be sent.
  [[nodiscard]] virtual bool done() const = 0;
};

}  // namespace plimsoll::load
