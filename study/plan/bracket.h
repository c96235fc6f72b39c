// SPDX-License-Identifier: Apache-2.0
// Finds the largest load that passes a test, between a load that passes and one that fails. It asks for one load at a
// time, so that many brackets can run side by side.
#pragma once

#include <optional>

namespace plimsoll::study::plan {

/// Starts at `start` > 0 and moves by factors of `stride` until both ends are found. Then it halves the gap until it is
/// below `tolerance` of the load.
struct BracketSpec {
  double start = 1, stride = 2, tolerance = 0.01;
  bool whole = false;  // loads are whole numbers
  double least = 0;    // no smaller load is tested
};

/// One search for the largest load that passes: a bisection that begins with a guess and narrows with each answer.
class Bracket {
 public:
  explicit Bracket(const BracketSpec& spec);

  /// Returns the next load to test; nullopt when the bracket is settled.
  [[nodiscard]] std::optional<double> next() const;
  /// Reports whether a load passed. It need not be the load that next() returned.
  void answer(double load, bool passes);
  /// Stops the search and keeps the result: other loads would give no new information.
  void end_search() { ended_ = true; }
  /// Return the largest load that passed, and the smallest larger load that failed. 0 and nullopt if there is none
  /// between start / 2^24 and start * 2^12.
  [[nodiscard]] double passing() const { return passing_; }
  [[nodiscard]] std::optional<double> failing() const { return failing_; }
  /// Returns the middle of the two; 0 if nothing passes.
  [[nodiscard]] double value() const;

 private:
  [[nodiscard]] double rounded(double load) const;
  double start_, stride_, tolerance_, least_;
  bool whole_, ended_ = false;
  double passing_ = 0;
  std::optional<double> failing_;
};

}  // namespace plimsoll::study::plan
