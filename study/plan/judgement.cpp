// SPDX-License-Identifier: Apache-2.0
#include "study/plan/judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "study/run/slo_text.h"

namespace plimsoll::study::plan {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double student_quantile(std::size_t degrees, double confidence) {
  const boost::math::students_t distribution(static_cast<double>(degrees));
  return boost::math::quantile(distribution, 0.5 + confidence / 2);
}

// If even a lengthened run is too short to judge its steady state, it counts as beyond capacity.
bool is_beyond_capacity(const PointSpec& spec, const sched::PointMetrics& m) {
  return m.steady.verdict != sched::Steadiness::stable && !load::is_closed_loop(spec.workload.load);
}

/// The values that one run found for the checks, in a fixed order.
struct Found {
  std::vector<Check> checks;  // names and limits
  std::vector<double> values;

  void add(CheckKind kind, SloFigure figure) {
    checks.push_back({kind, std::move(figure.name), std::move(figure.unit), {}, figure.limit, figure.at_least});
    values.push_back(figure.value);
  }
};

CheckKind kind_of(const SloFigure& figure) {
  return figure.metric && is_between_tokens(*figure.metric) ? CheckKind::between_tokens : CheckKind::other;
}

Found find_all(const PointSpec& spec, const sched::PointMetrics& m) {
  Found found;
  const bool open = !load::is_closed_loop(spec.workload.load);
  if (open) found.add(CheckKind::queue, {"queue", "", 1, is_beyond_capacity(spec, m) ? kInfinity : 0, false, {}});
  for (const SloFigure& f : slo_figures(spec.slo, m, is_beyond_capacity(spec, m))) found.add(kind_of(f), f);
  return found;
}

bool is_certain(const Check& check) {
  const bool inside = check.at_least ? check.value.low() >= check.limit : check.value.high() <= check.limit;
  const bool outside = check.at_least ? check.value.high() < check.limit : check.value.low() > check.limit;
  return check.ratio() <= 1 ? inside : outside;
}

template <class Value>
Estimate estimate_of(std::span<const sched::PointMetrics* const> runs, double confidence, Value value_of) {
  std::vector<double> values;
  for (const sched::PointMetrics* run : runs) values.push_back(value_of(*run));
  return estimate(values, confidence);
}

// Meeting the SLO is certain if every check is certain. Missing it is certain if one miss is certain.
bool verdict_is_certain(const SloVerdict& standing) {
  if (standing.runs < 2) return false;
  if (standing.meets) return std::all_of(standing.checks.begin(), standing.checks.end(), is_certain);
  return std::any_of(standing.checks.begin(), standing.checks.end(),
                     [](const Check& c) { return c.ratio() > 1 && is_certain(c); });
}

}  // namespace

Estimate estimate(std::span<const double> values, double confidence) {
  Estimate out;
  out.values = values.size();
  if (values.empty()) return out;
  const auto n = static_cast<double>(values.size());
  const auto infinite = std::count_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
  // One infinite value makes the mean infinite. If all values are infinite they agree, so there is no spread.
  if (infinite > 0) return {kInfinity, static_cast<double>(infinite) < n ? kInfinity : 0, values.size()};
  for (const double value : values) out.mean += value / n;
  if (values.size() < 2) return out;
  double squares = 0;
  for (const double value : values) squares += (value - out.mean) * (value - out.mean);
  out.half_width = student_quantile(values.size() - 1, confidence) * std::sqrt(squares / (n - 1) / n);
  return out;
}

Estimate paired_difference(std::span<const double> a, std::span<const double> b, double confidence) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (std::isfinite(a[i]) || std::isfinite(b[i]))
      differences.push_back(a[i] - b[i]);
    else
      differences.push_back(0);  // both are beyond capacity
  }
  // Both candidates saw the same requests, so their difference varies less than each of them.
  Estimate out = estimate(differences, confidence);
  // If all differences have one sign, the mean keeps it although it is infinite.
  if (!std::isfinite(out.mean) && std::all_of(differences.begin(), differences.end(), [](double d) { return d < 0; }))
    out.mean = -kInfinity;
  return out;
}

double Check::ratio_of(double v) const {
  if (at_least) return v > 0 ? limit / v : kInfinity;
  if (limit > 0) return v / limit;
  return v > 0 ? kInfinity : 0;
}

double p90_latency(const PointSpec& spec, const sched::PointMetrics& run) {
  if (is_beyond_capacity(spec, run)) return kInfinity;
  return run.latency.p90.value_or(kInfinity);
}

SloVerdict standing_of(const PointSpec& spec, std::span<const sched::PointMetrics* const> runs, double confidence) {
  SloVerdict out;
  out.runs = runs.size();
  std::vector<std::vector<double>> values;
  for (const sched::PointMetrics* run : runs) {
    Found found = find_all(spec, *run);
    // All runs have the same checks, so the first run provides their names.
    if (out.checks.empty()) out.checks = std::move(found.checks);
    values.resize(out.checks.size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i].push_back(found.values[i]);
  }
  for (std::size_t i = 0; i < out.checks.size(); ++i) {
    out.checks[i].value = estimate(values[i], confidence);
    // The check that is exceeded the most is the reason; the others are listed below it.
    const double ratio = out.checks[i].ratio();
    if (ratio > out.ratio) {
      out.ratio = ratio;
      out.worst = i;
    }
  }
  out.meets = out.ratio <= 1;
  out.certain = verdict_is_certain(out);
  out.latency_p90 = estimate_of(runs, confidence, [&](const auto& m) { return p90_latency(spec, m); });
  out.ttft_p90 = estimate_of(runs, confidence, [&](const auto& m) { return m.ttft.p90.value_or(kInfinity); });
  out.output_tokens_per_s = estimate_of(runs, confidence, [](const auto& m) { return m.output_tokens_per_s; });
  out.total_tokens_per_s = estimate_of(runs, confidence, [](const auto& m) { return m.total_tokens_per_s; });
  if (!runs.empty() && runs.front()->instance_s) {
    out.instances = estimate_of(runs, confidence,
                                [](const auto& m) { return m.duration_s > 0 ? *m.instance_s / m.duration_s : 0; });
    out.prefill_instances = estimate_of(runs, confidence, [](const auto& m) {
      return m.pools && m.duration_s > 0 ? m.pools->prefill_instance_s.value_or(0) / m.duration_s : 0;
    });
  }
  return out;
}

std::string check_text(const Check& check) {
  if (check.kind == CheckKind::queue) return check.ratio() > 1 ? "the queue grows without end" : "keeps up";
  const double ratio = check.ratio();
  const std::string value = limit_text(check.value.mean, check.unit), limit = limit_text(check.limit, check.unit);
  if (ratio <= 1)
    return fmt::format("{} {} of {} {}", check.name, value, check.at_least ? "at least" : "at most", limit);
  if (!std::isfinite(ratio)) {
    return check.at_least || check.limit <= 0 ? fmt::format("{} {}, limit {}", check.name, value, limit)
                                              : fmt::format("{}: too many requests fail to keep {}", check.name, limit);
  }
  constexpr double kManyTimes = 2;  // above this, percentages are hard to read
  if (!check.at_least && ratio >= kManyTimes)
    return fmt::format("{} {}, {:.3g} times the limit of {}", check.name, value, ratio, limit);
  const double off = check.at_least ? 1 - check.value.mean / check.limit : ratio - 1;
  return fmt::format("{} {}, {:.3g} % {} {}", check.name, value, 100 * off, check.at_least ? "below" : "over", limit);
}

}  // namespace plimsoll::study::plan
