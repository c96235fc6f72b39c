// SPDX-License-Identifier: Apache-2.0
// plimsoll memory STUDY: shows what fits on a GPU.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/stated_study.h"
#include "study/output/memory_table.h"
#include "study/output/write_file.h"
#include "study/run/point_result.h"

namespace plimsoll::cli {
namespace {

Usage memory_usage() {
  return {.verb = "memory",
          .positional = "STUDY",
          .summary =
              "Memory of a GPU: weights, activations, overhead and the KV pool; also the JumpStart post's\n"
              "formulas for the largest KV batch and the critical batch size.",
          .example =
              "  plimsoll memory --model llama-3.1-70b --hardware h100 --tp 2,4,8 --dtype bf16\n"
              "  plimsoll memory configs/studies/jumpstart-7b-p4d.yaml --format csv\n",
          .positional_required = false,
          .options = {},
          .without = {"jobs", "seed", "stepwise"},
          .study_options = StudyOptions::memory,
          .pools = true};
}

// Returns one row per point in every format, so that scripts and people read the same figures.
std::string text_of(const study::Study& study, const study::MemoryTable& table, Format format) {
  if (format == Format::table) return study::memory_text(study.title(), table);
  const std::vector<std::string> columns = study::memory_columns(table);
  std::string text = format == Format::csv ? study::csv_header(columns) : "[";
  for (const study::MemoryRow& row : table.rows) {
    if (format == Format::csv) {
      text += study::csv_line(study::memory_cells(row));
    } else {
      text += (text.size() > 1 ? ",\n " : "\n ") + ('{' + study::json_members(columns, study::memory_cells(row)) + '}');
    }
  }
  return format == Format::csv ? text : text + "\n]\n";
}

}  // namespace

int run_memory(const Arguments& arguments, Console& console) {
  const auto parsed = parse_arguments(memory_usage(), arguments, console);
  if (!parsed) return kDone;
  const study::Study study = load_study(*parsed, console);
  const study::MemoryTable table = study::memory_table(study);
  console.print(text_of(study, table, parsed->common.format));
  if (const std::string& folder = parsed->common.out; !folder.empty()) {
    study::make_folder(folder);
    study::write_file(folder + "/memory.csv", text_of(study, table, Format::csv));
    study::write_file(folder + "/report.html", study::memory_html(study.title(), table));
    console.note("written to " + folder + ": report.html (open it in a browser), memory.csv");
  }
  // The table shows impossible rows with their reasons. The exit code reports a failure only if no row is possible.
  const bool some_fit =
      std::any_of(table.rows.begin(), table.rows.end(), [](const auto& row) { return !row.impossible; });
  const study::Impossible* only = some_fit || table.rows.size() > 1 ? nullptr : &*table.rows.front().impossible;
  if (only != nullptr) throw InputError(only->where, only->reason);
  for (const study::MemoryRow& row : table.rows)
    if (row.impossible && parsed->common.format != Format::table) console.warn("impossible: " + row.impossible->reason);
  if (!some_fit)
    throw InputError(table.rows.front().impossible->where,
                     fmt::format("none of the {} points is possible", table.rows.size()));
  return kDone;
}

}  // namespace plimsoll::cli
