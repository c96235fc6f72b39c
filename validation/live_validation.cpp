// SPDX-License-Identifier: Apache-2.0
#include "validation/live_validation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "model/error.h"

namespace plimsoll::validation {

namespace {

// Chooses the fraction `part` of the points, spread evenly over the sweep and the same in every run.
std::vector<bool> points_to_fit(std::size_t points, double part) {
  std::vector<bool> chosen(points, false);
  double due = part / 2;
  for (std::size_t i = 0; i < points; ++i) {
    due += part;
    if (due < 1) continue;
    chosen[i] = true;
    due -= 1;
  }
  return chosen;
}

using Transfers = std::map<std::size_t, load::TransferConfig>;  // as measured, by point

Transfers transfers_of(const LiveValidation& validation) {
  Transfers transfers;
  for (const LivePoint& point : validation.points)
    if (point.transfer) transfers.emplace(point.measured.index, *point.transfer);
  return transfers;
}

load::Scenario with_transfer(load::Scenario scenario, const load::TransferConfig& transfer) {
  load::Pools pools = *scenario.pools;
  pools.transfer = transfer;
  scenario.pools = std::make_shared<const load::Pools>(std::move(pools));
  return scenario;
}

void simulate(LiveValidation& validation, const study::Study& study, study::RunControl* control) {
  const Transfers transfers = transfers_of(validation);
  study::RunSettings settings;
  settings.control = control;
  if (!transfers.empty())
    settings.run = [&](const study::PointResult& point, const load::Scenario& scenario,
                       const sim::RunOptions& options) {
      const auto measured = transfers.find(point.index);
      return sim::simulate(measured == transfers.end() ? scenario : with_transfer(scenario, measured->second), options);
    };
  for (const study::PointResult& s : study::run_study(study, settings).points)
    for (LivePoint& point : validation.points)
      if (s.index == point.measured.index) point.simulated = s;
}

// Returns the mean of log(measured / predicted) time per token over the fitted points.
double mean_log_ratio(const LiveValidation& validation) {
  double sum = 0;
  std::size_t count = 0;
  for (const LivePoint& point : validation.points) {
    if (!point.fitted || !point.quiet.quiet || !point.simulated.metrics || !point.measured.metrics) continue;
    sum += std::log(point.simulated.metrics->output_tokens_per_s / point.measured.metrics->output_tokens_per_s);
    ++count;
  }
  if (count == 0) throw DeviceError("validate --live: no point of the fitted part was measured on a quiet machine");
  return sum / static_cast<double>(count);
}

// Finds the device-time factor that removes the mean error. It iterates, because host time is not scaled.
void fit_device_time(LiveValidation& validation, const LiveSettings& settings) {
  PLIMSOLL_CHECK(settings.with_device_time, "a fit needs the function that scales device time");
  constexpr int kRounds = 6;
  constexpr double kClose = 1e-3;
  for (int round = 0; round < kRounds; ++round) {
    const double log_ratio = mean_log_ratio(validation);
    if (std::abs(log_ratio) < kClose) break;
    validation.device_factor *= std::exp(log_ratio);
    simulate(validation, settings.with_device_time(validation.device_factor), settings.control);
  }
}

std::shared_ptr<const model::Interconnect> slower_link(const std::shared_ptr<const model::Interconnect>& link,
                                                       double factor) {
  if (!link) return {};
  model::Interconnect slower = *link;
  for (model::AllReduceCurve& curve : slower.all_reduce) {
    for (model::AllReduceSegment& s : curve.segments) {
      s.latency *= factor;
      s.bandwidth.value /= factor;
    }
    for (model::AllReducePoint& p : curve.points) p.time *= factor;
  }
  return std::make_shared<const model::Interconnect>(std::move(slower));
}

}  // namespace

configs::ThisMachine slowed(const configs::ThisMachine& machine, double factor) {
  configs::ThisMachine out = machine;
  for (configs::ThisMachine::Share& share : out.shares) {
    model::Accelerator a = *share.accelerator;
    for (FlopsPerSecond* peak : {&a.fp16, &a.bf16, &a.fp8, &a.int8, &a.fp32}) peak->value /= factor;
    a.memory_bandwidth.value /= factor;
    a.kernel_gap *= factor;
    for (model::OpCoefficients& c : a.coefficients) c.t0 *= factor;
    for (auto& [kind, c] : a.pointwise_kinds) c.t0 *= factor;
    share.accelerator = std::make_shared<const model::Accelerator>(std::move(a));
    share.interconnect = slower_link(share.interconnect, factor);
  }
  out.interconnect = slower_link(machine.interconnect, factor);
  return out;
}

LiveValidation validate_live(const study::Study& study, const LiveSettings& settings) {
  QuietRuns runs(settings.quiet, settings.measure);
  study::RunSettings run;
  // Measure one point at a time, because points that run concurrently would change each other's results.
  run.jobs = 1;
  run.control = settings.control;
  run.on_progress = settings.progress;
  Transfers transfers;
  run.run = [&](const study::PointResult& point, const load::Scenario& scenario, const sim::RunOptions& options) {
    sim::RunResult result = runs.run(point, scenario, options);
    if (settings.transfer)
      if (const auto transfer = settings.transfer(scenario)) transfers.insert_or_assign(point.index, *transfer);
    return result;
  };
  const study::StudyResult measured = study::run_study(study, run);

  LiveValidation validation;
  validation.swept_keys = study.swept_keys();
  validation.reference = runs.reference();
  validation.cancelled = measured.cancelled;
  const std::vector<bool> fitted = points_to_fit(study.point_count(), settings.fit_part);
  for (const study::PointResult& point : measured.points) {
    LivePoint& live = validation.points.emplace_back();
    live.measured = point;
    live.measured.labels.source = "measured";
    live.fitted = fitted[point.index];
    if (const auto transfer = transfers.find(point.index); transfer != transfers.end())
      live.transfer = transfer->second;
    for (const QuietRecord& record : runs.records())
      if (record.point == point.index) live.quiet = record;
  }
  if (validation.cancelled || validation.points.empty()) return validation;
  // Predict after measuring, so that the simulation neither warms nor loads the machine during a measurement.
  simulate(validation, study, settings.control);
  if (std::find(fitted.begin(), fitted.end(), true) != fitted.end()) fit_device_time(validation, settings);
  const study::PointSpec spec = study.point(0);
  if (spec.hardware.accelerator) validation.basis = spec.hardware.accelerator->fit_source;
  validation.cancelled = settings.control != nullptr && settings.control->cancelled();
  return validation;
}

}  // namespace plimsoll::validation
