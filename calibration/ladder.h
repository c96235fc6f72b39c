// SPDX-License-Identifier: Apache-2.0
// The ladder of short closed loops to which the user's own engine is fitted: the runs, their order, and how many of
// them a given time allows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace plimsoll::calibration {

/// A run of the ladder: a closed loop of `users`.
struct Rung {
  std::int64_t users = 1, input = 1, output = 1;
  /// Returns several rounds of all users, so that the start is only a small part of the run.
  [[nodiscard]] std::int64_t requests() const;
};

/// Returns the rungs of 1 to `most_users` users with every pair of lengths, in the order of measuring. Each round
/// measures every number of users once, with lengths that change from rung to rung. So a ladder that ends early still
/// spans users and lengths.
[[nodiscard]] std::vector<Rung> ordered_rungs(std::int64_t most_users, const std::vector<std::int64_t>& inputs,
                                              const std::vector<std::int64_t>& outputs);

/// Predicts from the measured rungs which of the others will end in time.
class LadderBudget {
 public:
  LadderBudget(std::vector<Rung> rungs, double seconds)
      : rungs_(std::move(rungs)), seconds_(seconds), taken_(rungs_.size()) {}

  /// Returns whether the rung may begin at `now`, in seconds since the ladder began. The next call ends a rung that
  /// began.
  [[nodiscard]] bool fits(std::size_t index, double now);

 private:
  [[nodiscard]] double expected(std::size_t index) const;

  std::vector<Rung> rungs_;
  double seconds_, begun_ = 0;
  std::vector<double> taken_;
  std::optional<std::size_t> last_;
};

}  // namespace plimsoll::calibration
