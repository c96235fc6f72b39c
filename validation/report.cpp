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

// Formats times per token in milliseconds, other times in seconds, and rates unchanged.
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

// Appends the prediction, measurement and error of one row and metric; blanks if the table does not have the figure.
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
  if (s.count == 0) return {name, short_name(metric), "0", "-", "-", "-", "-", "", fmt::format("{}", s.missing)};
  return {name,
          short_name(metric),
          fmt::format("{}", s.count),
          fmt::format("{:.1f} %", 100 * s.mean),
          fmt::format("{:.1f} %", 100 * s.median),
          fmt::format("{:.1f} %", 100 * s.p90),
          fmt::format("{:+.1f} %", 100 * s.bias),
          s.coverage(),
          s.missing > 0 ? fmt::format("{}", s.missing) : ""};
}

using Figures = std::vector<const Comparison*>;

Figures figures_of(const std::vector<Comparison>& comparisons) {
  Figures all;
  for (const Comparison& c : comparisons) all.push_back(&c);
  return all;
}

using NameOf = std::string (*)(const Comparison&);
std::string table_of(const Comparison& c) { return c.table; }
std::string group_of(const Comparison& c) {
  const MeasuredPoint& p = *c.point;
  const std::string name = fmt::format("{} {}", p.hardware.substr(0, p.hardware.find(" x ")), p.engine);
  return p.dtype.empty() ? name : name + " " + p.dtype;
}

// Returns the names in the order of their first figure.
std::vector<std::string> names_by(const Figures& figures, NameOf name_of) {
  std::vector<std::string> names;
  for (const Comparison* c : figures)
    if (std::find(names.begin(), names.end(), name_of(*c)) == names.end()) names.push_back(name_of(*c));
  return names;
}

Figures named(const Figures& figures, NameOf name_of, const std::string& name) {
  Figures out;
  for (const Comparison* c : figures)
    if (name_of(*c) == name) out.push_back(c);
  return out;
}

void add_summary_rows(const std::string& name, const Figures& figures, study::TextTable& table) {
  for (const std::string& metric : metrics_of(figures)) {
    Figures of_metric;
    for (const Comparison* c : figures)
      if (c->metric == metric) of_metric.push_back(c);
    table.rows.push_back(summary_row(name, metric, of_metric));
  }
}

// For rows that state only the means of TTFT and TPOT, computes measured and predicted mean latencies by the same sum.
std::vector<Comparison> latencies(const Figures& figures) {
  std::vector<Comparison> out;
  for (std::size_t i = 0; i + 1 < figures.size(); ++i) {
    const Comparison &ttft = *figures[i], &tpot = *figures[i + 1];
    if (ttft.point != tpot.point || ttft.metric != "ttft_mean_s" || tpot.metric != "tpot_mean_s") continue;
    if (ttft.point->latency_mean_s || !ttft.predicted || !tpot.predicted) continue;
    const double further = mean_output(*ttft.point) - 1;
    Comparison c;
    c.point = ttft.point;
    c.measured = ttft.measured + further * tpot.measured;
    c.predicted = *ttft.predicted + further * *tpot.predicted;
    out.push_back(std::move(c));
  }
  return out;
}

std::string group_text(const Figures& all) {
  const std::vector<std::string> groups = names_by(all, group_of);
  if (groups.size() < 2) return {};
  study::TextTable table;
  table.left = 2;
  table.header = {{"accelerator, engine, type", "figure", "n", "mean |error|", "median", "p90", "bias", "in band",
                   "not predicted"}};
  bool sums = false;
  for (const std::string& name : groups) {
    const Figures group = named(all, group_of, name);
    add_summary_rows(name, group, table);
    const std::vector<Comparison> whole = latencies(group);
    if (!whole.empty()) table.rows.push_back(summary_row(name, "e2e_s", figures_of(whole)));
    sums = sums || !whole.empty();
  }
  return "\n" + study::text_table(table) +
         (sums ? "e2e: ttft_mean + (output tokens - 1) x tpot_mean, on both sides\n" : "");
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
  table.header = {{"table", "figure", "n", "mean |error|", "median", "p90", "bias", "in band", "not predicted"}};
  const Figures all = figures_of(comparisons);
  const std::vector<std::string> tables = names_by(all, table_of);
  for (const std::string& name : tables) add_summary_rows(name, named(all, table_of, name), table);
  if (tables.size() > 1) add_summary_rows("all", all, table);
  return study::text_table(table) + group_text(all) + "in band: share of the figures inside their 90 % band\n";
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
  return text + notes(comparisons) + "\n" + summary_text(comparisons);
}

}  // namespace plimsoll::validation
