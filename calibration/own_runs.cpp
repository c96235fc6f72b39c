// SPDX-License-Identifier: Apache-2.0
#include "calibration/own_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "calibration/serving_files.h"
#include "configs/catalogue.h"
#include "model/error.h"

namespace plimsoll::calibration {
namespace {

using validation::MeasuredPoint;
using Points = std::vector<MeasuredPoint>;

struct Figure {
  const char* name;
  std::optional<double> MeasuredPoint::*value;
};
constexpr Figure kFigures[] = {{"ttft_mean_s", &MeasuredPoint::ttft_mean_s},
                               {"tpot_mean_s", &MeasuredPoint::tpot_mean_s},
                               {"output_tokens_per_s", &MeasuredPoint::output_tokens_per_s},
                               {"latency_mean_s", &MeasuredPoint::latency_mean_s}};

std::string place(const MeasuredPoint& p) {
  return p.where.line > 0 ? fmt::format("{}:{}", p.where.file, p.where.line) : p.where.file;
}

auto order_of(const MeasuredPoint& p) {
  return std::tie(p.model, p.hardware, p.dtype, p.kv_dtype, p.tp, p.replicas, p.input_tokens, p.output_tokens,
                  p.load_kind, p.load_value, p.policy, p.max_running, p.step_token_budget, p.length_cv, p.turnaround_s,
                  p.uniform_from, p.arrival_cv, p.front_end, p.batch_wait_timeout_iters, p.batch_wait_max_tokens_ratio,
                  p.scheduler_recv_interval);
}

auto figures_of(const MeasuredPoint& p) {
  return std::tie(p.requests, p.ttft_mean_s, p.tpot_mean_s, p.output_tokens_per_s, p.latency_mean_s);
}

bool comes_before(const MeasuredPoint& a, const MeasuredPoint& b) {
  const auto x = order_of(a), y = order_of(b);
  return x < y || (x == y && figures_of(a) < figures_of(b));
}

std::string no_figure(const MeasuredPoint& p) {
  for (const Figure& figure : kFigures)
    if (p.*figure.value) return {};
  return "it has neither a throughput nor a mean latency, TTFT or TPOT";
}

// Returns the mean latency that follows from TTFT and TPOT.
std::optional<double> latency_of(const MeasuredPoint& p) {
  if (p.latency_mean_s) return p.latency_mean_s;
  if (!p.ttft_mean_s || !p.tpot_mean_s) return {};
  return *p.ttft_mean_s + *p.tpot_mean_s * (mean_output(p) - 1);
}

// Returns how the figures of a run contradict each other. Latency follows from TTFT and TPOT, and by Little's law the
// throughput of a closed loop follows from the latency. A wrong unit is a factor of a thousand; runs that are mostly
// ramp-up deviate by less.
std::string contradiction(const MeasuredPoint& p) {
  constexpr double kMost = 3;
  const auto apart = [&](double a, double b) { return a > kMost * b || b > kMost * a; };
  if (p.latency_mean_s && p.ttft_mean_s && p.tpot_mean_s) {
    const double sum = *p.ttft_mean_s + *p.tpot_mean_s * (mean_output(p) - 1);
    if (apart(sum, *p.latency_mean_s))
      return fmt::format("TTFT and TPOT add up to {:.4g} s, the mean latency is {:.4g} s", sum, *p.latency_mean_s);
  }
  const std::optional<double> latency = latency_of(p);
  if (p.load_kind != "closed_loop" || !latency || !p.output_tokens_per_s) return {};
  const double users = p.requests > 0 ? std::min(p.load_value, static_cast<double>(p.requests)) : p.load_value;
  const double implied = users * mean_output(p) / (*latency + p.turnaround_s);
  if (!apart(implied, *p.output_tokens_per_s)) return {};
  return fmt::format("{:g} users with {:.4g} s a request give {:.4g} output tokens/s, not {:.4g}", users, *latency,
                     implied, *p.output_tokens_per_s);
}

// Removes the points for which there is a reason to leave them out. Returns their number and the first reason.
template <class Reason>
std::pair<std::size_t, std::string> leave_out(Points& points, const Reason& reason) {
  std::pair<std::size_t, std::string> out;
  std::erase_if(points, [&](const MeasuredPoint& p) {
    const std::string why = reason(p);
    if (!why.empty() && out.first++ == 0) out.second = fmt::format("{}: {}", place(p), why);
    return !why.empty();
  });
  return out;
}

void check_repeats(const Points& points, std::vector<std::string>& warnings) {
  constexpr double kNoisy = 1.15, kContradictory = 1.5;
  double worst = 1;
  std::string what;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t k = i + 1; k < points.size() && run_name(points[k]) == run_name(points[i]); ++k) {
      for (const Figure& figure : kFigures) {
        const auto &a = points[i].*figure.value, &b = points[k].*figure.value;
        if (!a || !b) continue;
        const double ratio = std::max(*a / *b, *b / *a);
        const std::string text = fmt::format("{} and {} are runs of the same load, but {} is {:.4g} and {:.4g}",
                                             place(points[i]), place(points[k]), figure.name, *a, *b);
        if (ratio > kContradictory)
          throw InputError(points[i].where, text + "; nothing can be fitted to runs that contradict each other");
        if (ratio > worst) worst = ratio, what = text;
      }
    }
  }
  if (worst > kNoisy) warnings.push_back("the runs are noisy: " + what);
}

