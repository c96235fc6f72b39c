// SPDX-License-Identifier: Apache-2.0
// KV transfers between replicas, which share the links of both ends. A transfer sends at
// min(source rate / transfers sending there, target rate / transfers sending there, path rate). The rates change when a
// transfer starts or stops sending, so the times are exact for these rates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "sched/types.h"

namespace plimsoll::load {

class TransferLinks {
 public:
  /// Bytes per second of all links of one replica, and the most that one transfer may use. Infinity: no limit.
  struct Rates {
    double source = std::numeric_limits<double>::infinity(), target = std::numeric_limits<double>::infinity();
    double path = std::numeric_limits<double>::infinity();
    /// Returns the rate of a transfer that shares nothing.
    [[nodiscard]] double alone() const;
  };
  /// A piece of a transfer. It starts at `ready` or after the piece before it. First it takes `fixed_s` seconds that do
  /// not load the links, then it sends its bytes. It has not arrived before `not_before`, whatever the rate.
  struct Part {
    double ready_s = 0, fixed_s = 0, bytes = 0, not_before_s = 0;
  };
  using Id = std::int32_t;

  TransferLinks(const Rates& rates, std::size_t sources, std::size_t targets);
  /// Opens a transfer without parts. The id may be used again after the transfer has ended.
  [[nodiscard]] Id open(std::size_t source, std::size_t target);
  /// Appends a part. All times of parts are seconds since the start of the run.
  void add(Id id, const Part& part, double now_s);
  /// No further parts follow: take() reports the transfer when the last one has arrived.
  void finish(Id id, double now_s);
  /// Ends a transfer that is not needed any more.
  void abort(Id id, double now_s);

  /// Returns when something may happen next; kNever if nothing is under way.
  [[nodiscard]] Nanos next_event() const;
  /// Returns the next transfer that ended by `now`; nullopt if there is none.
  [[nodiscard]] std::optional<Id> take(Nanos now);
  [[nodiscard]] const Rates& rates() const { return rates_; }
  /// Returns the bytes that have been sent, those of aborted transfers included.
  [[nodiscard]] double bytes_sent() const { return sent_; }
  /// Returns the transfers that are open.
  [[nodiscard]] std::int64_t open_transfers() const { return open_; }

 private:
  enum class Phase : std::uint8_t { closed, idle, fixed, sending, arriving, done };
  struct Flow {
    std::size_t source = 0, target = 0;
    std::deque<Part> parts;
    Phase phase = Phase::closed;
    bool finished = false;
    double remaining = 0, rate = 0, since = 0;  // of the part that is sent: bytes left at `since`
    double ends = 0;                            // when the phase ends, seconds
  };

  void begin(Id id, double now_s);
  void end_phase(Id id, double now_s);
  void leave_links(Id id, double now_s);
  void share(std::size_t source, std::size_t target, double now_s);
  void find_next();
  [[nodiscard]] Flow& flow(Id id) { return flows_[static_cast<std::size_t>(id)]; }

  Rates rates_;
  std::vector<Flow> flows_;
  std::vector<Id> free_, active_, done_;         // active_: all that have a phase with an end
  std::vector<std::int32_t> sources_, targets_;  // transfers that send, by replica
  double sent_ = 0, next_ = std::numeric_limits<double>::infinity();
  std::int64_t open_ = 0;
};

}  // namespace plimsoll::load
