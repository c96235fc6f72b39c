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

/// Trials that differ only in their candidate use the same random numbers. Trials that differ in load or length also
/// share them, draw by draw. A trial states the minimum length of its run, in mean latencies; the run is lengthened
/// until it shows whether the load has a steady state.
inline constexpr double kScreeningLives = sched::kLivesNeeded, kConfirmingLives = 20;

/// One run of one candidate. Equal trials have equal results, so each is run once.
struct Trial {
  std::size_t candidate = 0;
  std::int32_t replication = 0;
  std::int64_t requests = 0;                                // 0: as in the study
  double load = 0;                                          // clients, requests/s or rate scale; 0: as in the study
  double load_scale = 1, length_scale = 1, step_scale = 1;  // factors on the load, on lengths, and on every step's time
  double lives = kScreeningLives;  // an open load lasts at least this many mean latencies, if it can be longer
  std::int32_t replicas = 0;       // run only this many, each with its share of the load; 0: the whole fleet
  auto operator<=>(const Trial&) const = default;
};

/// Returns the point to simulate for a trial of a candidate with this spec. With `step_scale` k it runs on its own
/// clock, on which k seconds are one: its times must be multiplied by k; the SLO is already scaled.
[[nodiscard]] PointSpec trial_spec(PointSpec spec, const Trial& trial);

/// Returns whether part of a fleet, under its share of the load, shows approximately what the whole fleet does: for a
/// stationary open load whose requests share nothing.
[[nodiscard]] bool can_be_sampled(const PointSpec& spec);
/// Returns a value for Trial::replicas: `part` of a fleet, at least two, if the fleet can be sampled and this is at
/// most half of it; else 0.
[[nodiscard]] std::int32_t sampled_replicas(const PointSpec& spec, double part);
/// A quarter of a fleet gives results with little random variation.
inline constexpr double kSampledPart = 0.25;
/// Scales counts and rates of `part` of a fleet to the whole fleet.
[[nodiscard]] sched::PointMetrics of_whole_fleet(sched::PointMetrics metrics, double part);

/// Formats everything but the candidate as text: part of the key under which results are stored.
[[nodiscard]] std::string trial_text(const Trial& trial);

/// A trial of a study's question, sent as a task to another process. Reading returns nullopt for any other text.
struct TrialTask {
  std::size_t question = 0;
  Trial trial;
};
[[nodiscard]] std::string trial_task(std::size_t question, const Trial& trial);
[[nodiscard]] std::optional<TrialTask> read_trial_task(const std::string& text);

/// Returns whether more requests make the same experiment longer: for open and closed loops without a duration.
[[nodiscard]] bool can_be_longer(const PointSpec& spec);

/// The most requests to which a run is lengthened.
inline constexpr std::int64_t kMaxRun = 4'000'000;
/// Returns `spec` with a load of at least this many requests: a replay is repeated as often as needed, and a duration
/// is dropped. nullopt for a load that ends by itself.
[[nodiscard]] std::optional<PointSpec> with_requests(PointSpec spec, std::int64_t requests);

/// Returns whether the SLO has a throughput goal. A short run is weak evidence for it.
[[nodiscard]] bool keeps_rate(const sched::Slo& slo);

/// Returns how many requests a first run sends; 0: as in the study. A closed loop starts with a wave of all its clients
/// at once, which would dominate a short run. So it gets 30 requests per client, up to 10 000.
[[nodiscard]] std::int64_t screening_requests(const PointSpec& spec);
/// Returns the requests of a confirming run; 0: the experiment has a length of its own. Ten times those of the study,
/// up to 10 000. A closed loop gets at least 30 per client (100 for a mean, 3 / (1 - q) for a quantile), up to 400 000.
/// An open loop with a throughput goal gets 40 000, because the time in which its last requests end counts.
[[nodiscard]] std::int64_t confirming_requests(const PointSpec& spec);

/// Returns the first trial of a candidate in a study with this workload.
[[nodiscard]] Trial first_trial(const PointSpec& spec, std::size_t candidate);

}  // namespace plimsoll::study::plan
