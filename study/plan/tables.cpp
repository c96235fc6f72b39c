// SPDX-License-Identifier: Apache-2.0
// The machine-readable forms of an answer.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "study/plan/pool_counts.h"
#include "study/plan/ranking.h"
#include "study/plan/view.h"

namespace plimsoll::study::plan {
namespace {

constexpr std::array<std::string_view, 34> kColumns = {"rank",
                                                       "tie",
                                                       "deployment",
                                                       "stage",
                                                       "meets_slo",
                                                       "certain",
                                                       "slo_used",
                                                       "slo_check",
                                                       "objective",
                                                       "objective_ci",
                                                       "objective_unit",
                                                       "frontier",
                                                       "model",
                                                       "hardware",
                                                       "dtype",
                                                       "tp",
                                                       "pp",
                                                       "replicas",
                                                       "instances",
                                                       "gpus",
                                                       "policy",
                                                       "usd_per_hour",
                                                       "usd_per_million_output_tokens",
                                                       "usd_per_million_total_tokens",
                                                       "latency_p90_s",
                                                       "latency_p90_ci_s",
                                                       "ttft_p90_s",
                                                       "output_tokens_per_s",
                                                       "output_tokens_per_s_per_gpu",
                                                       "capacity",
                                                       "capacity_ci",
                                                       "runs",
                                                       "verdict",
                                                       "capacity_at_most"};

// Columns at the end, only for searches of pools.
constexpr std::array<std::string_view, 5> kPoolColumns = {"prefill_replicas", "decode_replicas", "prefill_tp",
                                                          "decode_tp", "pool"};

std::string_view stage_name(Stage stage) {
  constexpr std::array<std::string_view, 6> kNames = {"excluded", "bounded",   "waiting",
                                                      "screened", "confirmed", "outranked"};
  return kNames[static_cast<std::size_t>(stage)];
}

Cell text_cell(std::string_view text) { return text.empty() ? Cell() : Cell(std::string(text)); }
Cell count_cell(std::int64_t value) { return Cell(value); }
Cell interval_cell(const Estimate& e) { return e.values > 1 ? number_cell(e.half_width) : Cell(); }

// Returns the simulated candidates in their order, then the others in index order.
std::vector<std::size_t> all_in_order(const Answer& answer) {
  std::vector<std::size_t> order = answer.order;
  std::vector<bool> there(answer.entries.size(), false);
  for (const std::size_t i : order) there[i] = true;
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (!there[i]) order.push_back(i);
  }
  return order;
}

/// A row under construction.
struct Row {
  bool ran = false;  // false: the measured cells stay empty
  std::vector<Cell> cells;

