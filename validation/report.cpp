// SPDX-License-Identifier: Apache-2.0
#include "validation/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "study/file/cell.h"
#include "study/output/table_view.h"

namespace plimsoll::validation {

namespace {

using study::Cell;

const std::vector<std::string>& columns() {
  static const std::vector<std::string> kColumns = {
      "table",     "model",        "hardware",       "engine",    "dtype",      "tp",
      "instances", "input_tokens", "output_tokens",  "load_kind", "load_value", "metric",
      "predicted", "measured",     "relative_error", "lo",        "hi",         "extrapolates"};
  return kColumns;
}

std::vector<Cell> cells(const Comparison& c) {
  const MeasuredPoint& p = *c.point;
  return {c.table,
          p.model,
          p.hardware,
          p.engine,
          p.dtype,
          std::int64_t{p.tp},
          std::int64_t{p.replicas},
          p.input_tokens,
          p.output_tokens,
          p.load_kind,
          p.load_value,
          c.metric,
          study::number_cell(c.predicted),
          c.measured,
          study::number_cell(c.relative_error()),
          study::number_cell(c.low),
          study::number_cell(c.high),
          !c.extrapolates.empty()};
}

bool is_rate(const std::string& metric) { return metric == "output_tokens_per_s"; }
bool is_per_token(const std::string& metric) { return metric == "latency_per_token_p90_s" || metric == "tpot_mean_s"; }

// Per-token times in milliseconds, other times in seconds, rates as they are.
std::string figure(double value, const std::string& metric) {
  if (is_rate(metric)) return fmt::format("{:.0f}", value);
  return is_per_token(metric) ? fmt::format("{:.1f}", 1e3 * value) : fmt::format("{:.3g}", value);
}

std::string unit(const std::string& metric) {
  if (is_rate(metric)) return "tok/s";
  return is_per_token(metric) ? "ms/token" : "s";
}

std::string short_name(const std::string& metric) {
  if (metric == "latency_per_token_p90_s") return "latency";
  if (metric == "output_tokens_per_s") return "throughput";
  return metric.substr(0, metric.size() - 2);
}

std::string percent(double error) { return fmt::format("{:+.0f} %", 100 * error); }

std::string stated(const std::string& text, const char* what) {
  return text.empty() ? fmt::format("{} not stated", what) : text;
}

std::string title(const Comparison& c) {
  const MeasuredPoint& p = *c.point;
  return fmt::format("{}: {}{} on {}, TP {}{}, {} + {} tokens, {}", c.table, stated(p.model, "model"),
                     p.dtype.empty() ? "" : " " + p.dtype, stated(p.hardware, "hardware"), p.tp,
                     p.replicas > 1 ? fmt::format(" x {}", p.replicas) : "", p.input_tokens, p.output_tokens,
                     stated(p.engine, "engine"));
}

std::vector<std::string> metrics_of(const std::vector<const Comparison*>& group) {
  std::vector<std::string> names;
  for (const Comparison* c : group)
    if (std::find(names.begin(), names.end(), c->metric) == names.end()) names.push_back(c->metric);
  return names;
}

// Predicted, measured and error of one row and metric; blanks where the table has no figure.
void add_cells(const std::vector<const Comparison*>& group, const MeasuredPoint* row, const std::string& metric,
               std::vector<std::string>& out) {
  for (const Comparison* c : group) {
    if (c->point != row || c->metric != metric) continue;
    out.push_back(c->predicted ? figure(*c->predicted, metric) : "-");
    out.push_back(figure(c->measured, metric));
    out.push_back(c->predicted ? percent(*c->relative_error()) : "-");
    return;
  }
  out.insert(out.end(), 3, "");
}

std::string configuration_text(const std::vector<const Comparison*>& group) {
  study::TextTable table;
  table.left = 0;
  const std::vector<std::string> metrics = metrics_of(group);
  std::vector<std::string> top = {group.front()->point->load_kind}, bottom = {""};
  for (const std::string& metric : metrics) {
    top.insert(top.end(), {short_name(metric), "measured", "error"});
    bottom.insert(bottom.end(), {unit(metric), unit(metric), ""});
  }
  table.header = {top, bottom};
  const MeasuredPoint* last = nullptr;
  for (const Comparison* c : group) {
    if (c->point == last) continue;
    last = c->point;
    std::vector<std::string> row = {study::number_text(c->point->load_value)};
    for (const std::string& metric : metrics) add_cells(group, c->point, metric, row);
    table.rows.push_back(std::move(row));
  }
  std::string text = title(*group.front()) + "\n" + study::text_table(table);
  for (const std::string& metric : metrics) {
    std::vector<const Comparison*> of_metric;
    for (const Comparison* c : group)
      if (c->metric == metric) of_metric.push_back(c);
    const ErrorSummary s = summarise(of_metric);
    text += s.count == 0 ? fmt::format("  {}: none predicted\n", short_name(metric))
                         : fmt::format("  {}: mean absolute error {:.1f} %, bias {:+.1f} %, n = {}\n",
                                       short_name(metric), 100 * s.mean, 100 * s.bias, s.count);
  }
  return text + "\n";
}

std::string group_key(const Comparison& c) {
  const MeasuredPoint& p = *c.point;
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}", c.table, p.model, p.hardware, p.tp, p.replicas, p.input_tokens,
                     p.output_tokens, p.engine);
}

