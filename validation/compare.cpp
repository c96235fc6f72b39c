// SPDX-License-Identifier: Apache-2.0
#include "validation/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "configs/quantity.h"
#include "study/file/study.h"
#include "study/run/run_study.h"

namespace plimsoll::validation {

namespace {

using Rows = std::vector<const MeasuredPoint*>;

std::string cache_text(const MeasuredPoint& p) {
  return p.prefix_caching ? fmt::format("prefix_caching: {}", *p.prefix_caching) : std::string();
}

// Returns the values that the rows of one study share; such rows differ only in the value of the load.
std::string configuration(const MeasuredPoint& p) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", p.model, p.hardware, p.engine, p.dtype, p.kv_dtype, p.tp,
                     p.replicas, p.policy, p.max_running, p.step_token_budget, p.input_tokens, p.output_tokens,
                     p.load_kind) +
         fmt::format("|{}|{}|{}|{}|{}|{}|{}|{}", p.ep, p.arrival_cv, p.unusable, cache_text(p), p.front_end,
                     p.batch_wait_timeout_iters, p.batch_wait_max_tokens_ratio, p.scheduler_recv_interval) +
         (p.load_kind == "jumpstart"
              ? std::string()
              : fmt::format("|{}|{}|{}|{}", p.requests, p.length_cv, p.turnaround_s, p.uniform_from));
}

std::string hardware_text(const MeasuredPoint& p) {
  const std::size_t times = p.hardware.find(" x ");
  if (times == std::string::npos) return p.hardware;
  return fmt::format("{{accelerator: {}, count: {}}}", p.hardware.substr(0, times), p.hardware.substr(times + 3));
}

// A load with a placeholder value, and the key that a sweep varies.
struct Load {
  std::string text, key, unit;
};
Load load_of(const MeasuredPoint& p) {
  if (p.load_kind == "jumpstart") return {"{jumpstart: {concurrency: 1}}", "workload.concurrency", ""};
  if (p.load_kind == "closed_loop")
    return {fmt::format("{{closed_loop: {{concurrency: 1, think: {} s}}}}", configs::number_text(p.turnaround_s)),
            "workload.concurrency", ""};
  if (p.load_kind == "poisson") return {"{poisson: {rate: 1 /s}}", "workload.rate", " /s"};
  if (p.load_kind == "constant") return {"{constant: {rate: 1 /s}}", "workload.rate", " /s"};
  if (p.load_kind == "gamma")
    return {fmt::format("{{gamma: {{rate: 1 /s, cv: {}}}}}", configs::number_text(p.arrival_cv)), "workload.rate",
            " /s"};
  if (p.load_kind == "burst") return {"{burst: {count: 1}}", "workload.load.burst.count", ""};
  throw InputError(p.where, p.unusable);
}

std::string scheduler_text(const MeasuredPoint& p) {
  std::string keys;
  const auto add = [&](const std::string& key) { keys += (keys.empty() ? "" : ", ") + key; };
  if (!p.policy.empty()) add("policy: " + p.policy);
  if (p.max_running > 0) add(fmt::format("max_running: {}", p.max_running));
  if (p.step_token_budget > 0) add(fmt::format("step_token_budget: {}", p.step_token_budget));
  if (p.prefix_caching) add(cache_text(p));
  if (p.batch_wait_timeout_iters > 0) add(fmt::format("batch_wait_timeout_iters: {}", p.batch_wait_timeout_iters));
  if (p.batch_wait_max_tokens_ratio > 0)
    add("batch_wait_max_tokens_ratio: " + configs::number_text(p.batch_wait_max_tokens_ratio));
  if (p.scheduler_recv_interval > 0) add(fmt::format("scheduler_recv_interval: {}", p.scheduler_recv_interval));
  return keys.empty() ? "" : "scheduler: {" + keys + "}\n";
}

std::string lengths_text(const MeasuredPoint& p) {
  if (p.uniform_from > 0) {
    const auto uniform = [&](std::int64_t tokens) {
      return fmt::format("{{uniform: {{min: {}, max: {}}}}}", shortest(tokens, p), tokens);
    };
    return fmt::format("{{input: {}, output: {}}}", uniform(p.input_tokens), uniform(p.output_tokens));
  }
  const std::string output = p.length_cv > 0 ? fmt::format("{{lognormal: {{mean: {}, cv: {}}}}}", p.output_tokens,
                                                           configs::number_text(p.length_cv))
                                             : fmt::format("{}", p.output_tokens);
  return fmt::format("{{input: {}, output: {}}}", p.input_tokens, output);
}

using Metrics = sched::PointMetrics;
struct Metric {
  const char* name;
  std::optional<double> MeasuredPoint::*measured;
  std::optional<double> (*predicted)(const Metrics&);
  Metrics::Band Metrics::*band;  // null if there is no band
};

