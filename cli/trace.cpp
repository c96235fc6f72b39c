// SPDX-License-Identifier: Apache-2.0
// plimsoll trace FILE: describes a trace. Problems are printed as `FILE[:LINE[:BYTECOL]]: [COLUMN: ]text [code]`.

#include <cstdio>

#include "cli/commands.h"
#include "cli/options.h"
#include "study/file/cell.h"
#include "study/output/chart_axis.h"
#include "study/output/table_view.h"
#include "traces/reader.h"
#include "traces/summary.h"

namespace plimsoll::cli {
namespace {

using study::Cell;

struct TraceFigure {
  std::string name;  // column in CSV and JSON
  Cell value;
};

Usage trace_usage() {
  Usage usage{
      .verb = "trace",
      .positional = "FILE",
      .summary = "Reads a trace (plain or .gz) and says what is in it: format, counts, rates, lengths, problems.",
      .example = "  plimsoll trace traces/samples/azure-conversation.csv\n",
      .positional_required = true,
      .options = po::options_description("Options"),
      .without = {"set", "out", "jobs", "seed", "stepwise"}};
  auto add = usage.options.add_options();
  add("as", po::value<std::string>()->value_name("FORMAT"), "read it as this format (plimsoll list formats)");
  add("block-tokens", po::value<int>()->value_name("N"), "tokens covered by one prefix hash (default: the format's)");
  return usage;
}

void append_lengths(std::vector<TraceFigure>& out, const std::string& side, const traces::LengthSummary& lengths) {
  out.push_back({side + "_tokens_sum", lengths.sum});
  out.push_back({side + "_tokens_mean", lengths.mean});
  out.push_back({side + "_tokens_cv", lengths.cv});
  out.push_back({side + "_tokens_min", std::int64_t{lengths.min}});
  out.push_back({side + "_tokens_p50", lengths.p50});
  out.push_back({side + "_tokens_p90", lengths.p90});
  out.push_back({side + "_tokens_p99", lengths.p99});
  out.push_back({side + "_tokens_max", std::int64_t{lengths.max}});
}

void append_arrivals(std::vector<TraceFigure>& out, const std::optional<traces::ArrivalSummary>& arrivals) {
  const auto number = [&](auto get) { return arrivals ? Cell(get(*arrivals)) : Cell(); };
  out.push_back({"span_s", number([](const auto& a) { return static_cast<double>(a.span) / 1e9; })});
  out.push_back({"rate_mean_per_s", number([](const auto& a) { return a.mean_rate; })});
  out.push_back({"busiest_second", number([](const auto& a) { return a.busiest_second; })});
  out.push_back({"busiest_minute", number([](const auto& a) { return a.busiest_minute; })});
  out.push_back({"gap_cv", number([](const auto& a) { return a.gap_cv; })});
  out.push_back({"dispersion_per_second", number([](const auto& a) { return a.dispersion_per_second; })});
  out.push_back({"equal_stamps", number([](const auto& a) { return a.equal_stamps; })});
}

std::vector<TraceFigure> figures(const traces::TraceSummary& summary, std::size_t warnings) {
  std::vector<TraceFigure> out;
  out.push_back({"file", summary.file});
  out.push_back({"format", summary.format});
  out.push_back({"rows", summary.rows});
  out.push_back({"rows_skipped", summary.rows_skipped});
  out.push_back({"warnings", static_cast<std::int64_t>(warnings)});
  append_arrivals(out, summary.arrivals);
  append_lengths(out, "input", summary.input);
  append_lengths(out, "output", summary.output);
  out.push_back({"correlation", summary.correlation});
  out.push_back({"sessions", summary.sessions});
  out.push_back({"hash_block_tokens", std::int64_t{summary.hash_block_tokens}});
  out.push_back({"blocks", summary.blocks});
  out.push_back({"unique_blocks", summary.unique_blocks});
  out.push_back({"prefix_hit_ratio", summary.prefix_hit_ratio});
  return out;
}

std::string as_table(const std::vector<TraceFigure>& all) {
  study::TextTable table{.header = {{"figure", "value"}}, .rows = {}, .left = 1};
  for (const TraceFigure& figure : all) {
    const auto* const number = std::get_if<double>(&figure.value);
    const std::string text = number != nullptr ? study::reader_number(*number) : study::plain_text(figure.value);
    table.rows.push_back({figure.name, text.empty() ? "-" : text});
  }
  return study::text_table(table);
}

void print_figures(const std::vector<TraceFigure>& all, Format format, Console& console) {
  std::vector<std::string> names;
  std::vector<Cell> cells;
  for (const TraceFigure& figure : all) {
    names.push_back(figure.name);
    cells.push_back(figure.value);
  }
  switch (format) {
    case Format::table: console.print(as_table(all)); return;
    case Format::csv: console.print(study::csv_header(names) + study::csv_line(cells)); return;
    case Format::json: console.print('{' + study::json_members(names, cells) + "}\n"); return;
  }
}

void print_problem(const traces::TraceProblem& problem) {
  std::fprintf(stderr, "%s\n", traces::to_string(problem).c_str());
}

}  // namespace

int run_trace(const Arguments& arguments, Console& console) {
  const auto parsed = parse_arguments(trace_usage(), arguments, console);
  if (!parsed) return kDone;
  traces::ReadOptions options;
  if (parsed->values.count("as") > 0) options.format = parsed->values["as"].as<std::string>();
  if (parsed->values.count("block-tokens") > 0) options.hash_block_tokens = parsed->values["block-tokens"].as<int>();
  if (options.hash_block_tokens < 0) throw InputError("--block-tokens: expected a number above 0");
  try {
    const traces::ReadResult result = traces::read_trace(parsed->operand, options);
    for (const traces::TraceProblem& warning : result.warnings) print_problem(warning);
    print_figures(figures(traces::summarise(result), result.warnings.size()), parsed->common.format, console);
  } catch (const traces::TraceError& error) {  // here a bad file is a result, printed in this verb's form
    print_problem(error.problem());
    return kBadInput;
  }
  return kDone;
}

}  // namespace plimsoll::cli
