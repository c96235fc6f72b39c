// SPDX-License-Identifier: Apache-2.0
#include "validation/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "study/output/chart.h"
#include "study/output/html_page.h"

namespace plimsoll::validation {
namespace {

using Group = std::vector<const Comparison*>;
using Name = std::pair<double, std::string>;  // sorted by the number, then by the text
using Key = std::function<Name(const Comparison&)>;

std::vector<std::string> metrics_of(const std::vector<Comparison>& comparisons) {
  std::vector<std::string> names;
  for (const Comparison& c : comparisons)
    if (std::find(names.begin(), names.end(), c.metric) == names.end()) names.push_back(c.metric);
  return names;
}

// Converts a value of either axis to the unit that readers expect.
double shown(double value, const std::string& metric) { return metric == "output_tokens_per_s" ? value : 1e3 * value; }
std::string shown_unit(const std::string& metric) { return metric == "output_tokens_per_s" ? "tokens/s" : "ms"; }

// Draws predicted over measured values, with one colour per TP degree and lines at equality and 10 % to either side.
std::string parity(const std::string& metric, const std::vector<Comparison>& comparisons) {
  study::Chart chart;
  chart.title = metric + ": predicted over measured";
  chart.subtitle = "lines: equal, and 10 % to each side";
  chart.x.text = "measured, " + shown_unit(metric);
  chart.y.text = "predicted, " + shown_unit(metric);
  std::map<std::int32_t, study::ChartSeries> series;
  double low = 0, high = 0;
  for (const Comparison& c : comparisons) {
    if (c.metric != metric || !c.predicted) continue;
    const double x = shown(c.measured, metric), y = shown(*c.predicted, metric);
    low = low > 0 ? std::min({low, x, y}) : std::min(x, y);
    high = std::max({high, x, y});
    const MeasuredPoint& p = *c.point;
    series[p.tp].points.push_back(
        {x, y,
         fmt::format("{} on {}, TP {}, {} + {} tokens, load {:g}: {:+.1f} %", p.model, p.hardware, p.tp, p.input_tokens,
                     p.output_tokens, p.load_value, 100 * *c.relative_error())});
  }
  if (series.empty()) return {};
  std::size_t colour = 0;
  for (const double factor : {1.0, 1.1, 0.9})
    chart.series.push_back({factor == 1 ? "equal" : fmt::format("{:+.0f} %", 100 * (factor - 1)),
                            {{low, factor * low, ""}, {high, factor * high, ""}},
                            study::SeriesStyle::curve,
                            7});
  for (auto& [tp, s] : series) {
    s.name = fmt::format("TP {}", tp);
    s.style = study::SeriesStyle::points;
    s.colour = colour++;
    chart.series.push_back(std::move(s));
  }
  return study::svg_chart(chart);
}

std::string error_row(const std::string& name, const std::string& metric, const Group& group) {
  const ErrorSummary s = summarise(group);
  return fmt::format(
      "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{:.1f} %</td><td>{:.1f} %</td><td>{:+.1f} "
      "%</td><td>{}</td><td>{}</td></tr>\n",
      study::html_escaped(name), metric, s.count, 100 * s.mean, 100 * s.median, 100 * s.p90, 100 * s.bias, s.coverage(),
      s.missing > 0 ? fmt::format("{}", s.missing) : "");
}

// Returns rows for the groups in the order of their names, followed by the total if there are several groups.
std::string errors_by(const std::string& what, const std::vector<Comparison>& comparisons, const Key& key) {
  std::string rows;
  for (const std::string& metric : metrics_of(comparisons)) {
    std::map<Name, Group> groups;
    Group all;
    for (const Comparison& c : comparisons) {
      if (c.metric != metric) continue;
      groups[key(c)].push_back(&c);
      all.push_back(&c);
    }
    for (const auto& [name, group] : groups) rows += error_row(name.second, metric, group);
    if (groups.size() > 1) rows += error_row("all", metric, all);
  }
  return fmt::format(
      "<h2>Errors by {0}</h2>\n<table><tr><th>{0}</th><th>figure</th><th>n</th><th>mean "
      "|error|</th><th>median</th><th>p90</th>"
      "<th>bias</th><th>bands hold</th><th>not predicted</th></tr>\n{1}</table>\n",
      study::html_escaped(what), rows);
}

Name band_of(double value, std::initializer_list<double> limits, const char* unit) {
  double low = 0;
  for (const double limit : limits) {
    if (value <= limit) return {low, fmt::format("{:g} to {:g} {}", low, limit, unit)};
    low = limit;
  }
  return {low, fmt::format("above {:g} {}", low, unit)};
}

Name context_band(const Comparison& c) {
  return band_of(static_cast<double>(c.point->input_tokens + c.point->output_tokens), {512, 1024, 2048, 4096, 8192},
                 "tokens");
}
Name pool_band(const Comparison& c) {
  return c.predicted ? band_of(100 * c.kv_used, {10, 30, 60, 90}, "%") : Name{1000, "not predicted"};
}

// Returns a bar of the parts of a row's mean latency.
std::string time_bar(const Comparison& c) {
  static constexpr const char* kColours[] = {"#0072b2", "#56b4e9", "#009e73", "#cc79a7",
                                             "#e69f00", "#999999", "#d55e00", "#dddddd"};
  double total = 0;
  for (const double part : c.time_parts) total += part;
  std::string bar;
  double x = 0;
  for (std::size_t i = 0; total > 0 && i < c.time_parts.size(); ++i) {
    const double width = 400 * c.time_parts[i] / total;
    bar +=
        fmt::format("<rect x=\"{:.1f}\" width=\"{:.1f}\" height=\"12\" fill=\"{}\"><title>{} {:.1f} %</title></rect>",
                    x, width, kColours[i], time_part_name(i), width / 4);
    x += width;
  }
  return "<svg width=\"400\" height=\"12\">" + bar + "</svg>";
}

std::string time_section(const std::vector<Comparison>& comparisons) {
  std::string rows, last;
  for (const Comparison& c : comparisons) {
    if (!c.predicted) continue;
    const MeasuredPoint& p = *c.point;
    const std::string name =
        fmt::format("{}: {} {} on {}, TP {} x {}, {} + {} tokens, {} {:g}", c.table, p.model, p.dtype, p.hardware, p.tp,
                    p.replicas, p.input_tokens, p.output_tokens, p.load_kind, p.load_value);
    if (name == last) continue;
    last = name;
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", study::html_escaped(name), time_bar(c));
  }
  return "<h2>Where the predicted latency goes</h2>\n<p>From the left: weights, KV reads, compute, all-reduce, host, "
         "queue, preemption, other.</p>\n"
         "<details><summary>every point</summary><table>\n" +
         rows + "</table></details>\n";
}

}  // namespace

std::string comparison_html(const std::string& title, const std::vector<std::string>& notes,
                            const std::vector<Comparison>& comparisons) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n<style>body{{font:15px/1.4 "
      "sans-serif;max-width:70em;"
      "margin:2em auto;padding:0 1em}}table{{border-collapse:collapse}}td,th{{padding:.15em "
      ".7em;text-align:right;border-bottom:1px solid #ddd}}"
      "td:first-child,th:first-child,td:nth-child(2),th:nth-child(2){{text-align:left}}svg{{max-width:100%}}</style></"
      "head>\n<body><h1>{0}</h1>\n",
      study::html_escaped(title));
  for (const std::string& note : notes) page += "<p>" + study::html_escaped(note) + "</p>\n";
  page += errors_by("table", comparisons, [](const Comparison& c) { return Name{0, c.table}; });
  page += "<h2>Parity</h2>\n";
  for (const std::string& metric : metrics_of(comparisons)) page += parity(metric, comparisons);
  page += errors_by("TP degree", comparisons, [](const Comparison& c) {
    return Name{c.point->tp, fmt::format("TP {}", c.point->tp)};
  });
  page += errors_by("sequence length", comparisons, context_band);
  page += errors_by("share of the KV pool in use", comparisons, pool_band);
  page += errors_by("model", comparisons, [](const Comparison& c) { return Name{0, c.point->model}; });
  page += time_section(comparisons);
  std::set<std::string> estimated;
  for (const Comparison& c : comparisons)
    if (!c.extrapolates.empty()) estimated.insert(c.extrapolates);
  if (!estimated.empty()) page += "<h2>Estimated</h2>\n<ul>\n";
  for (const std::string& reason : estimated) page += "<li>" + study::html_escaped(reason) + "</li>\n";
  if (!estimated.empty()) page += "</ul>\n";
  return page + "</body></html>\n";
}

}  // namespace plimsoll::validation