  void add(Cell cell) { cells.push_back(std::move(cell)); }
  void if_ran(Cell cell) { cells.push_back(ran ? std::move(cell) : Cell()); }
};

void add_deployment(Row& row, const Candidate& c) {
  const PointLabels& l = c.point.labels;
  row.add(text_cell(l.model));
  row.add(text_cell(l.hardware));
  row.add(text_cell(l.dtype));
  row.add(count_cell(l.tp));
  row.add(count_cell(c.spec.deployment.pp));
  row.add(count_cell(l.replicas));
  row.add(count_cell(c.point.instances));
  row.add(count_cell(c.gpus));
  row.add(text_cell(l.policy));
}

void add_pools(Row& row, const Candidate& c) {
  const Deployment &prefill = c.spec.prefill->deployment, &decode = c.spec.deployment;
  row.add(count_cell(prefill.replicas));
  row.add(count_cell(decode.replicas));
  row.add(count_cell(prefill.tp));
  row.add(count_cell(decode.tp));
  row.add(text_cell(c.point.pools));
}

void add_measures(Row& row, const Candidate& c, const SloVerdict& s) {
  const std::optional<double> usd = cost_of(c, s);
  row.add(number_cell(usd));
  row.if_ran(number_cell(usd_per_million(usd, s.output_tokens_per_s.mean)));
  row.if_ran(number_cell(usd_per_million(usd, s.total_tokens_per_s.mean)));
  row.if_ran(number_cell(s.latency_p90.mean));
  row.if_ran(interval_cell(s.latency_p90));
  row.if_ran(number_cell(s.ttft_p90.mean));
  row.if_ran(number_cell(s.output_tokens_per_s.mean));
  row.if_ran(number_cell(s.output_tokens_per_s.mean / static_cast<double>(std::max<std::int64_t>(1, c.gpus))));
}

// Returns the row of a candidate; `rank` is blank while the order is not known.
std::vector<Cell> entry_row(const QuestionAnswer& f, const Entry& e, const Candidate& c, Cell rank) {
  const SloVerdict& s = e.standing;
  Row row{.ran = e.stage == Stage::screened || e.stage == Stage::confirmed, .cells = f.swept};
  row.if_ran(std::move(rank));
  row.if_ran(Cell(e.ties));
  row.add(Cell(c.name));
  row.add(text_cell(stage_name(e.stage)));
  row.if_ran(Cell(s.meets));
  row.if_ran(Cell(s.certain));
  row.if_ran(number_cell(s.ratio));
  row.if_ran(text_cell(s.checks.empty() ? "" : s.checks[s.worst].name));
  const bool found = !finds_load(f.question.search.objective) || (e.capacity && e.capacity->confirmed);
  row.if_ran(found ? number_cell(e.objective.mean) : Cell());
  row.if_ran(found ? interval_cell(e.objective) : Cell());
  row.add(text_cell(objective_unit(f.question)));
  row.if_ran(Cell(e.on_frontier));
  add_deployment(row, c);
  add_measures(row, c, s);
  const bool limited = e.capacity && e.capacity->confirmed && !e.capacity->is_open();
  row.add(limited ? number_cell(e.capacity->load.mean) : Cell());
  row.add(limited ? interval_cell(e.capacity->load) : Cell());
  row.if_ran(count_cell(static_cast<std::int64_t>(s.runs)));
  row.add(text_cell(e.verdict));
  row.add(!limited && e.capacity_at_most ? number_cell(*e.capacity_at_most) : Cell());
  if (c.spec.prefill) add_pools(row, c);
  return std::move(row.cells);
}

std::vector<Cell> ranking_row(const QuestionAnswer& f, std::size_t place, std::size_t i) {
  return entry_row(f, f.answer.entries[i], f.question.candidates[i], count_cell(static_cast<std::int64_t>(place) + 1));
}

std::string optional_json(const std::optional<double>& value) { return json_text(number_cell(value)); }

std::string capacity_json(const QuestionAnswer& f, const Capacity& c) {
  return fmt::format("{{\"load\":{},\"ci\":{},\"passing\":{},\"failing\":{},\"unit\":{}}}",
                     json_text(number_cell(c.load.mean)), json_text(interval_cell(c.load)),
                     json_text(number_cell(c.passing)), optional_json(c.failing),
                     json_quoted(load_unit(f.question.spec.workload.load)));
}

std::string curve_json(const LoadCurve& curve) {
  std::string points;
  for (const CurveLoad& at : curve.loads) {
    points += fmt::format(
        "{}{{\"load\":{},\"latency_mean_s\":{},\"latency_p90_s\":{},\"output_tokens_per_s\":{},\"stable\":{}}}",
        points.empty() ? "" : ",", json_text(number_cell(at.load)), optional_json(at.metrics.latency.mean),
        optional_json(at.metrics.latency.p90), json_text(number_cell(at.metrics.output_tokens_per_s)),
        json_text(stable_cell(at.metrics.steady)));
  }
  return fmt::format("{{\"points\":[{}],\"knee_max_curvature\":{},\"knee_half_latency\":{},\"knee_slo\":{}}}", points,
                     optional_json(curve.max_curvature), optional_json(curve.half_latency), optional_json(curve.slo));
}

std::string sensitivities_json(const QuestionAnswer& f) {
  std::string text;
  for (const Sensitivity& s : f.answer.sensitivities) {
    text += fmt::format("{}{{\"change\":{},\"winner\":{},\"same\":{},\"slo_used\":{},\"slo_check\":{}}}",
                        text.empty() ? "" : ",", json_quoted(s.what),
                        s.winner ? json_quoted(f.question.candidates[*s.winner].name) : "null",
                        s.winner == f.answer.winner, json_text(number_cell(s.ratio)), json_quoted(s.check));
  }
  return "[" + text + "]";
}

const char* equal_json(const OnePool& other) {
  if (other.equal == OnePool::Equal::money) return "[\"money\"]";
  return other.also_money ? "[\"gpus\",\"money\"]" : "[\"gpus\"]";
}

// Returns the JSON member `pools` of a winner with two pools.
std::string pools_json(const QuestionAnswer& f) {
  if (!f.answer.pools) return {};
  const PoolFindings& found = *f.answer.pools;
  std::string others;
  for (const OnePool& other : found.one_pool) {
    const auto& capacity = other.entry.capacity;
    others += fmt::format(
        "{}{{\"equal\":{},\"deployment\":{},\"meets_slo\":{},\"gpus\":{},\"usd_per_hour\":{},\"capacity\":{},"
        "\"latency_p90_s\":{}}}",
        others.empty() ? "" : ",", equal_json(other), json_quoted(other.candidate.name), other.carries,
        other.candidate.gpus, optional_json(other.candidate.point.usd_per_hour),
        capacity && !capacity->is_open() ? capacity_json(f, *capacity) : "null",
        json_text(number_cell(other.entry.standing.latency_p90.mean)));
  }
  const auto need = [](double value) { return value > 0 ? json_text(number_cell(value)) : std::string("null"); };
  const PoolCounts counts = counts_of(f.question.candidates[*f.answer.winner].spec);
  const auto beyond = [](double value, std::int32_t replicas) {
    const auto more = beyond_need(value, replicas);
    return more ? json_text(number_cell(*more)) : std::string("null");
  };
  return fmt::format(
      ",\"pools\":{{\"needs_prefill\":{},\"needs_decode\":{},\"more_prefill\":{},\"more_decode\":{},\"one_pool\":[{}]}"
      "}",
      need(found.need.prefill), need(found.need.decode), beyond(found.need.prefill, counts.prefill),
      beyond(found.need.decode, counts.decode), others);
}

std::string winner_json(const QuestionAnswer& f) {
  if (!f.answer.winner) return "null";
  const Candidate& candidate = f.question.candidates[*f.answer.winner];
  std::string files;
  for (const DeployFile& file : deploy_files_of(candidate)) {
    files += fmt::format("{}{}:{}", files.empty() ? "" : ",", json_quoted(file.name), json_quoted(file.text));
  }
  const Entry& entry = f.answer.entries[*f.answer.winner];
  return fmt::format("{{\"deployment\":{},\"price\":{},\"capacity\":{},\"curve\":{},\"deploy\":{{{}}}{}}}",
                     json_quoted(candidate.name), json_quoted(candidate.spec.hardware.price_note),
                     entry.capacity && !entry.capacity->is_open() ? capacity_json(f, *entry.capacity) : "null",
                     curve_json(f.answer.curve), files, pools_json(f));
}

// The settings that turn the study into this candidate: paths and values, as --set accepts them.
std::string settings_members(const Candidate& candidate) {
  std::string text;
  for (const auto& [path, value] : candidate.settings)
    text += (text.empty() ? "" : ",") + json_quoted(path) + ':' + json_quoted(value.to_text());
  return text;
}

}  // namespace

