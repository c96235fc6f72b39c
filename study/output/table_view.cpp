// SPDX-License-Identifier: Apache-2.0
#include "study/output/table_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "study/output/chart_axis.h"
#include "study/output/run_files.h"

namespace plimsoll::study {

bool rejected_all(const sched::PointMetrics& metrics) {
  return metrics.requests_rejected > 0 && metrics.requests_completed + metrics.requests_timed_out == 0;
}
namespace {

constexpr const char* kBlank = "-";

// Code points: continuation bytes of UTF-8 begin with the bits 10. No wide characters occur in these tables.
std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string shown(std::optional<double> value, double scale = 1) {
  return value ? reader_number(*value * scale) : kBlank;
}

std::string shown_cell(const Cell& cell) {
  if (const auto* number = std::get_if<double>(&cell)) return reader_number(*number);
  const std::string text = plain_text(cell);
  return text.empty() ? kBlank : text;
}

/// Returns the last part of a key: "deployment.tp" -> "tp".
std::string short_key(const std::string& key) { return key.substr(key.rfind('.') + 1); }

bool same_everywhere(const std::vector<PointResult>& points, const std::string PointLabels::*label) {
  return std::all_of(points.begin(), points.end(),
                     [&](const PointResult& p) { return p.labels.*label == points.front().labels.*label; });
}

// Returns the line above the table with the values that all points share; these need no column.
std::string constants_line(const std::vector<PointResult>& points) {
  const PointLabels& first = points.front().labels;
  std::string line;
  const auto add = [&](const char* before, const std::string PointLabels::*label) {
    if ((first.*label).empty() || !same_everywhere(points, label)) return;
    line += (line.empty() ? "" : ", ") + std::string(before) + first.*label;
  };
  add("", &PointLabels::model);
  if (!first.model.empty()) add("", &PointLabels::dtype);
  add("on ", &PointLabels::hardware);
  add("engine ", &PointLabels::engine);
  add("policy ", &PointLabels::policy);
  add("load ", &PointLabels::load_kind);
  return line;
}

/// The notes below the table; a row refers to a note by its letter.
class Footnotes {
 public:
  std::string mark(const std::string& text) {
    const auto found = std::find(texts_.begin(), texts_.end(), text);
    const auto index = static_cast<std::size_t>(found - texts_.begin());
    if (found == texts_.end()) texts_.push_back(text);
    return index < 26 ? std::string(1, static_cast<char>('a' + index)) : fmt::format("{}", index);
  }
  [[nodiscard]] std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      lines.push_back(i < 26 ? fmt::format("{}  {}", static_cast<char>('a' + i), texts_[i])
                             : fmt::format("{}  {}", i, texts_[i]));
    }
    return lines;
  }

 private:
  std::vector<std::string> texts_;
};

const std::vector<std::vector<std::string>> kHeader = {
    {"requests", "output", "latency", "latency", "per token", "TTFT", "TTFT", "TPOT", "batch", "KV", "KV", "cost",
     "notes"},
    {"/s", "tokens/s", "p50 s", "p90 s", "p90 ms", "p50 ms", "p99 ms", "mean ms", "mean", "used %", "wasted %",
     "$/M tok", ""}};

constexpr std::size_t kAfterSlo = 5;  // columns right of TPOT: use of batch and KV pool, cost, notes

/// A metric that the SLO limits and that has no column of its own in kHeader.
struct SloColumn {
  std::string figure, name, unit;
  double scale = 1;
};

std::vector<SloColumn> slo_columns(const std::vector<PointResult>& points) {
  constexpr std::array<std::string_view, 8> kShown = {"p50 latency",   "p90 latency", "p90 latency per token",
                                                      "p50 ttft",      "p99 ttft",    "mean tpot",
                                                      "output tokens", "requests"};
  std::vector<SloColumn> columns;
  for (const PointResult& point : points) {
    for (const SloFigure& f : point.slo) {
      const bool known =
          std::find(kShown.begin(), kShown.end(), f.name) != kShown.end() ||
          std::any_of(columns.begin(), columns.end(), [&](const SloColumn& c) { return c.figure == f.name; });
      if (known) continue;
      const bool in_ms = f.unit == "s" && !f.name.ends_with(" latency");
      columns.push_back({f.name, slo_heading(f), in_ms ? "ms" : f.unit, in_ms ? 1e3 : 1});
    }
  }
  return columns;
}

