// SPDX-License-Identifier: Apache-2.0
#include "calibration/ladder.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace plimsoll::calibration {
namespace {

// The order is 1, the largest number, and then always the middle of the widest gap on a logarithmic scale. So a ladder
// that ends early still spans the whole range.
std::vector<std::int64_t> user_counts(std::int64_t most) {
  std::vector<std::int64_t> ladder;
  for (std::int64_t users = 1; users < most; users *= 2) ladder.push_back(users);
  ladder.push_back(most);
  std::vector<std::int64_t> ordered;
  std::vector<bool> taken(ladder.size(), false);
  const auto take = [&](std::size_t index) {
    taken[index] = true;
    ordered.push_back(ladder[index]);
  };
  take(0);
  if (ladder.size() > 1) take(ladder.size() - 1);
  while (ordered.size() < ladder.size()) {
    std::size_t best = 0, best_distance = 0;
    for (std::size_t i = 0; i < ladder.size(); ++i) {
      std::size_t distance = ladder.size();
      for (std::size_t k = 0; k < ladder.size(); ++k)
        if (taken[k]) distance = std::min(distance, i > k ? i - k : k - i);
      if (!taken[i] && distance > best_distance) best = i, best_distance = distance;
    }
    take(best);
  }
  return ordered;
}

}  // namespace

std::int64_t Rung::requests() const { return std::max<std::int64_t>(6, 3 * users); }

std::vector<Rung> ordered_rungs(std::int64_t most_users, const std::vector<std::int64_t>& inputs,
                                const std::vector<std::int64_t>& outputs) {
  std::vector<std::pair<std::int64_t, std::int64_t>> lengths;  // the shortest first
  for (const std::int64_t input : inputs)
    for (const std::int64_t output : outputs) lengths.emplace_back(input, output);
  const std::vector<std::int64_t> users = user_counts(most_users);
  std::vector<Rung> rungs;
  for (std::size_t round = 0; round < lengths.size(); ++round) {
    for (std::size_t i = 0; i < users.size(); ++i) {
      // The first two show how fast the server is, so they have the shortest lengths.
      const auto& [input, output] = lengths[(round + (i > 0 ? i - 1 : 0)) % lengths.size()];
      rungs.push_back({users[i], input, output});
    }
  }
  return rungs;
}

bool LadderBudget::fits(std::size_t index, double now) {
  constexpr std::size_t kAlways = 2;  // these rungs show how fast the server is
  if (last_) taken_[*last_] = now - begun_;
  last_.reset();
  if (index >= kAlways && now + expected(index) > seconds_) return false;
  last_ = index;
  begun_ = now;
  return true;
}

// Bounds a rung's time by each measured rung. The time grows at most in proportion to the prompts or to the answers,
// and with more users at most in proportion to the number of requests. With fewer users, a round of all users takes at
// most as long. The tightest bound counts.
double LadderBudget::expected(std::size_t index) const {
  const auto ratio = [](std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
  const Rung& next = rungs_[index];
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < rungs_.size(); ++i) {
    const Rung& rung = rungs_[i];
    if (!(taken_[i] > 0)) continue;
    const double lengths = std::max(ratio(next.input, rung.input), ratio(next.output, rung.output));
    const double requests = ratio(next.requests(), rung.requests());
    const double rounds = next.users < rung.users ? requests * ratio(rung.users, next.users) : requests;
    best = std::min(best, taken_[i] * lengths * rounds);
  }
  return best == std::numeric_limits<double>::infinity() ? 0 : best;  // all other runs were read from the store
}

}  // namespace plimsoll::calibration