std::vector<std::string> ranking_columns(const std::vector<std::string>& swept_keys, PoolColumns pools) {
  std::vector<std::string> columns = swept_keys;
  columns.insert(columns.end(), kColumns.begin(), kColumns.end());
  if (pools == PoolColumns::yes) columns.insert(columns.end(), kPoolColumns.begin(), kPoolColumns.end());
  return columns;
}

PoolColumns pool_columns_of(const Question& question) {
  return question.spec.prefill ? PoolColumns::yes : PoolColumns::no;
}

std::string ranking_csv(const std::vector<std::string>& swept_keys, std::span<const QuestionAnswer> findings) {
  const bool pools = std::any_of(findings.begin(), findings.end(), [](const QuestionAnswer& f) {
    return pool_columns_of(f.question) == PoolColumns::yes;
  });
  const std::vector<std::string> columns = ranking_columns(swept_keys, pools ? PoolColumns::yes : PoolColumns::no);
  std::string text = csv_header(columns);
  for (const QuestionAnswer& f : findings) {
    const std::vector<std::size_t> order = all_in_order(f.answer);
    for (std::size_t place = 0; place < order.size(); ++place) {
      std::vector<Cell> row = ranking_row(f, place, order[place]);
      row.resize(columns.size());  // other questions of the sweep may have one pool
      text += csv_line(row);
    }
  }
  return text;
}

