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

#include "load/kv_transport.h"

namespace plimsoll::load {

class TransferLinks : public KvTransport {
 public:
  TransferLinks(const Rates& rates, std::size_t sources, std::size_t targets);
  [[nodiscard]] Id open(std::size_t source, std::size_t target) override;
  void add(Id id, const Part& part, double now_s) override;
  void finish(Id id, double now_s) override;
  void abort(Id id, double now_s) override;

  [[nodiscard]] Nanos next_event() const override;
  [[nodiscard]] std::optional<Id> take(Nanos now) override;
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

  std::vector<Flow> flows_;
  std::vector<Id> free_, active_, done_;         // active_: transfers whose current phase has a known end
  std::vector<std::int32_t> sources_, targets_;  // transfers that send, by replica
  double sent_ = 0, next_ = std::numeric_limits<double>::infinity();
  std::int64_t open_ = 0;
};

}  // namespace plimsoll::load