constexpr Metric kMetrics[] = {
    {"latency_per_token_p90_s", &MeasuredPoint::latency_per_token_p90_s,
     [](const Metrics& m) { return m.latency_per_token.p90; }, &Metrics::latency_per_token_p90_band},
    {"output_tokens_per_s", &MeasuredPoint::output_tokens_per_s,
     [](const Metrics& m) { return std::optional(m.output_tokens_per_s); }, &Metrics::output_tokens_per_s_band},
    {"latency_p90_s", &MeasuredPoint::latency_p90_s, [](const Metrics& m) { return m.latency.p90; }, nullptr},
    {"latency_mean_s", &MeasuredPoint::latency_mean_s, [](const Metrics& m) { return m.latency.mean; },
     &Metrics::latency_mean_band},
    {"ttft_mean_s", &MeasuredPoint::ttft_mean_s, [](const Metrics& m) { return m.ttft.mean; },
     &Metrics::ttft_mean_band},
    {"tpot_mean_s", &MeasuredPoint::tpot_mean_s, [](const Metrics& m) { return m.tpot.mean; },
     &Metrics::tpot_mean_band},
};

// A user's point that cannot be simulated gets a reason instead of a prediction. In a published table, such a point is
// an error.
std::vector<study::PointResult> without_prediction(const Rows& rows, const std::string& reason) {
  std::vector<study::PointResult> points(rows.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i].index = i;
    points[i].infeasible = reason;
  }
  return points;
}

std::vector<study::PointResult> simulate_rows(const Rows& rows,
                                              const std::shared_ptr<const configs::Catalogue>& catalogue,
                                              const CompareSettings& settings) {
  const MeasuredPoint& first = *rows.front();
  try {
    const study::Study study(configs::Document::from_text(study_text(rows), "study"), "study", settings.set, catalogue);
    study::RunSettings run;
    run.bands = true;
    run.jobs = settings.jobs;
    run.control = settings.control;
    return study::run_study(study, run).points;
  } catch (const InputError& error) {
    // An error in the measured table has its place already. One in the generated study gets the place of the row.
    if (error.where().file == first.where.file) throw;
    if (first.imported && error.where().file == "study") return without_prediction(rows, error.text());
    throw InputError(first.where, error.where().file == "study" ? error.text() : error.what());
  }
}

std::vector<study::PointResult> predict_rows(const Rows& rows,
                                             const std::shared_ptr<const configs::Catalogue>& catalogue,
                                             const CompareSettings& settings) {
  const MeasuredPoint& first = *rows.front();
  if (first.unusable.empty()) return simulate_rows(rows, catalogue, settings);
  if (first.imported) return without_prediction(rows, first.unusable);
  throw InputError(first.where, first.unusable);
}

}  // namespace

const char* time_part_name(std::size_t part) {
  static constexpr std::array<const char*, 8> kNames = {"weights", "KV reads", "compute",    "all-reduce",
                                                        "host",    "queue",    "preemption", "other"};
  return kNames.at(part);
}

void set_prediction(const study::PointResult& point, Comparison& c) {
  c.extrapolates = point.extrapolates;
  c.reason = point.infeasible;
  c.predicted = c.low = c.high = std::nullopt;
  c.kv_used = 0;
  c.time_parts = {};
  if (!point.metrics) return;
  const Metrics& m = *point.metrics;
  // Without a completed request there is nothing to compare.
  if (m.requests_completed == 0) {
    c.reason =
        m.rejections.empty() ? "nothing was completed" : "all requests were rejected: " + m.rejections.begin()->first;
    return;
  }
  c.kv_used = m.kv_used_mean;
  c.time_parts = {m.time_weights_s, m.time_kv_s,    m.time_compute_s, m.time_allreduce_s,
                  m.time_host_s,    m.time_queue_s, m.time_preempt_s, m.time_other_s};
  for (const Metric& metric : kMetrics) {
    if (c.metric != metric.name) continue;
    c.predicted = metric.predicted(m);
    if (metric.band == nullptr) continue;
    c.low = (m.*metric.band).low;
    c.high = (m.*metric.band).high;
  }
  if (!c.predicted) c.reason = m.steady.grows ? "the load is beyond capacity" : "no request has this figure";
}

void append_comparisons(const MeasuredTable& table, const MeasuredPoint& row, const study::PointResult& point,
                        std::vector<Comparison>& out) {
  for (const Metric& metric : kMetrics) {
    const std::optional<double> measured = row.*metric.measured;
    if (!measured) continue;
    Comparison c;
    c.point = &row;
    c.table = table.name;
    c.metric = metric.name;
    c.measured = *measured;
    set_prediction(point, c);
    out.push_back(std::move(c));
  }
}