std::string answer_members(const QuestionAnswer& f) {
  return fmt::format(
      "\"study\":{},\"objective\":{},\"objective_unit\":{},\"confidence\":{},\"deployments\":{},\"feasible\":{},"
      "\"simulations\":{},"
      "\"cancelled\":{},\"winner\":{},\"sensitivity\":{}",
      json_quoted(f.question.study->title()), json_quoted(objective_name(f.question.search.objective)),
      json_quoted(objective_unit(f.question)), f.question.search.confidence, f.question.candidates.size(),
      f.question.feasible, f.answer.trials, f.answer.cancelled, winner_json(f), sensitivities_json(f));
}

std::vector<std::string> ranking_members(const std::vector<std::string>& swept_keys, const QuestionAnswer& f) {
  const std::vector<std::string> columns = ranking_columns(swept_keys, pool_columns_of(f.question));
  const std::vector<std::size_t> order = all_in_order(f.answer);
  std::vector<std::string> out;
  for (std::size_t place = 0; place < order.size(); ++place) {
    out.push_back(json_members(columns, ranking_row(f, place, order[place])) + ",\"settings\":{" +
                  settings_members(f.question.candidates[order[place]]) + "}");
  }
  return out;
}

std::string look_members(const std::vector<std::string>& swept_keys, const QuestionAnswer& f,
                         const Candidate& candidate, const sched::PointMetrics& run) {
  Entry entry;
  entry.stage = Stage::screened;
  const sched::PointMetrics* const runs[] = {&run};
  entry.standing = standing_of(candidate.spec, runs, f.question.search.confidence);
  if (!finds_load(f.question.search.objective)) entry.objective = objective_of(f.question, candidate, entry.standing);
  return json_members(ranking_columns(swept_keys, pool_columns_of(f.question)),
                      entry_row(f, entry, candidate, Cell())) +
         ",\"settings\":{" + settings_members(candidate) + "}";
}

std::string findings_json(const std::vector<std::string>& swept_keys, std::span<const QuestionAnswer> findings) {
  std::string text = "[";
  for (const QuestionAnswer& f : findings) {
    text += fmt::format("{}{{{},\n  \"ranking\":[", &f == findings.data() ? "\n " : ",\n ", answer_members(f));
    bool first = true;
    for (const std::string& members : ranking_members(swept_keys, f)) {
      text += (std::exchange(first, false) ? "\n   {" : ",\n   {") + members + '}';
    }
    text += "]}";
  }
  return text + "\n]\n";
}

std::string curve_csv(const QuestionAnswer& f) {
  std::string text =
      csv_header({"load", "stable", "requests_per_s", "output_tokens_per_s", "latency_mean_s", "latency_p90_s",
                  "latency_p99_s", "ttft_p90_s", "tpot_mean_s", "batch_mean", "kv_used_mean"});
  for (const CurveLoad& at : f.answer.curve.loads) {
    const sched::PointMetrics& m = at.metrics;
    text += csv_line({number_cell(at.load), stable_cell(m.steady), number_cell(m.requests_per_s),
                      number_cell(m.output_tokens_per_s), number_cell(m.latency.mean), number_cell(m.latency.p90),
                      number_cell(m.latency.p99), number_cell(m.ttft.p90), number_cell(m.tpot.mean),
                      number_cell(m.batch_mean), number_cell(m.kv_used_mean)});
  }
  return text;
}

}  // namespace plimsoll::study::plan
