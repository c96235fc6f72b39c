// SPDX-License-Identifier: Apache-2.0
#include "validation/quiet_runs.h"

#include <cmath>
#include <utility>

#include "model/error.h"

namespace plimsoll::validation {

bool is_quiet(const exec::SteadyRates& rates, const exec::SteadyRates& reference, double tolerance) {
  const auto near = [&](double rate, double wanted) { return std::abs(rate / wanted - 1) <= tolerance; };
  return near(rates.read_bandwidth, reference.read_bandwidth) && near(rates.multiply_add, reference.multiply_add);
}

QuietRuns::QuietRuns(QuietSettings settings, study::RunPoint measure)
    : settings_(std::move(settings)), measure_(std::move(measure)) {
  PLIMSOLL_CHECK(settings_.probe && measure_ && settings_.most_attempts >= 1, "something is measured between probes");
}

exec::SteadyRates QuietRuns::probe() {
  const exec::SteadyRates rates = settings_.probe();
  if (!(settings_.reference.read_bandwidth > 0) || !(settings_.reference.multiply_add > 0)) settings_.reference = rates;
  return rates;
}

sim::RunResult QuietRuns::run(const study::PointResult& point, const load::Scenario& scenario,
                              const sim::RunOptions& options) {
  if (!std::exchange(probed_, true)) {
    start_ = std::chrono::steady_clock::now();
    last_ = probe();
  }
  const auto has_patience = [this] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() < settings_.patience;
  };
  QuietRecord record{.point = point.index, .before = {}, .after = {}};
  sim::RunResult result;
  do {
    ++record.attempts;
    if (!is_quiet(last_, settings_.reference, settings_.tolerance)) last_ = probe();  // the noise may be over
    record.before = last_;
    result = measure_(point, scenario, options);
    record.after = last_ = probe();
    record.quiet = is_quiet(record.before, settings_.reference, settings_.tolerance) &&
                   is_quiet(record.after, settings_.reference, settings_.tolerance);
  } while (!record.quiet && !result.stopped && record.attempts < settings_.most_attempts && has_patience() &&
           (settings_.control == nullptr || !settings_.control->cancelled()));
  records_.push_back(record);
  return result;
}

}  // namespace plimsoll::validation