std::string study_text(const std::vector<const MeasuredPoint*>& rows) {
  const MeasuredPoint& p = *rows.front();
  const Load load = load_of(p);
  std::string values;
  for (const MeasuredPoint* row : rows)
    values += (values.empty() ? "" : ", ") + configs::number_text(row->load_value) + load.unit;
  std::string text =
      fmt::format("model: {}\nhardware: {}\nengine: {}\ndeployment: {{tp: {}, {}replicas: {}}}\n", p.model,
                  hardware_text(p), p.engine, p.tp, p.ep > 1 ? fmt::format("ep: {}, ", p.ep) : "", p.replicas);
  if (!p.dtype.empty()) text += "dtype: " + p.dtype + "\n";
  if (!p.kv_dtype.empty()) text += "kv_dtype: " + p.kv_dtype + "\n";
  if (!p.front_end.empty()) text += "engine_front_end: " + p.front_end + "\n";
  // The limits of the endpoints in the JumpStart post (docs/validation.md).
  if (p.load_kind == "jumpstart")
    text += "scheduler: {max_concurrent: 512, max_total: 4096, max_input: 4095, max_batch_prefill_tokens: 4096}\n";
  else
    text += scheduler_text(p);
  text += fmt::format("workload:\n  load: {}\n  lengths: {}\n", load.text, lengths_text(p));
  const bool ends_itself = p.load_kind == "jumpstart" || p.load_kind == "burst";
  if (!ends_itself) text += fmt::format("  requests: {}\n", p.requests > 0 ? p.requests : 1000);
  return text + fmt::format("sweep: {{{}: [{}]}}\n", load.key, values);
}

std::vector<Comparison> compare(const std::vector<MeasuredTable>& tables,
                                std::shared_ptr<const configs::Catalogue> catalogue, const CompareSettings& settings) {
  std::vector<Comparison> out;
  for (const MeasuredTable& table : tables) {
    std::vector<std::string> order;  // configurations in the order of their first row
    std::map<std::string, Rows> groups;
    for (const MeasuredPoint& point : table.points) {
      const std::string key = configuration(point);
      if (groups.find(key) == groups.end()) order.push_back(key);
      groups[key].push_back(&point);
    }
    for (const std::string& key : order) {
      const Rows& rows = groups[key];
      const std::vector<study::PointResult> points = predict_rows(rows, catalogue, settings);
      for (const study::PointResult& point : points)
        append_comparisons(table, *rows[point.index], point, out);  // cancelled: not all
    }
  }
  return out;
}

std::vector<Comparison> compare_with_study(const MeasuredTable& table, const study::Study& study,
                                           const CompareSettings& settings) {
  const std::vector<MeasuredPoint>& rows = table.points;
  if (rows.size() != study.point_count())
    throw InputError(rows.front().where, fmt::format("the file has {} points, the study {}: they are not from the "
                                                     "same run",
                                                     rows.size(), study.point_count()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const study::PointSpec spec = study.point(i);
    const std::string_view kind = load::load_kind(spec.workload.load);
    if (!rows[i].load_kind.empty() && rows[i].load_kind != kind)
      throw InputError(rows[i].where, fmt::format("load_kind: found '{}', point {} of the study has '{}'",
                                                  rows[i].load_kind, i, kind));
    const double value = load::load_value(spec.workload.load);
    if (rows[i].load_value > 0 && std::abs(rows[i].load_value - value) > 1e-6 * value)
      throw InputError(rows[i].where, fmt::format("load_value: found {:g}, point {} of the study has {:g}",
                                                  rows[i].load_value, i, value));
  }
  std::vector<Comparison> out;
  study::RunSettings run;
  run.bands = true;
  run.jobs = settings.jobs;
  run.control = settings.control;
  for (const study::PointResult& point : study::run_study(study, run).points)
    append_comparisons(table, rows.at(point.index), point, out);  // cancelled: not all
  return out;
}

std::vector<Comparison> match(const MeasuredTable& table, const std::vector<study::PointResult>& points) {
  std::vector<Comparison> out;
  for (const MeasuredPoint& row : table.points)
    for (const study::PointResult& point : points)
      if (point.labels.tp == row.tp && point.labels.replicas == row.replicas &&
          point.labels.load_value == row.load_value)
        append_comparisons(table, row, point, out);
  return out;
}

ErrorSummary summarise(const std::vector<const Comparison*>& comparisons) {
  std::vector<double> errors;
  for (const Comparison* c : comparisons)
    if (const std::optional<double> error = c->relative_error()) errors.push_back(*error);
  ErrorSummary summary = summarise_errors(errors);
  summary.missing = comparisons.size() - errors.size();
  for (const Comparison* c : comparisons) {
    const std::optional<bool> inside = c->is_in_band();
    summary.banded += inside ? 1 : 0;
    summary.in_band += inside.value_or(false) ? 1 : 0;
  }
  return summary;
}

}  // namespace plimsoll::validation
