// SPDX-License-Identifier: Apache-2.0
// One simulation of a candidate: the study's workload, or a variation of it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "sched/metrics_collector.h"
#include "study/file/study.h"

namespace plimsoll::study::plan {

/// Trials that differ in their candidate alone share their random numbers; so do, draw by draw, those that differ in
/// load or length. What a trial asks for is the least: it is made longer until it tells whether the load has a steady
/// state.
inline constexpr double kScreeningLives = sched::kLivesNeeded, kConfirmingLives = 20;

/// One run of one candidate. Equal trials have equal results, so each is run once.
struct Trial {
  std::size_t candidate = 0;
  std::int32_t replication = 0;
  std::int64_t requests = 0;                                // 0: as the study says
  double load = 0;                                          // clients, requests/s, rate scale; 0: as the study says
  double load_scale = 1, length_scale = 1, step_scale = 1;  // of the load, of prompts and answers, of every step's time
  double lives = kScreeningLives;  // mean latencies that an open load lasts at least, where it can be made longer
  std::int32_t replicas = 0;       // that run, each under its share of the load, in place of the fleet; 0: all
  auto operator<=>(const Trial&) const = default;
};

/// The point that is simulated for a trial of a candidate with this spec. With `step_scale` k it runs on a clock of its
/// own, on which k seconds are one: its times must be multiplied by k, and the SLO is scaled already.
[[nodiscard]] PointSpec trial_spec(PointSpec spec, const Trial& trial);

/// Whether some replicas of a fleet under their share of the load tell about what all of them do: a stationary open
/// load whose requests share nothing. They tell it less exactly.
[[nodiscard]] bool can_be_sampled(const PointSpec& spec);
/// For Trial::replicas: `part` of a fleet, two at least, where it can be sampled and they are half of it or less; else
/// 0.
[[nodiscard]] std::int32_t sampled_replicas(const PointSpec& spec, double part);
/// What is left to chance is small in so much of a fleet.
inline constexpr double kSampledPart = 0.25;
/// Counts and rates of `part` of a fleet as those of all of it.
[[nodiscard]] sched::PointMetrics of_whole_fleet(sched::PointMetrics metrics, double part);

/// Everything but the candidate, as text: part of the key under which results are stored.
[[nodiscard]] std::string trial_text(const Trial& trial);

/// A trial of a study's question as a task for another process, and back; nullopt for any other text.
struct TrialTask {
  std::size_t question = 0;
  Trial trial;
};
[[nodiscard]] std::string trial_task(std::size_t question, const Trial& trial);
[[nodiscard]] std::optional<TrialTask> read_trial_task(const std::string& text);

/// Whether more requests make the same experiment longer: open and closed loops without a duration.
[[nodiscard]] bool can_be_longer(const PointSpec& spec);

/// The most requests that a run is lengthened to.
inline constexpr std::int64_t kMaxRun = 4'000'000;
/// `spec` with a load of at least so many requests: a replay is repeated as often as it takes, a duration gives way.
/// nullopt for a load that ends by itself.
[[nodiscard]] std::optional<PointSpec> with_requests(PointSpec spec, std::int64_t requests);

/// Whether throughput is to be kept. A short run says little about it.
[[nodiscard]] bool keeps_rate(const sched::Slo& slo);

/// How many requests a first run sends; 0: as the study says. A closed loop opens with a wave of all its clients at
/// once, and a short one is little else: it has 30 requests a client, up to 10 000.
[[nodiscard]] std::int64_t screening_requests(const PointSpec& spec);
/// And a confirming run; 0: the experiment has a length of its own. Ten times those of the study up to 10 000, of a
/// closed loop at least 30 a client (100 for a mean, 3 / (1 - q) for a quantile) up to 400 000; where an open loop has
/// a throughput to keep 40 000, as the time in which its last requests end counts.
[[nodiscard]] std::int64_t confirming_requests(const PointSpec& spec);

/// The first run of a candidate of a study with this workload.
[[nodiscard]] Trial first_trial(const PointSpec& spec, std::size_t candidate);

}  // namespace plimsoll::study::plan
