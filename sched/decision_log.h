// SPDX-License-Identifier: Apache-2.0
// The decision log (docs/policies.md): one line per step, `k: F[; F][ +C][ !A,B][ rejected(C 429, D 503)]`. The
// simulator and the executor write the same log. It costs nothing when it is disabled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sched/decision.h"
#include "sched/request_table.h"

namespace plimsoll::sched {

/// The text of decisions.txt. Costs nothing if not enabled.
class DecisionLog {
 public:
  explicit DecisionLog(bool enabled) : enabled_(enabled) {}
  [[nodiscard]] bool enabled() const { return enabled_; }
  /// Sets the request's name in the log. Requests outside scripts have an empty name and are printed as r<serial>.
  void name(ReqId id, std::uint64_t serial, std::string_view name);
  /// Records a refused request. It is printed on the next step's line, or on a last line `end:`.
  void reject(std::string_view name_or_serial, std::uint16_t http);
  void reject(ReqId id, std::uint16_t http) {
    if (enabled_) reject(names_[id], http);
  }
  /// Records the decision's preemptions and swap-ins. If the decision has no forward, they are printed on the next
  /// step's line.
  void note_moves(const Decision& decision);
  /// Formats the decided step together with the moves and refusals recorded so far. `order` is the policy's batch
  /// order; its members of the decode group decode.
  void plan(const Decision& decision, std::span<const ReqId> order, const RequestTable& table);
  /// Gives the next step this number: scripts skip step numbers while there is nothing to do.
  void jump_to(std::int64_t step) { step_ = step - 1; }
  /// Reports that `steps` of the planned step ran.
  void ran(std::int64_t steps);
  /// Writes the refusals that no step has printed. Call once, after the last step.
  void finish();
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Returns the text since the last call, and clears it.
  [[nodiscard]] std::string take() { return std::exchange(text_, {}); }

 private:
  [[nodiscard]] std::string take_suffix();
  void append_forward(const Forward& forward, std::span<const ReqId> order, const RequestTable& table);
  bool enabled_ = false;
  std::int64_t step_ = 0;
  std::vector<std::string> names_;                           // by ReqId
  std::vector<std::string> moves_in_, moves_out_, rejects_;  // pending for the next line
  std::string planned_, planned_suffix_, text_;
};

}  // namespace plimsoll::sched
