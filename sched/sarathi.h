// SPDX-License-Identifier: Apache-2.0
// Sarathi-Serve: stall-free batching. Every step takes all decodes first, then unfinished prefills, then new requests,
// until the chunk size is used up. The blocks of a whole prompt are taken at admission. A decode needs one free block;
// if there is none, the latest running request is preempted (recomputed). A step that preempts admits no request.
#pragma once

#include <cstdint>

#include "sched/rows.h"

namespace plimsoll::sched {

// running_ is in order of arrival.
class Sarathi final : public QueuePolicy {
 public:
  explicit Sarathi(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void decide(Nanos now, const View& view, Decision& out) override;

 private:
  struct Step {
    std::int64_t tokens = 0;  // in the step so far
    Blk free = 0;
    std::int64_t members = 0;  // members of the decode group that stay in the step
    bool preempted = false;
  };
  void schedule_decodes(const View& view, Step& step, Decision& out, Forward& forward);
  void schedule_prefills(const View& view, Step& step, Forward& forward);
  void schedule_waiting(const View& view, Step& step, Decision& out, Forward& forward);

  std::int64_t max_running_, chunk_;
  double watermark_;
  Tok max_len_;
};

}  // namespace plimsoll::sched
