// SPDX-License-Identifier: Apache-2.0
#include "study/plan/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "study/plan/ranking.h"

namespace plimsoll::study::plan {
namespace {

constexpr double kOff = 0.1;
constexpr std::size_t kMostRivals = 4, kMostNearMisses = 6;
constexpr std::int64_t kRequests = 4000;

struct World {
  const char* what;
  double load = 1, length = 1, step = 1;
};
constexpr std::array<World, 6> kWorlds = {{{"load +10 %", 1 + kOff, 1, 1},
                                           {"load -10 %", 1 - kOff, 1, 1},
                                           {"lengths +10 %", 1, 1 + kOff, 1},
                                           {"lengths -10 %", 1, 1 - kOff, 1},
                                           {"step time +10 %", 1, 1, 1 + kOff},
                                           {"step time -10 %", 1, 1, 1 - kOff}}};

// Those that may lead in one of the worlds: near misses that the objective prefers, and whoever comes after the winner with
// another deployment, not just another batch limit.
std::vector<std::size_t> rivals(const Question& question, const Answer& answer) {
  constexpr double kNear = 2;          // times the limit, or beyond capacity by little
  std::vector<std::size_t> out{*answer.winner};
  std::vector<std::size_t> misses;
  const auto same_fleet = [&](std::size_t a, std::size_t b) {
    const Candidate &c = question.candidates[a], &d = question.candidates[b];
    return c.spec.hardware.label == d.spec.hardware.label && c.spec.deployment.tp == d.spec.deployment.tp &&
           c.spec.deployment.replicas == d.spec.deployment.replicas;
  };
  const auto is_new = [&](const std::vector<std::size_t>& known, std::size_t i) {
    return std::none_of(known.begin(), known.end(), [&](std::size_t k) { return same_fleet(k, i); });
  };
  const double best = answer.entries[*answer.winner].objective.mean;
  for (const std::size_t i : answer.order) {
    const Entry& entry = answer.entries[i];
    if (entry.standing.meets) {
      if (out.size() <= kMostRivals && is_new(out, i)) out.push_back(i);
      continue;
    }
    const bool preferred = is_minimised(question.search.objective) ? entry.objective.mean <= best : entry.objective.mean >= best;
    const bool near = entry.standing.ratio < kNear ||
                      (entry.metrics && entry.metrics->requests_per_s > (1 - 2 * kOff) * traces::load_value(question.spec.workload.load));
    if (preferred && near && misses.size() < kMostNearMisses && is_new(misses, i)) misses.push_back(i);
  }
  out.insert(out.end(), misses.begin(), misses.end());
  return out;
}

// What differs by less than one run can tell is no change.
bool is_as_good(const Entry& entry, const Entry& best) {
  constexpr double kSame = 0.01;
  return entry.standing.meets && std::abs(entry.objective.mean - best.objective.mean) <= kSame * std::abs(best.objective.mean);
}

}  // namespace

std::vector<Sensitivity> sensitivities(const Question& question, Trials& trials, const Answer& answer) {
  const std::vector<std::size_t> contenders = rivals(question, answer);
  const std::int64_t requests = can_be_longer(question.spec) ? std::max(question.spec.workload.requests, kRequests) : 0;
  const auto trial = [&](std::size_t candidate, const World& world) {
    return Trial{.candidate = candidate, .requests = requests, .load_scale = world.load, .length_scale = world.length, .step_scale = world.step};
  };
  std::vector<Trial> todo;
  for (const World& world : kWorlds) {
    for (const std::size_t c : contenders) todo.push_back(trial(c, world));
  }
  trials.run(todo);
  std::vector<Sensitivity> out;
  for (const World& world : kWorlds) {
    Answer other;
    other.entries.resize(answer.entries.size());
    Sensitivity result;
    result.what = world.what;
    for (const std::size_t c : contenders) {
      const PointSpec spec = trial_spec(question.candidates[c].spec, trial(c, world));   // its clock and limits may be scaled
      const sched::PointMetrics* const run = &trials.of(trial(c, world));
      Entry& entry = other.entries[c];
      entry.stage = Stage::screened;
      entry.standing = standing_of(spec, std::span(&run, 1), question.search.confidence);
      entry.objective = objective_of(question, question.candidates[c], entry.standing);
      if (c != *answer.winner) continue;
      result.ratio = entry.standing.ratio;
      if (!entry.standing.checks.empty()) result.check = entry.standing.checks[entry.standing.worst].name;
    }
    rank(question, other, {});
    result.winner = other.winner;
    if (other.winner && is_as_good(other.entries[*answer.winner], other.entries[*other.winner])) result.winner = answer.winner;
    out.push_back(std::move(result));
  }
  return out;
}

}  // namespace plimsoll::study::plan