// Warns of quantities that the fit cannot separate because all runs are alike.
void check_variety(const Points& points, std::vector<std::string>& warnings) {
  std::set<double> loads;
  std::set<std::int64_t> inputs, outputs;
  for (const MeasuredPoint& p : points) {
    loads.insert(p.load_value);
    inputs.insert(p.input_tokens);
    outputs.insert(p.output_tokens);
  }
  if (loads.size() == 1)
    warnings.push_back("all runs have the same load: the growth of times with the batch is kept from the profile");
  if (inputs.size() == 1 && outputs.size() == 1)
    warnings.push_back("all runs have the same lengths: other lengths extrapolate");
}

// One profile describes all runs. Warns of differences between runs that it cannot express.
void name_mixtures(const Points& points, std::vector<std::string>& warnings) {
  struct Kind {
    const char* plural;
    std::string (*of)(const MeasuredPoint&);
  };
  static const Kind kKinds[] = {
      {"models", [](const MeasuredPoint& p) { return configs::canonical_name(p.model); }},
      {"kinds of hardware", [](const MeasuredPoint& p) { return p.hardware; }},
      {"types", [](const MeasuredPoint& p) { return p.dtype + (p.kv_dtype.empty() ? "" : "/" + p.kv_dtype); }},
      {"versions", [](const MeasuredPoint& p) { return version_of(p.source); }},
      {"front ends", [](const MeasuredPoint& p) { return p.front_end.empty() ? std::string("none") : p.front_end; }}};
  for (const Kind& kind : kKinds) {
    std::map<std::string, std::size_t> counts;
    for (const MeasuredPoint& p : points) ++counts[kind.of(p)];
    if (counts.size() < 2) continue;
    std::string text;
    for (const auto& [name, count] : counts)
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name.empty() ? "not stated" : name, count);
    warnings.push_back(
        fmt::format("the runs are of {} {}: {}; one profile is fitted to all", counts.size(), kind.plural, text));
  }
}

}  // namespace

std::string run_name(const MeasuredPoint& p) { return fmt::format("{}", fmt::join(order_of(p), "|")); }

std::vector<MeasuredPoint> runs_of_engine(std::vector<MeasuredPoint> points, const std::vector<std::string>& names,
                                          std::vector<std::string>& warnings) {
  const auto is_named = [&](const MeasuredPoint& p) {
    return std::find(names.begin(), names.end(), configs::canonical_name(p.engine)) != names.end();
  };
  if (std::any_of(points.begin(), points.end(), is_named)) {
    std::map<std::string, std::size_t> others;
    std::erase_if(points, [&](const MeasuredPoint& p) {
      if (p.engine.empty() || is_named(p)) return false;
      ++others[p.engine];
      return true;
    });
    for (const auto& [engine, count] : others)
      warnings.push_back(
          fmt::format("{} run{} of '{}' {} left out", count, count == 1 ? "" : "s", engine, count == 1 ? "is" : "are"));
    return points;
  }
  std::set<std::string> engines;
  for (const MeasuredPoint& p : points)
    if (!p.engine.empty()) engines.insert(p.engine);
  if (engines.size() > 1)
    throw InputError(points.front().where,
                     fmt::format("the runs are of several engines: {}; select the runs of one with --like, or state "
                                 "files of one engine only",
                                 fmt::join(engines, ", ")));
  return points;
}

OwnRuns own_runs(std::vector<MeasuredPoint> points) {
  OwnRuns runs;
  const Where first = points.empty() ? Where{} : points.front().where;
  std::sort(points.begin(), points.end(), comes_before);
  const auto left_out = [&](const std::pair<std::size_t, std::string>& out) {
    if (out.first > 0)
      runs.warnings.push_back(
          fmt::format("{} run{} left out; {}", out.first, out.first == 1 ? " is" : "s are", out.second));
    return out.first;
  };
  left_out(leave_out(points, [](const MeasuredPoint& p) { return p.unusable; }));
  left_out(leave_out(points, no_figure));
  const std::size_t all = points.size();
  const auto contradictory = leave_out(points, contradiction);
  if (4 * contradictory.first > all)
    throw InputError(first, fmt::format("{} of {} runs have contradictory figures, perhaps a wrong unit; {}",
                                        contradictory.first, all, contradictory.second));
  left_out(contradictory);
  check_repeats(points, runs.warnings);
  std::vector<std::string> names;
  for (const MeasuredPoint& p : points)
    if (names.empty() || names.back() != run_name(p)) names.push_back(run_name(p));
  if (names.size() < kFewestRuns)
    throw InputError(first, fmt::format("{} different run{} can be fitted, at least {} are needed: several numbers of "
                                        "users, two prompt lengths{}",
                                        names.size(), names.size() == 1 ? "" : "s", kFewestRuns,
                                        runs.warnings.empty() ? "" : "; " + runs.warnings.front()));
  check_variety(points, runs.warnings);
  name_mixtures(points, runs.warnings);
  for (MeasuredPoint& p : points) {
    const auto index = static_cast<std::size_t>(std::find(names.begin(), names.end(), run_name(p)) - names.begin());
    const std::size_t fold = index % kFolds, table = fold == kHeldOutFold ? 1 : 0;
    runs.tables[table].points.push_back(std::move(p));
    runs.folds[table].push_back(fold);
  }
  return runs;
}

std::optional<std::int64_t> common_max_running(const std::vector<MeasuredPoint>& points) {
  if (points.empty() || points.front().max_running == 0) return {};
  const std::int64_t first = points.front().max_running;
  const bool same = std::all_of(points.begin(), points.end(), [&](const auto& p) { return p.max_running == first; });
  return same ? std::optional(first) : std::nullopt;
}

}  // namespace plimsoll::calibration
