// SPDX-License-Identifier: Apache-2.0
// The decision log (docs/policies.md): one line a step, `k: F[; F][ +C][ !A,B][ rejected(C 429, D 503)]`, the same from
// the simulator and from the executor. Free when it is off.
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
  /// Requests outside scripts are called r<serial>.
  void name(ReqId id, std::uint64_t serial, std::string_view name);
  /// A refused request. It is printed on the next step's line, or on a last line `end:`.
  void reject(std::string_view name_or_serial, std::uint16_t http);
  void reject(ReqId id, std::uint16_t http) {
    if (enabled_) reject(names_[id], http);
  }
  /// Preemptions and swap-ins of any decision. Those of a decision without a forward are printed on the next step's
  /// line.
  void note_moves(const Decision& decision);
  /// The text of the decided step with the moves and refusals so far; `order` is the policy's batch order (members of
  /// the decode group among it decode).
  void plan(const Decision& decision, std::span<const ReqId> order, const RequestTable& table);
  /// The next step has this number: scripts skip numbers while nothing is there to do.
  void jump_to(std::int64_t step) { step_ = step - 1; }
  /// `steps` of the planned step ran.
  void ran(std::int64_t steps);
  void finish();
  [[nodiscard]] const std::string& text() const { return text_; }
  /// The text since the last call; it is forgotten here.
  [[nodiscard]] std::string take() { return std::exchange(text_, {}); }

 private:
  [[nodiscard]] std::string take_suffix();
  void append_forward(const Forward& forward, std::span<const ReqId> order, const RequestTable& table);
  bool enabled_ = false;
  std::int64_t step_ = 0;
  std::vector<std::string> names_;                           // by ReqId
  std::vector<std::string> moves_in_, moves_out_, rejects_;  // waiting for the next line
  std::string planned_, planned_suffix_, text_;
};

}  // namespace plimsoll::sched