std::string slo_cell(const PointResult& point, const SloColumn& column) {
  for (const SloFigure& f : point.slo) {
    if (f.name == column.figure && std::isfinite(f.value)) return reader_number(f.value * column.scale);
  }
  return kBlank;
}

// Returns " (max_model_len)", with counts if there are several codes.
std::string rejection_codes(const sched::PointMetrics& m) {
  std::vector<std::string> codes;
  for (const auto& [code, count] : m.rejections)
    codes.push_back(m.rejections.size() == 1 ? code : fmt::format("{} {}", count, code));
  return codes.empty() ? "" : fmt::format(" ({})", fmt::join(codes, ", "));
}

// Returns a note if the first wave of a closed loop changes the mean TTFT noticeably; else an empty text.
std::string steady_note(const sched::PointMetrics& m, Footnotes& footnotes) {
  constexpr double kMoves = 0.1;
  if (!m.ttft.mean || !m.ttft_steady_mean ||
      std::abs(*m.ttft.mean - *m.ttft_steady_mean) <= kMoves * *m.ttft_steady_mean)
    return {};
  return fmt::format(
      "mean TTFT {} ms, after the first wave {} ms: {}", reader_number(1e3 * *m.ttft.mean),
      reader_number(1e3 * *m.ttft_steady_mean),
      footnotes.mark("all figures cover the whole run, including the first wave, which all users send at once; "
                     "ttft_steady_mean_s and others in points.csv exclude it"));
}

// The meaning of a refusal, and which key to change.
struct Refusal {
  std::string_view code, meaning;
};
constexpr Refusal kRefusals[] = {
    {"max_num_tokens",
     "a prompt has more tokens than a step allows: raise scheduler.step_token_budget or set scheduler.chunked: true"},
    {"max_num_batched_tokens",
     "a prompt has more tokens than a step allows: raise scheduler.step_token_budget or set scheduler.chunked: true"},
    {"ignored",
     "a prompt has more tokens than a step or the KV pool: raise scheduler.step_token_budget, or provide more memory"},
    {"input_length",
     "a prompt is longer than scheduler.max_input or the prefill budget: raise scheduler.max_input or "
     "scheduler.prefill_token_budget"},
    {"max_total_tokens",
     "prompt and answer exceed the longest sequence: raise scheduler.max_total (which needs memory), or shorten them"},
    {"max_model_len",
     "prompt and answer exceed the context: raise scheduler.max_total up to the model's limit, or shorten them"},
    {"max_seq_len",
     "prompt and answer exceed the context: raise scheduler.max_total up to the model's limit, or shorten them"},
    {"context_length",
     "prompt and answer exceed the context: raise scheduler.max_total up to the model's limit, or shorten them"},
    {"kv_capacity",
     "the KV pool is too small for a request: use a larger tp, a smaller dtype or kv_dtype, or GPUs with more memory"},
    {"overloaded",
     "too many requests at once: raise scheduler.max_concurrent or scheduler.queue_limit, or add replicas"},
    {"queue_capacity", "the queue is full: raise scheduler.queue_limit, or add replicas"}};

// Returns "3 rejected (max_num_tokens): a".
std::string rejections(const sched::PointMetrics& m, Footnotes& footnotes) {
  std::string text = fmt::format("{} rejected{}", m.requests_rejected, rejection_codes(m));
  for (const auto& [code, count] : m.rejections)
    for (const Refusal& refusal : kRefusals)
      if (refusal.code == code)
        text += fmt::format("{} {}", text.ends_with(')') ? ":" : "",
                            footnotes.mark(fmt::format("{}: {}", code, refusal.meaning)));
  return text;
}

