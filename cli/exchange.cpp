// SPDX-License-Identifier: Apache-2.0
// plimsoll import FILE and plimsoll export FILE: read results of other tools, and write ours in their formats.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "cli/commands.h"
#include "cli/options.h"
#include "study/exchange/import_results.h"
#include "study/output/table_view.h"
#include "study/output/write_file.h"

namespace plimsoll::cli {
namespace {

using study::ImportedPoint;

Usage import_usage() {
  Usage usage{
      .verb = "import",
      .positional = "FILE...",
      .summary =
          "Reads results of other load generators (vLLM's bench serve, AIPerf, GenAI-Perf, guidellm, InferenceX) or\n"
          "any CSV with one row per point. The format is detected. Prints them in the columns of points.csv, times in\n"
          "seconds; --out writes a points.csv for `validate` and the window.",
      .example =
          "  plimsoll import docs/samples/vllm-*.json --hardware \"h100-sxm x 1\" --dtype bf16 --out imported\n"
          "  plimsoll validate imported/points.csv\n"
          "  plimsoll import docs/samples/my-runs.csv --map ttft=first_token_ms --map concurrency=threads\n",
      .positional_required = true,
      .options = po::options_description("What the file does not state"),
      .without = {"set", "jobs", "seed", "stepwise"},
      .many = true};
  auto add = usage.options.add_options();
  add("map", po::value<std::vector<std::string>>()->value_name("FIGURE=COLUMN[:UNIT]"),
      "the CSV column of a figure, if the column's name does not identify it: ttft=first_token_ms, latency=took:s");
  add("model", po::value<std::string>()->value_name("NAME"), "model, as studies name it");
  add("hardware", po::value<std::string>()->value_name("NAME"), "instance, or \"ACCELERATOR x COUNT\"");
  add("engine", po::value<std::string>()->value_name("NAME"), "engine profile");
  add("dtype", po::value<std::string>()->value_name("NAME"), "number format of the weights");
  add("policy", po::value<std::string>()->value_name("NAME"), "batching policy");
  add("tp", po::value<std::string>()->value_name("N"), "tensor-parallel degree");
  add("replicas", po::value<std::string>()->value_name("N"), "replicas");
  return usage;
}

Usage export_usage() {
  Usage usage{.verb = "export",
              .positional = "POINTS.csv",
              .summary = "Writes the points of a points.csv in the format of another tool, one JSON object per line.",
              .example =
                  "  plimsoll simulate configs/studies/jumpstart-7b-p4d.yaml --out run\n  plimsoll export "
                  "run/points.csv --as vllm > run.jsonl\n",
              .positional_required = true,
              .options = po::options_description("Format"),
              .without = {"set", "out", "format", "jobs", "seed", "stepwise"}};
  usage.options.add_options()("as", po::value<std::string>()->value_name("FORMAT")->default_value("vllm"),
                              fmt::format("{}", fmt::join(study::export_formats(), " or ")).c_str());
  return usage;
}

std::optional<std::int32_t> degree_option(const Parsed& parsed, const char* name) {
  constexpr std::int64_t kMaxCount = 65536;
  if (parsed.values.count(name) == 0) return {};
  return static_cast<std::int32_t>(whole_option(parsed, name, {1, kMaxCount}, 1));
}

std::string shown(const ImportedPoint& point, std::string_view column, double scale) {
  const study::Cell* cell = point.find(column);
  if (cell == nullptr) return "-";
  if (const auto* number = std::get_if<double>(cell)) return fmt::format("{:.4g}", *number * scale);
  return study::plain_text(*cell);
}

std::string table_of(const study::ImportedResults& results) {
  constexpr double kMilliseconds = 1e3;
  study::TextTable table;
  table.header = {{"model", "hardware", "tp", "load", "", "input", "output", "tokens/s", "TTFT", "TPOT", "latency"},
                  {"", "", "", "", "", "tokens", "tokens", "out", "mean ms", "mean ms", "mean s"}};
  table.left = 2;
  for (const ImportedPoint& p : results.points) {
    table.rows.push_back({shown(p, "model", 1), shown(p, "hardware", 1), shown(p, "tp", 1), shown(p, "load_kind", 1),
                          shown(p, "load_value", 1), shown(p, "input_tokens_mean", 1),
                          shown(p, "output_tokens_mean", 1), shown(p, "output_tokens_per_s", 1),
                          shown(p, "ttft_mean_s", kMilliseconds), shown(p, "tpot_mean_s", kMilliseconds),
                          shown(p, "latency_mean_s", 1)});
  }
  return fmt::format("{} point{} ({})\n\n{}", results.points.size(), results.points.size() == 1 ? "" : "s",
                     results.format, study::text_table(table));
}

// Expands patterns that the shell has not expanded; matching files are ordered by name.
std::vector<std::string> files_of(const std::vector<std::string>& operands) {
  std::vector<std::string> files;
  for (const std::string& operand : operands) {
    std::error_code error;
    if (operand.find_first_of("*?[") == std::string::npos || std::filesystem::exists(operand, error)) {
      files.push_back(operand);
      continue;
    }
    glob_t found{};
    const int result = ::glob(operand.c_str(), 0, nullptr, &found);
    for (std::size_t i = 0; i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
    ::globfree(&found);
    if (result != 0) throw InputError(fmt::format("{}: no file matches", operand));
  }
  return files;
}

study::ImportedResults import_files(const std::vector<std::string>& files, const study::ImportLabels& labels,
                                    const Parsed& parsed, Console& console) {
  const std::vector<std::string> maps =
      parsed.values.count("map") > 0 ? parsed.values["map"].as<std::vector<std::string>>() : std::vector<std::string>();
  study::ImportedResults all;
  for (const std::string& file : files) {
    study::ImportedResults results = study::import_results(file, labels, maps);
    for (const std::string& note : results.notes) console.note(fmt::format("{}: {}", file, note));
    if (all.format.find(results.format) == std::string::npos)
      all.format += (all.format.empty() ? "" : ", ") + results.format;
    std::move(results.points.begin(), results.points.end(), std::back_inserter(all.points));
  }
  return all;
}

}  // namespace

int run_import(const Arguments& arguments, Console& console) {
  const auto parsed = parse_arguments(import_usage(), arguments, console);
  if (!parsed) return kDone;
  study::ImportLabels labels{.model = text_option(*parsed, "model"),
                             .hardware = text_option(*parsed, "hardware"),
                             .engine = text_option(*parsed, "engine"),
                             .dtype = text_option(*parsed, "dtype"),
                             .policy = text_option(*parsed, "policy"),
                             .tp = degree_option(*parsed, "tp"),
                             .replicas = degree_option(*parsed, "replicas")};
  const study::ImportedResults results = import_files(files_of(parsed->operands), labels, *parsed, console);
  switch (parsed->common.format) {
    case Format::table: console.print(table_of(results)); break;
    case Format::csv: console.print(study::imported_csv(results.points)); break;
    case Format::json: console.print(study::imported_json(results.points)); break;
  }
  if (!parsed->common.out.empty()) {
    study::make_folder(parsed->common.out);
    study::write_file(parsed->common.out + "/points.csv", study::imported_csv(results.points));
    console.note("written to " + parsed->common.out + ": points.csv");
  }
  return kDone;
}

int run_export(const Arguments& arguments, Console& console) {
  const auto parsed = parse_arguments(export_usage(), arguments, console);
  if (!parsed) return kDone;
  const std::string format = text_option(*parsed, "as");
  const auto formats = study::export_formats();
  if (std::find(formats.begin(), formats.end(), format) == formats.end())
    throw InputError(fmt::format("--as: found '{}', expected {}", format.substr(0, 40), fmt::join(formats, " or ")));
  std::vector<ImportedPoint> points = study::read_points_csv(parsed->operand);
  const std::size_t all = points.size();
  std::erase_if(points, [](const ImportedPoint& point) { return !study::holds_a_figure(point); });
  if (points.empty()) throw InputError(Where{parsed->operand, 0, 0}, "no point has a throughput or a mean latency");
  if (points.size() < all)
    console.note(
        fmt::format("{} of {} points have no throughput and no mean latency: left out", all - points.size(), all));
  const std::string text = study::exported_text(format, points);
  if (parsed->common.out.empty()) {
    console.print(text);
  } else {
    study::make_folder(parsed->common.out);
    study::write_file(fmt::format("{}/points.{}.jsonl", parsed->common.out, format), text);
  }
  return kDone;
}

}  // namespace plimsoll::cli
