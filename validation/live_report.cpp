// SPDX-License-Identifier: Apache-2.0
// The output of `validate --live`.
#include <fmt/format.h>

#include <algorithm>

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

bool has_pools(const LiveValidation& v) {
  return std::any_of(v.points.begin(), v.points.end(), [](const LivePoint& p) { return !p.measured.pools.empty(); });
}

std::string row_of(const LivePoint& point, const LiveValidation& v) {
  const study::PointLabels& labels = point.measured.labels;
  std::string text =
      fmt::format("{:>3}  {:<12} {:>3} {:>7g}", point.measured.index + 1, labels.policy, labels.tp, labels.load_value);
  if (!point.simulated.metrics || !point.measured.metrics) return text + "  " + state_of(point) + "\n";
  for (const LiveMetric& metric : live_metrics(v)) {
    const auto predicted = metric.of(*point.simulated.metrics), measured = metric.of(*point.measured.metrics);
    const auto error = error_of(point, metric);
    text += fmt::format(" | {:>9} {:>9} {:>7}", shown(predicted, metric.shown), shown(measured, metric.shown),
                        error ? fmt::format("{:+.1f} %", 100 * *error) : "");
  }
  return text + fmt::format(" | {} {} {}\n", probes_of(point, v.reference), point.quiet.attempts, state_of(point));
}

// Returns a line for each speed at which KV left a prefill pool.
std::string transfers_text(const LiveValidation& v) {
  std::string text, last;
  for (const LivePoint& point : v.points) {
    if (!point.transfer) continue;
    std::string speed =
        fmt::format("{:.3g} GB/s after {:.3g} ms", 1e-9 * point.transfer->source_rate, 1e3 * point.transfer->launch_s);
    if (speed == last) continue;
    text += fmt::format("measured from point {} on: KV leaves the prefill pool at {}; the predictions use this\n",
                        point.measured.index + 1, speed);
    last = std::move(speed);
  }
  return text;
}

}  // namespace

const std::vector<LiveMetric>& live_metrics() {
  static const std::vector<LiveMetric> metrics = {
      {"output_tokens_per_s", "output tokens/s", 1,
       [](const sched::PointMetrics& m) { return std::optional(m.output_tokens_per_s); }},
      {"tpot_mean_s", "mean TPOT, ms", 1e3, [](const sched::PointMetrics& m) { return m.tpot.mean; }}};
  return metrics;
}

std::vector<LiveMetric> live_metrics(const LiveValidation& validation) {
  std::vector<LiveMetric> metrics = live_metrics();
  if (has_pools(validation))
    metrics.push_back({"transfer_s_mean", "mean transfer of KV, ms", 1e3, [](const sched::PointMetrics& m) {
                         return m.pools ? m.pools->transfer_mean : std::optional<double>();
                       }});
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
  const std::vector<LiveMetric> metrics = live_metrics(v);
  std::string text = fmt::format("{:>3}  {:<12} {:>3} {:>7}", "", "policy", "tp", "load"),
              below = fmt::format("{:>3}  {:<12} {:>3} {:>7}", "", "", "", "");
  for (const LiveMetric& metric : metrics) {
    text += fmt::format(" | {:^27}", metric.title);
    below += fmt::format(" | {:>9} {:>9} {:>7}", "predicted", "measured", "error");
  }
  text += " | probes / calibration's\n" + below + " | read, read, fma, fma, attempts\n";
  std::size_t noisy = 0, fitted = 0, impossible = 0;
  for (const LivePoint& point : v.points) {
    text += row_of(point, v);
    if (!point.measured.metrics)
      ++impossible;
    else if (!point.quiet.quiet)
      ++noisy;
    else if (point.fitted)
      ++fitted;
  }
  text += "\n";
  for (const LiveMetric& metric : metrics) {
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
  text += transfers_text(v);
  return text + fmt::format("predictions rest on: {}\n", v.basis);
}

std::string live_csv(const LiveValidation& v) {
  std::string text =
      "point,policy,tp,replicas,load_kind,load_value,metric,predicted,measured,relative_error,quiet,fitted,attempts,"
      "read_before,read_after,multiply_add_before,multiply_add_after\n";
  const std::vector<LiveMetric> metrics = live_metrics(v);
  for (const LivePoint& point : v.points) {
    const study::PointLabels& l = point.measured.labels;
    for (const LiveMetric& metric : metrics) {
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