std::vector<std::string> summary_row(const std::string& name, const std::string& metric,
                                     const std::vector<const Comparison*>& group) {
  const ErrorSummary s = summarise(group);
  if (s.count == 0) return {name, short_name(metric), "0", "-", "-", "-", "-", fmt::format("{}", s.missing)};
  return {name,
          short_name(metric),
          fmt::format("{}", s.count),
          fmt::format("{:.1f} %", 100 * s.mean),
          fmt::format("{:.1f} %", 100 * s.median),
          fmt::format("{:.1f} %", 100 * s.p90),
          fmt::format("{:+.1f} %", 100 * s.bias),
          s.missing > 0 ? fmt::format("{}", s.missing) : ""};
}

std::string notes(const std::vector<Comparison>& comparisons) {
  std::set<std::string> estimated, missing;
  for (const Comparison& c : comparisons) {
    if (!c.extrapolates.empty()) estimated.insert(c.extrapolates);
    if (!c.predicted)
      missing.insert(fmt::format("{}, {} {}: {}", title(c), c.point->load_kind, study::number_text(c.point->load_value),
                                 c.reason));
  }
  std::string text;
  for (const std::string& reason : estimated) text += "estimated: " + reason + "\n";
  for (const std::string& reason : missing) text += "not predicted: " + reason + "\n";
  return text;
}

}  // namespace

std::string comparison_csv(const std::vector<Comparison>& comparisons) {
  std::string text = study::csv_header(columns());
  for (const Comparison& c : comparisons) text += study::csv_line(cells(c));
  return text;
}

std::string comparison_json(const std::vector<Comparison>& comparisons) {
  std::string text = "[";
  for (const Comparison& c : comparisons) {
    text += text.size() > 1 ? ",\n {" : "\n {";
    const std::vector<Cell> row = cells(c);
    for (std::size_t i = 0; i < row.size(); ++i)
      text += fmt::format("{}{}: {}", i > 0 ? ", " : "", study::json_quoted(columns()[i]), study::json_text(row[i]));
    text += "}";
  }
  return text + "\n]\n";
}

std::string summary_text(const std::vector<Comparison>& comparisons) {
  study::TextTable table;
  table.left = 2;
  table.header = {{"table", "figure", "n", "mean |error|", "median", "p90", "bias", "not predicted"}};
  std::vector<const Comparison*> all;
  for (const Comparison& c : comparisons) all.push_back(&c);
  std::vector<std::string> tables;
  for (const Comparison* c : all)
    if (std::find(tables.begin(), tables.end(), c->table) == tables.end()) tables.push_back(c->table);
  if (tables.size() > 1) tables.emplace_back();  // all of them together
  for (const std::string& name : tables) {
    std::vector<const Comparison*> group;
    for (const Comparison* c : all)
      if (name.empty() || c->table == name) group.push_back(c);
    for (const std::string& metric : metrics_of(group)) {
      std::vector<const Comparison*> of_metric;
      for (const Comparison* c : group)
        if (c->metric == metric) of_metric.push_back(c);
      table.rows.push_back(summary_row(name.empty() ? "all" : name, metric, of_metric));
    }
  }
  return study::text_table(table);
}

std::string comparison_text(const std::vector<Comparison>& comparisons) {
  std::string text;
  std::vector<const Comparison*> group;
  for (const Comparison& c : comparisons) {
    if (!group.empty() && group_key(*group.front()) != group_key(c)) {
      text += configuration_text(group);
      group.clear();
    }
    group.push_back(&c);
  }
  if (!group.empty()) text += configuration_text(group);
  return text + summary_text(comparisons) + notes(comparisons);
}

}  // namespace plimsoll::validation
