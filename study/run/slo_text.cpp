// SPDX-License-Identifier: Apache-2.0
#include "study/run/slo_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "study/file/cell.h"

namespace plimsoll::study {

namespace {

std::string bound_name(const sched::Slo::Bound& bound) {
  constexpr std::array<std::string_view, 5> kMetrics = {"latency", "ttft", "tpot", "itl", "latency per token"};
  const std::string_view metric = kMetrics[static_cast<std::size_t>(bound.metric)];
  return bound.quantile < 0 ? fmt::format("mean {}", metric)
                            : fmt::format("p{} {}", std::round(bound.quantile * 1e5) / 1e3, metric);
}

}  // namespace

std::string limit_text(double value, const std::string& unit) {
  if (!std::isfinite(value)) return "infinite";
  if (unit == "s" && value < 1) return reader_number(value * 1e3) + " ms";
  return reader_number(value) + (unit.empty() ? "" : " ") + unit;
}

std::string slo_heading(const SloFigure& figure) {
  std::string name = figure.name;
  for (const std::string_view word : {"ttft", "tpot", "itl"}) {
    const std::size_t at = name.find(word);
    for (std::size_t i = at; at != std::string::npos && i < at + word.size(); ++i)
      name[i] = static_cast<char>(name[i] - 'a' + 'A');
  }
  return name;
}

std::vector<SloFigure> slo_figures(const sched::Slo& slo, const sched::PointMetrics& m, bool beyond_capacity) {
  std::vector<SloFigure> figures;
  const auto at_most = [&](std::string name, std::string unit, double limit, double value) {
    figures.push_back({std::move(name), std::move(unit), limit, value, false, {}});
  };
  const auto at_least = [&](std::string name, double limit, double value) {
    figures.push_back({std::move(name), "/s", limit, value, true, {}});
  };
  for (std::size_t i = 0; i < slo.bounds.size(); ++i) {
    const double value =
        i < m.slo_values.size() ? m.slo_values[i] : std::numeric_limits<double>::infinity();  // nothing was measured
    at_most(bound_name(slo.bounds[i]), "s", slo.bounds[i].limit, value);
    figures.back().metric = slo.bounds[i].metric;
  }
  if (slo.min_output_tokens_per_s) at_least("output tokens", *slo.min_output_tokens_per_s, m.output_tokens_per_s);
  if (slo.min_requests_per_s) at_least("requests", *slo.min_requests_per_s, m.requests_per_s);
  const auto requests =
      static_cast<double>(std::max<std::int64_t>(1, m.requests_completed + m.requests_rejected + m.requests_timed_out));
  if (slo.max_timeout_rate)
    at_most("time-out rate", "", *slo.max_timeout_rate, static_cast<double>(m.requests_timed_out) / requests);
  if (slo.min_goodput) {
    const double good =
        m.slo_attainment.value_or(beyond_capacity ? 0 : static_cast<double>(m.requests_completed) / requests);
    at_least("goodput", *slo.min_goodput, m.duration_s > 0 ? good * requests / m.duration_s : 0);
  }
  return figures;
}

std::string missed_slo(const sched::Slo& slo, const sched::PointMetrics& metrics, bool beyond_capacity) {
  std::vector<std::string> missed;
  for (const SloFigure& f : slo_figures(slo, metrics, beyond_capacity)) {
    if (f.at_least ? f.value >= f.limit : f.value <= f.limit) continue;
    if (!std::isfinite(f.value)) {  // the SLO is missed by no finite amount
      const bool measured = metrics.requests_completed + metrics.requests_rejected + metrics.requests_timed_out > 0;
      missed.push_back(fmt::format("{} of at most {} ({})", f.name, limit_text(f.limit, f.unit),
                                   beyond_capacity ? "the queue grows without end"
                                   : measured      ? "too many requests fail"
                                                   : "nothing was measured"));
      continue;
    }
    missed.push_back(fmt::format("{} {} of {} {}", f.name, limit_text(f.value, f.unit),
                                 f.at_least ? "at least" : "at most", limit_text(f.limit, f.unit)));
  }
  return fmt::format("{}", fmt::join(missed, ", "));
}

}  // namespace plimsoll::study
