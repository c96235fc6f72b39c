// SPDX-License-Identifier: Apache-2.0
#include "study/slo_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "study/chart_axis.h"

namespace plimsoll::study {

std::string bound_name(const sched::Slo::Bound& bound) {
  constexpr std::array<std::string_view, 5> kMetrics = {"latency", "ttft", "tpot", "itl", "latency per token"};
  const std::string_view metric = kMetrics[static_cast<std::size_t>(bound.metric)];
  return bound.quantile < 0 ? fmt::format("mean {}", metric) : fmt::format("p{} {}", std::round(bound.quantile * 1e5) / 1e3, metric);
}

std::string limit_text(double value, const std::string& unit) {
  if (!std::isfinite(value)) return "infinite";
  if (unit == "s" && value < 1) return reader_number(value * 1e3) + " ms";
  return reader_number(value) + (unit.empty() ? "" : " ") + unit;
}

std::string missed_slo(const sched::Slo& slo, const sched::PointMetrics& m) {
  std::vector<std::string> missed;
  const auto miss = [&](const std::string& name, double value, const char* side, double limit, const char* unit) {
    missed.push_back(fmt::format("{} {} of {} {}", name, limit_text(value, unit), side, limit_text(limit, unit)));
  };
  for (std::size_t i = 0; i < slo.bounds.size(); ++i) {
    const double value = i < m.slo_values.size() ? m.slo_values[i] : std::numeric_limits<double>::infinity();   // nothing measured
    if (!(value <= slo.bounds[i].limit)) miss(bound_name(slo.bounds[i]), value, "at most", slo.bounds[i].limit, "s");
  }
  if (slo.min_output_tokens_per_s && m.output_tokens_per_s < *slo.min_output_tokens_per_s)
    miss("output tokens", m.output_tokens_per_s, "at least", *slo.min_output_tokens_per_s, "/s");
  if (slo.min_requests_per_s && m.requests_per_s < *slo.min_requests_per_s)
    miss("requests", m.requests_per_s, "at least", *slo.min_requests_per_s, "/s");
  const auto requests = static_cast<double>(m.requests_completed + m.requests_rejected + m.requests_timed_out);
  const double late = requests > 0 ? static_cast<double>(m.requests_timed_out) / requests : 0;
  if (slo.max_timeout_rate && late > *slo.max_timeout_rate) miss("time-out rate", late, "at most", *slo.max_timeout_rate, "");
  if (slo.min_goodput && m.duration_s > 0) {
    const double share = m.slo_attainment.value_or(requests > 0 ? static_cast<double>(m.requests_completed) / requests : 0);
    const double goodput = share * requests / m.duration_s;
    if (goodput < *slo.min_goodput) miss("goodput", goodput, "at least", *slo.min_goodput, "/s");
  }
  return fmt::format("{}", fmt::join(missed, ", "));
}

}  // namespace plimsoll::study
