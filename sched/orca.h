// SPDX-License-Identifier: Apache-2.0
// Orca: iteration-level scheduling. Requests join and leave between steps; every step decodes all running requests and
// prefills all newly admitted ones in one mixed forward. Requests are admitted in order of arrival, each when there is
// room for everything it may ever store, so nothing is preempted. `reserve` selects how much that is, as in the Orca
// variants of the vLLM paper: the longest sequence (max_len), the next power of two above the output (pow2), the user's
// cap (request_cap), or exactly what the request needs (oracle).
#pragma once

#include <cstdint>

#include "sched/rows.h"

namespace plimsoll::sched {

class Orca final : public QueuePolicy {
 public:
  explicit Orca(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;

 private:
  [[nodiscard]] std::int64_t reserved_tokens(const Request& request, Tok reserve) const;

  PolicyConfig config_;
  Reserve reserve_;
  std::int64_t max_running_;
};

}  // namespace plimsoll::sched
