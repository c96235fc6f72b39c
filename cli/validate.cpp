// SPDX-License-Identifier: Apache-2.0
// plimsoll validate [jumpstart | FILE]: predicted beside measured.
#include <fmt/format.h>

#include <cmath>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run_commands.h"
#include "validation/compare.h"
#include "validation/report.h"

namespace plimsoll::cli {
namespace {

Usage validate_usage() {
  Usage usage{.verb = "validate",
              .positional = "jumpstart | FILE.csv",
              .summary = "Simulates every filled cell of the published JumpStart tables, or of a CSV of measured points\n"
                         "(docs/metrics.md), and prints predicted beside measured with the errors.",
              .example = "  plimsoll validate jumpstart\n  plimsoll validate my-measurements.csv --max-error 15\n",
              .positional_required = false,
              .options = po::options_description("Verdict")};
  usage.options.add_options()("max-error", po::value<double>(), "exit 4 when the mean absolute error of a figure exceeds this many per cent");
  return usage;
}

bool exceeds(const std::vector<validation::Comparison>& comparisons, double limit) {
  std::vector<std::string> metrics;
  for (const validation::Comparison& c : comparisons)
    if (std::find(metrics.begin(), metrics.end(), c.metric) == metrics.end()) metrics.push_back(c.metric);
  for (const std::string& metric : metrics) {
    std::vector<const validation::Comparison*> group;
    for (const validation::Comparison& c : comparisons)
      if (c.metric == metric) group.push_back(&c);
    const validation::ErrorSummary summary = validation::summarise(group);
    if (summary.count == 0 || 100 * summary.mean > limit) return true;
  }
  return false;
}

}  // namespace

int run_validate(const Arguments& arguments, Console& console) {
  const auto parsed = parse_arguments(validate_usage(), arguments);
  if (!parsed) return kDone;
  double max_error = -1;
  if (parsed->values.count("max-error") > 0) {
    max_error = parsed->values["max-error"].as<double>();
    if (!(max_error >= 0) || !std::isfinite(max_error)) throw InputError("--max-error: expected a percentage of 0 or more");
  }
  const bool jumpstart = parsed->operand.empty() || parsed->operand == "jumpstart";
  const std::vector<validation::MeasuredTable> tables =
      jumpstart ? validation::jumpstart_tables() : std::vector{validation::read_measured(parsed->operand)};

  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  const auto catalogue = std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
  const std::vector<validation::Comparison> comparisons =
      validation::compare(tables, catalogue, {.jobs = parsed->common.jobs, .control = &control, .set = parsed->common.set});
  switch (parsed->common.format) {
    case Format::table: console.print(validation::comparison_text(comparisons)); break;
    case Format::csv: console.print(validation::comparison_csv(comparisons)); break;
    case Format::json: console.print(validation::comparison_json(comparisons)); break;
  }
  if (control.cancelled()) return kInterrupted;
  return max_error >= 0 && exceeds(comparisons, max_error) ? kAnswerIsNo : kDone;
}

}  // namespace plimsoll::cli
