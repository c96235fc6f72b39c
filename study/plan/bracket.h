// SPDX-License-Identifier: Apache-2.0
// The largest load that passes a test, between a load that passes and one that fails. Loads are asked for one at a
// time, so that many brackets run side by side.
#pragma once

#include <cstdint>
#include <optional>

namespace plimsoll::study::plan {

/// Begins at `start` > 0 and moves by factors of `stride` until both sides are found, then halves the gap until it is
/// below `tolerance` of the load.
struct BracketSpec {
  double start = 1, stride = 2, tolerance = 0.01;
  bool whole = false;  // loads are whole numbers
  double least = 0;    // nothing below is tested
};

/// A bisection over loads that may begin with a guess; each answer narrows it.
class Bracket {
 public:
  explicit Bracket(const BracketSpec& spec);

  /// The next load to test; nothing when it is settled.
  [[nodiscard]] std::optional<double> next() const;
  void answer(double load, bool passes);
  /// Loads below those that failed, or above those that passed, say nothing more.
  void end_search() { ended_ = true; }
  /// The largest load that passed and the smallest above that failed; 0 and nothing where there is none from
  /// start / 2^24 to start * 2^12.
  [[nodiscard]] double passing() const { return passing_; }
  [[nodiscard]] std::optional<double> failing() const { return failing_; }
  /// Between the two; 0 where nothing passes.
  [[nodiscard]] double value() const;

 private:
  [[nodiscard]] double rounded(double load) const;
  double start_, stride_, tolerance_, least_;
  bool whole_, ended_ = false;
  double passing_ = 0;
  std::optional<double> failing_;
};

}  // namespace plimsoll::study::plan
