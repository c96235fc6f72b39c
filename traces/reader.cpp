// SPDX-License-Identifier: Apache-2.0
// Reads a Trace from a path: determines the kind of file and its format, and which of two faults to report.
#include "traces/reader.h"

#include <cctype>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "traces/byte_source.h"
#include "traces/csv_reader.h"
#include "traces/formats.h"
#include "traces/jsonl_reader.h"
#include "traces/line_reader.h"
#include "traces/text.h"
#include "traces/trace_builder.h"

namespace plimsoll::traces {
namespace {

constexpr std::size_t kPeek = 16384;  // reaches into the first Mooncake row, whose keys precede the ids

bool starts_with_ignoring_case(std::string_view text, std::string_view lower) {
  if (text.size() < lower.size()) return false;
  for (std::size_t i = 0; i < lower.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(text[i])) != lower[i]) return false;
  }
  return true;
}

// Returns the size that a Git LFS pointer states ("size 142376815"), with its unit; "data" if it states none.
std::string lfs_size(std::string_view text) {
  const std::size_t at = text.find("\nsize ");
  if (at == std::string_view::npos) return "data";
  const std::string_view digits = text.substr(at + 6, text.find_first_not_of("0123456789", at + 6) - at - 6);
  return fmt::format("{} bytes", digits.substr(0, 20));
}

// Refuses files that are not a trace of any format.
void refuse_other_kinds(const std::string& file, std::string_view start) {
  const auto refuse = [&](std::size_t column, std::string_view code, std::string text) {
    reject({file, 1, column, "", std::move(text), std::string(code)});
  };
  if (start.empty()) refuse(0, "empty-file", "file is empty");
  const bool little = start.starts_with("\xFF\xFE"), big = start.starts_with("\xFE\xFF");
  const bool unmarked =
      start.size() >= 4 && (start[0] == '\0') != (start[1] == '\0') && (start[0] == start[2] || start[1] == start[3]);
  if (little || big) refuse(1, "utf16", fmt::format("UTF-16 text ({}); save it as UTF-8", little ? "FF FE" : "FE FF"));
  if (unmarked && start[2] != start[3] && (start[2] == '\0' || start[3] == '\0'))
    refuse(1, "utf16", "UTF-16 text; save it as UTF-8");
  if (start.starts_with("version https://git-lfs")) {
    refuse(1, "lfs-pointer",
           fmt::format("Git LFS pointer, not data ({} elsewhere): run 'git lfs pull'", lfs_size(start)));
  }
  const std::string_view text = start.substr(std::min(start.find_first_not_of(" \t\r\n"), start.size()));
  for (const std::string_view sign : {"<!doctype", "<html", "<?xml", "<head", "<body"}) {
    if (starts_with_ignoring_case(text, sign)) refuse(1, "not-this-format", "looks like an HTML page, not a trace");
  }
}

// The content determines the format. But a file whose name contradicts it was renamed or is the wrong download.
void refuse_csv_named_jsonl(const std::string& file, std::string_view start) {
  if (!file.ends_with(".jsonl") && !file.ends_with(".jsonl.gz")) return;
  const TraceFormat* found = recognise(start);
  if (found == nullptr || found->syntax == Syntax::jsonl) return;
  reject({file, 1, 1, "", "looks like CSV, expected JSON lines", "not-this-format"});
}

const TraceFormat& choose_format(const std::string& file, const std::string& wanted, std::string_view start) {
  if (!wanted.empty()) return *find_format(wanted);
  refuse_csv_named_jsonl(file, start);
  if (const TraceFormat* found = recognise(start)) return *found;
  const std::string_view text = start.substr(std::min(start.find_first_not_of(" \t\r\n"), start.size()));
  const auto refuse = [&](std::string_view code, std::string what) {
    reject({file, 1, code == "no-rows" ? 0U : 1U, "", std::move(what), std::string(code)});
  };
  const std::string names = fmt::format("{}", fmt::join(trace_formats(), ", "));
  if (text.empty()) refuse("no-rows", "nothing but blank lines");
  if (const BadByte bad = find_bad_byte(text.substr(0, text.find('\n'))); bad.code == "nul-byte")
    refuse("nul-byte", "NUL byte: binary data, not a trace");
  if (text[0] == '[') refuse("json-array", "file is one JSON array, expected one object per line");
  if (text.find_first_of("0123456789") == 0)
    refuse("missing-header", "first line is data, not a header; formats: " + names);
  if (text[0] == '{') refuse("unknown-format", "JSON keys of no known format; formats: " + names);
  refuse("unknown-format",
         "header of no known format; name the columns of your own table arrival_s,input_tokens,output_tokens "
         "(seconds); "
         "formats: " +
             names);
  return all_formats()[0];
}

ReadResult read_lines(const std::string& file, LineReader& lines, const ReadOptions& options) {
  refuse_other_kinds(file, lines.peek(kPeek));
  if (lines.peek(3).starts_with("\xEF\xBB\xBF")) lines.skip(3);
  const TraceFormat& format = choose_format(file, options.format, lines.peek(kPeek));
  const std::int32_t block = options.hash_block_tokens > 0 ? options.hash_block_tokens : format.hash_block_tokens;
  TraceBuilder builder(file, std::string(format.name), block);
  std::size_t header_line = 0;
  if (format.syntax == Syntax::csv) {
    header_line = CsvReader(format, lines, file, builder).read_all();
  } else {
    JsonlReader(format, lines, file, builder).read_all();
    header_line = 1;
  }
  return builder.finish(header_line);
}

}  // namespace

ReadResult read_trace(const std::string& file, const ReadOptions& options) {
  if (!options.format.empty() && find_format(options.format) == nullptr) {
    throw InputError(
        fmt::format("unknown trace format {}; allowed: {}", quoted(options.format), fmt::join(trace_formats(), ", ")));
  }
  if (options.hash_block_tokens < 0) throw InputError("hash_block_tokens must be > 0");
  ByteSource source(file);
  LineReader lines(source, file);
  try {
    return read_lines(file, lines, options);
  } catch (const TraceError&) {
    // If the archive is damaged, that is the cause of the invalid text, so report it instead.
    if (source.is_gzip()) source.drain();
    throw;
  }
}

}  // namespace plimsoll::traces