std::string notes_of(const PointResult& point, Footnotes& footnotes) {
  std::vector<std::string> notes;
  if (!point.metrics) {
    notes.push_back(footnotes.mark("impossible: " + point.infeasible));
  } else {
    const sched::PointMetrics& m = *point.metrics;
    constexpr double kWide = 0.1;
    if (m.steady.verdict == sched::Steadiness::unstable)
      notes.push_back("unstable: " + footnotes.mark(steady_text(m.steady)));
    if (m.steady.verdict == sched::Steadiness::too_short && !rejected_all(m))
      notes.push_back("run too short to tell: " + footnotes.mark(steady_text(m.steady)));
    if (point.missed_slo)
      notes.push_back(point.missed_slo->empty() ? "SLO kept"
                                                : "SLO missed: " + footnotes.mark("misses " + *point.missed_slo));
    if (m.latency_mean_ci95_s && m.latency.mean && *m.latency_mean_ci95_s > kWide * *m.latency.mean) {
      notes.push_back(footnotes.mark(
          fmt::format("mean latency known only to ± {:.2g} s (95 %): simulate more requests", *m.latency_mean_ci95_s)));
    }
    if (m.requests_rejected > 0) notes.push_back(rejections(m, footnotes));
    if (!point.starved.empty()) notes.push_back("prompts wait: " + footnotes.mark(point.starved));
    if (m.requests_timed_out > 0) notes.push_back(fmt::format("{} timed out", m.requests_timed_out));
    if (const std::string steady = steady_note(m, footnotes); !steady.empty()) notes.push_back(steady);
    if (m.preemptions > 0) notes.push_back(fmt::format("{} preempted", m.preemptions));
  }
  if (const std::string unused = unused_gpus(point); point.metrics && !unused.empty())
    notes.push_back("idle GPUs: " + footnotes.mark(unused));
  if (!point.extrapolates.empty()) notes.push_back(footnotes.mark("estimated: " + point.extrapolates));
  return fmt::format("{}", fmt::join(notes, ", "));
}

std::vector<std::string> figures_of(const PointResult& point) {
  if (!point.metrics) return std::vector<std::string>(kHeader[0].size() - 1, kBlank);
  const sched::PointMetrics& m = *point.metrics;
  // If the queue grows, waiting times depend on the length of the run, not on the deployment.
  const bool meaningful = !m.steady.grows;
  const auto if_stable = [meaningful](std::optional<double> v) { return meaningful ? v : std::nullopt; };
  return {shown(m.requests_per_s),
          shown(m.output_tokens_per_s),
          shown(if_stable(m.latency.p50)),
          shown(if_stable(m.latency.p90)),
          shown(if_stable(m.latency_per_token.p90), 1e3),
          shown(if_stable(m.ttft.p50), 1e3),
          shown(if_stable(m.ttft.p99), 1e3),
          shown(m.tpot.mean, 1e3),
          shown(m.batch_mean),
          shown(m.kv_used_mean, 100),
          shown(m.kv_wasted_mean, 100),
          shown(usd_per_million_output_tokens(point))};
}

// Columns before the notes: resources used by fleets with replicas that come and go.
const std::vector<std::vector<std::string>> kFleetHeader = {{"replicas", "instance", "cost"}, {"mean", "hours", "USD"}};

bool comes_and_goes(const PointResult& point) { return point.metrics && point.metrics->replica_s.has_value(); }

std::vector<std::string> fleet_figures(const PointResult& point) {
  if (!point.metrics) return std::vector<std::string>(kFleetHeader[0].size(), kBlank);
  const sched::PointMetrics& m = *point.metrics;
  const double hours = instance_hours(point);
  const auto usd = point.usd_per_hour ? std::optional(*point.usd_per_hour / point.instances * hours) : std::nullopt;
  return {shown(m.replica_s && m.duration_s > 0 ? *m.replica_s / m.duration_s : point.labels.replicas), shown(hours),
          shown(usd)};
}

// Adds the columns of swept values at the left.
void add_swept(TextTable& table, const std::vector<std::string>& swept_keys) {
  std::vector<std::string> names;
  for (const std::string& key : swept_keys) names.push_back(short_key(key));
  table.header[0].insert(table.header[0].begin(), names.begin(), names.end());
  table.header[1].insert(table.header[1].begin(), names.size(), "");
}

