// SPDX-License-Identifier: Apache-2.0
// The output of `validate --live`.
#include <fmt/format.h>

#include "validation/live_validation.h"

namespace plimsoll::validation {

namespace {

std::optional<double> error_of(const LivePoint& point, const LiveMetric& metric) {
  if (!point.simulated.metrics || !point.measured.metrics) return {};
  const auto predicted = metric.of(*point.simulated.metrics), measured = metric.of(*point.measured.metrics);
  if (!predicted || !measured || !(*measured > 0)) return {};
  return *predicted / *measured - 1;
}

const char* state_of(const LivePoint& point) {
  if (!point.measured.metrics) return "impossible";
  if (!point.quiet.quiet) return "not quiet";
  return point.fitted ? "fitted" : "";
}

// Returns the lower and the higher one of the rates before and after a point, as fractions of the reference.
std::string probes_of(const LivePoint& point, const exec::SteadyRates& reference) {
  const QuietRecord& q = point.quiet;
  if (!(reference.read_bandwidth > 0)) return {};
  return fmt::format("{:.2f} {:.2f} {:.2f} {:.2f}", q.before.read_bandwidth / reference.read_bandwidth,
                     q.after.read_bandwidth / reference.read_bandwidth, q.before.multiply_add / reference.multiply_add,
                     q.after.multiply_add / reference.multiply_add);
}

std::string shown(const std::optional<double>& value, double unit) {
  return value ? fmt::format("{:.4g}", unit * *value) : "-";
}

std::string row_of(const LivePoint& point, const exec::SteadyRates& reference) {
  const study::PointLabels& labels = point.measured.labels;
  std::string text =
      fmt::format("{:>3}  {:<12} {:>3} {:>7g}", point.measured.index + 1, labels.policy, labels.tp, labels.load_value);
  if (!point.simulated.metrics || !point.measured.metrics) return text + "  " + state_of(point) + "\n";
  for (const LiveMetric& metric : live_metrics()) {
    const auto predicted = metric.of(*point.simulated.metrics), measured = metric.of(*point.measured.metrics);
    const auto error = error_of(point, metric);
    const bool is_time =
        std::string_view(metric.name).ends_with("_s") && !std::string_view(metric.name).ends_with("per_s");
    const double unit = is_time ? 1e3 : 1;
    text += fmt::format(" | {:>9} {:>9} {:>7}", shown(predicted, unit), shown(measured, unit),
                        error ? fmt::format("{:+.1f} %", 100 * *error) : "");
  }
  return text + fmt::format(" | {} {} {}\n", probes_of(point, reference), point.quiet.attempts, state_of(point));
}

}  // namespace

const std::vector<LiveMetric>& live_metrics() {
  static const std::vector<LiveMetric> metrics = {
      {"output_tokens_per_s", [](const sched::PointMetrics& m) { return std::optional(m.output_tokens_per_s); }},
      {"tpot_mean_s", [](const sched::PointMetrics& m) { return m.tpot.mean; }}};
  return metrics;
}

ErrorSummary live_errors(const LiveValidation& validation, const LiveMetric& metric) {
  std::vector<double> errors;
  for (const LivePoint& point : validation.points) {
    if (!point.counts()) continue;
    if (const auto error = error_of(point, metric)) errors.push_back(*error);
  }
  return summarise_errors(std::move(errors));
}

std::string live_text(const LiveValidation& v) {
  std::string text = fmt::format("{:>3}  {:<12} {:>3} {:>7} | {:^27} | {:^27} | probes / calibration's\n", "", "policy",
                                 "tp", "load", "output tokens/s", "mean TPOT, ms");
  text += fmt::format(
      "{:>3}  {:<12} {:>3} {:>7} | {:>9} {:>9} {:>7} | {:>9} {:>9} {:>7} | read, read, fma, fma, attempts\n", "", "",
      "", "", "predicted", "measured", "error", "predicted", "measured", "error");
  std::size_t noisy = 0, fitted = 0, impossible = 0;
  for (const LivePoint& point : v.points) {
    text += row_of(point, v.reference);
    if (!point.measured.metrics)
      ++impossible;
    else if (!point.quiet.quiet)
      ++noisy;
    else if (point.fitted)
      ++fitted;
  }
  text += "\n";
  for (const LiveMetric& metric : live_metrics()) {
    const ErrorSummary e = live_errors(v, metric);
    if (e.count == 0) {
      text += fmt::format("{:<20}   0 points: no error can be stated\n", metric.name);
      continue;
    }
    text += fmt::format("{:<20} {:>3} points: error median {:.1f} %, mean {:.1f} %, p90 {:.1f} %, bias {:+.1f} %\n",
                        metric.name, e.count, 100 * e.median, 100 * e.mean, 100 * e.p90, 100 * e.bias);
  }
  text += fmt::format("excluded: {} not quiet, {} fitted, {} impossible\n", noisy, fitted, impossible);
  if (fitted > 0) text += fmt::format("fitted: the device takes {:.3f} times as long as calibrated\n", v.device_factor);
  return text + fmt::format("predictions rest on: {}\n", v.basis);
}

std::string live_csv(const LiveValidation& v) {
  std::string text =
      "point,policy,tp,replicas,load_kind,load_value,metric,predicted,measured,relative_error,quiet,fitted,attempts,"
      "read_before,read_after,multiply_add_before,multiply_add_after\n";
  for (const LivePoint& point : v.points) {
    const study::PointLabels& l = point.measured.labels;
    for (const LiveMetric& metric : live_metrics()) {
      const auto error = error_of(point, metric);
      if (!error) continue;
      text += fmt::format("{},{},{},{},{},{:g},{},{:.6g},{:.6g},{:.6g},{},{},{},{:.5g},{:.5g},{:.5g},{:.5g}\n",
                          point.measured.index + 1, l.policy, l.tp, l.replicas, l.load_kind, l.load_value, metric.name,
                          *metric.of(*point.simulated.metrics), *metric.of(*point.measured.metrics), *error,
                          point.quiet.quiet, point.fitted, point.quiet.attempts, point.quiet.before.read_bandwidth,
                          point.quiet.after.read_bandwidth, point.quiet.before.multiply_add,
                          point.quiet.after.multiply_add);
    }
  }
  return text;
}

}  // namespace plimsoll::validation
