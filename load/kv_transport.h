// SPDX-License-Identifier: Apache-2.0
// Carries KV from prefill to decode replicas. Simulated runs compute the times (transfer_links.h); another runner may
// supply its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "sched/types.h"

namespace plimsoll::load {

class KvTransport {
 public:
  using Id = std::int32_t;
  /// Bandwidths in bytes per second: of all links of one replica, and of a single transfer. Infinity: no limit.
  struct Rates {
    double source = std::numeric_limits<double>::infinity(), target = std::numeric_limits<double>::infinity();
    double path = std::numeric_limits<double>::infinity();
    /// Returns the rate of a transfer that shares no link.
    [[nodiscard]] double alone() const;
  };
  /// The tokens [first, last) of a prompt, by the request's handles on both replicas. `first` begins a block.
  struct Cargo {
    std::uint64_t serial = 0;
    sched::ReqId source = sched::kNoRequest, target = sched::kNoRequest;
    sched::Tok first = 0, last = 0;
  };
  /// A piece of a transfer. It starts at `ready` or after the piece before it, whichever is later. It takes `fixed_s`
  /// seconds that do not load the links, then sends its bytes. It arrives at `not_before` at the earliest.
  struct Part {
    double ready_s = 0, fixed_s = 0, bytes = 0, not_before_s = 0;
    Cargo cargo = {};
  };

  explicit KvTransport(const Rates& rates) : rates_(rates) {}
  virtual ~KvTransport() = default;
  KvTransport(const KvTransport&) = delete;
  KvTransport& operator=(const KvTransport&) = delete;

  /// Opens a transfer without parts, from a prefill to a decode replica. The id may be used again after the transfer
  /// has ended.
  [[nodiscard]] virtual Id open(std::size_t source, std::size_t target) = 0;
  /// Appends a part. All times of parts are seconds since the start of the run.
  virtual void add(Id id, const Part& part, double now_s) = 0;
  /// No further parts follow: take() reports the transfer when the last one has arrived. The prompt is computed.
  virtual void finish(Id id, double now_s) = 0;
  /// Ends a transfer that is no longer needed. The blocks on both sides may then be reused.
  virtual void abort(Id id, double now_s) = 0;

  /// Returns when something may happen next; kNever if nothing is under way, or if the runner learns of it by itself.
  [[nodiscard]] virtual Nanos next_event() const = 0;
  /// Returns the next transfer that ended by `now`; nullopt if there is none.
  [[nodiscard]] virtual std::optional<Id> take(Nanos now) = 0;
  [[nodiscard]] const Rates& rates() const { return rates_; }

 protected:
  Rates rates_;
};

}  // namespace plimsoll::load