// Returns a table for pools of prefill and decode: the parts of a request's latency, and how many replicas are busy.
std::string pools_text(const std::vector<std::string>& swept_keys, const std::vector<PointResult>& points) {
  TextTable table{
      .header = {{"queue(P)", "prefill", "transfer", "queue(D)", "decode", "transfer", "local", "busy", "busy"},
                 {"ms", "ms", "ms", "ms", "ms", "p99 ms", "%", "prefill", "decode"}},
      .rows = {},
      .left = 0};
  add_swept(table, swept_keys);
  for (const PointResult& point : points) {
    if (!point.metrics || !point.metrics->pools) continue;
    const sched::PoolMetrics& p = *point.metrics->pools;
    const bool meaningful = !point.metrics->steady.grows;
    const auto time = [meaningful](double v) { return shown(meaningful ? std::optional(v) : std::nullopt, 1e3); };
    std::vector<std::string> row;
    for (const Cell& cell : point.swept) row.push_back(shown_cell(cell));
    for (const double part :
         {p.time_queue_prefill, p.time_prefill, p.time_transfer, p.time_queue_decode, p.time_decode})
      row.push_back(time(part));
    row.push_back(shown(p.transfer_p99, 1e3));
    row.push_back(shown(p.local_prefill_share, 100));
    row.push_back(fmt::format("{} of {}", shown(p.prefill_busy), point.prefill_replicas));
    row.push_back(fmt::format("{} of {}", shown(p.decode_busy), point.labels.replicas - point.prefill_replicas));
    table.rows.push_back(std::move(row));
  }
  return "\nwhere the time goes, mean of a request (docs/pools.md)\n" + text_table(table);
}

void append_line(std::string& out, const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                 std::size_t left) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string pad(widths[i] - display_width(cells[i]), ' ');
    line += (i > 0 ? "  " : "") + (i < left || i + 1 == cells.size() ? cells[i] + pad : pad + cells[i]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  out += line + '\n';
}

}  // namespace

std::string text_table(const TextTable& table) {
  std::vector<std::size_t> widths;
  for (const auto* part : {&table.header, &table.rows}) {
    for (const std::vector<std::string>& cells : *part) {
      widths.resize(std::max(widths.size(), cells.size()), 0);
      for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], display_width(cells[i]));
    }
  }
  std::string out;
  for (const auto& cells : table.header) append_line(out, cells, widths, table.left);
  std::size_t total = 0;
  for (const std::size_t width : widths) total += width + 2;
  for (std::size_t i = 2; i < total; ++i) out += "─";
  out += '\n';
  for (const auto& cells : table.rows) append_line(out, cells, widths, table.left);
  return out;
}

PointsTable points_text_table(const std::vector<std::string>& swept_keys, const std::vector<PointResult>& points) {
  TextTable table{.header = kHeader, .rows = {}, .left = 0};
  const std::vector<SloColumn> limited = slo_columns(points);
  for (const SloColumn& column : limited) {
    // Columns for the limits of the SLO are beside the figures of their kind, left of the columns on resources.
    table.header[0].insert(table.header[0].end() - static_cast<std::ptrdiff_t>(kAfterSlo), column.name);
    table.header[1].insert(table.header[1].end() - static_cast<std::ptrdiff_t>(kAfterSlo), column.unit);
  }
  add_swept(table, swept_keys);
  const bool fleets = std::any_of(points.begin(), points.end(), comes_and_goes);
  for (std::size_t line = 0; fleets && line < kFleetHeader.size(); ++line)
    table.header[line].insert(table.header[line].end() - 1, kFleetHeader[line].begin(), kFleetHeader[line].end());
  Footnotes footnotes;
  for (const PointResult& point : points) {
    std::vector<std::string> row;
    for (const Cell& cell : point.swept) row.push_back(shown_cell(cell));
    const std::vector<std::string> figures = figures_of(point);
    row.insert(row.end(), figures.begin(), figures.end());
    for (const SloColumn& column : limited)
      row.insert(row.end() - static_cast<std::ptrdiff_t>(kAfterSlo - 1), slo_cell(point, column));
    if (fleets) {
      const std::vector<std::string> use = fleet_figures(point);
      row.insert(row.end(), use.begin(), use.end());
    }
    row.push_back(notes_of(point, footnotes));
    table.rows.push_back(std::move(row));
  }
  return {constants_line(points), std::move(table), footnotes.lines()};
}

std::string points_table(const std::string& title, const std::vector<std::string>& swept_keys,
                         const std::vector<PointResult>& points) {
  if (points.empty()) return title + "\nno points\n";
  const PointsTable table = points_text_table(swept_keys, points);
  std::string text = fmt::format("{}\n{}\n\n{}", title, table.constants, text_table(table.table));
  for (const std::string& line : table.footnotes) text += "  " + line + '\n';
  if (pool_columns(points) == PoolColumns::yes) text += pools_text(swept_keys, points);
  const bool alone = points.size() == 1 && !points.front().fleet.empty();  // a sweep's fleets are in the files of --out
  return alone ? text + '\n' + fleet_table(points.front()) : text;
}

}  // namespace plimsoll::study
