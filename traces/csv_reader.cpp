// SPDX-License-Identifier: Apache-2.0
#include "traces/csv_reader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "traces/text.h"

namespace plimsoll::traces {
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

std::string_view unquoted(std::string_view text) {
  text = trimmed(text);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

// Column names contain no commas, so a header is split without regard to quotes.
std::vector<std::string> header_names(std::string_view line, char delimiter) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(delimiter, begin), line.size());
    names.emplace_back(unquoted(line.substr(begin, end - begin)));
    begin = end + 1;
  }
  return names;
}

// Returns the position of the quote that closes the field opened at `open`, or npos.
std::size_t closing_quote(std::string_view line, std::size_t open) {
  for (std::size_t at = open + 1; at < line.size(); ++at) {
    if (line[at] != '"') continue;
    if (at + 1 == line.size() || line[at + 1] != '"') return at;
    ++at;
  }
  return std::string_view::npos;
}

}  // namespace

CsvReader::CsvReader(const TraceFormat& format, LineReader& lines, std::string file, TraceBuilder& builder)
    : format_(format), lines_(lines), file_(std::move(file)), builder_(builder), unit_(nanos_per(format.time)) {}

void CsvReader::fail(std::string_view column, std::size_t byte_column, std::string_view code, std::string text) const {
  reject({file_, lines_.number(), byte_column, std::string(column), std::move(text), std::string(code)});
}

std::size_t CsvReader::read_all() {
  read_header();
  std::string_view line;
  while (lines_.next(line)) {
    if (!is_blank(line)) read_row(line);
  }
  return header_line_;
}

void CsvReader::read_header() {
  std::string_view line;
  while (lines_.next(line) && is_blank(line)) {}
  if (is_blank(line)) reject({file_, 1, 0, "", "nothing but blank lines", "no-rows"});
  header_line_ = lines_.number();
  if (line.find('\r') != std::string_view::npos) {
    fail("", line.find('\r') + 1, "bare-cr", "lines end in CR alone (old Mac text); convert them to LF");
  }
  if (const BadByte bad = find_bad_byte(line); bad.offset != std::string_view::npos)
    fail("", bad.offset + 1, bad.code, bad.text);
  header_ = line;
  names_ = header_names(line, ',');
  check_header(line);
  choose_columns();
}

// If no column is known, the file is something else. The message states the likely cause instead of a missing column.
void CsvReader::check_header(std::string_view line) const {
  if (trimmed(line).starts_with('{')) fail("", 1, "not-this-format", "looks like JSON lines, expected CSV");
  const auto known = [&](const std::string& name) {
    return std::any_of(format_.columns.begin(), format_.columns.end(), [&](const Column& c) { return c.name == name; });
  };
  if (std::any_of(names_.begin(), names_.end(), known)) return;
  // A spreadsheet may have saved the file with another separator: name the separator if it yields a known column.
  for (const char delimiter : {';', '\t', '|'}) {
    const std::vector<std::string> names = header_names(line, delimiter);
    if (names.size() < 2 || !std::any_of(names.begin(), names.end(), known)) continue;
    fail("", 1, "wrong-delimiter",
         fmt::format("header has {} field; looks {}-separated, expected ','", names_.size(),
                     quoted(std::string_view(&delimiter, 1))));
  }
  // A first field that is a number is not a column name.
  const char first = names_[0].empty() ? '\0' : names_[0][0];
  if ((first >= '0' && first <= '9') || first == '-' || first == '.') {
    fail("", 1, "missing-header", "first line is data, not a header; expected columns " + column_list(format_));
  }
}

void CsvReader::choose_columns() {
  for (const Column& column : format_.columns) {
    const auto count = std::count(names_.begin(), names_.end(), column.name);
    if (count > 1)
      fail(column.name, 0, "duplicate-column", fmt::format("column '{}' appears {} times", column.name, count));
  }
  for (const Column& column : format_.columns) {
    const auto it = std::find(names_.begin(), names_.end(), column.name);
    if (it == names_.end() && column.need == Need::required) {
      std::string found = fmt::format("{}", fmt::join(names_, ", "));
      fail(column.name, 0, "missing-column",
           fmt::format("required column '{}' not in header; found: {}", column.name, quoted(found)));
    }
    if (it == names_.end() || column.role == Role::other) continue;
    used_.push_back({static_cast<std::size_t>(it - names_.begin()), column.role});
    if (column.role == Role::total) total_index_ = used_.back().index;
  }
  // Parse fields from left to right, so that the first fault in a line is the one that is reported.
  std::sort(used_.begin(), used_.end(), [](const Used& a, const Used& b) { return a.index < b.index; });
}

FieldPlace CsvReader::place_of(std::size_t index) const { return {lines_.number(), starts_[index] + 1, names_[index]}; }

// Splits the line into fields_ and starts_.
void CsvReader::split(std::string_view line) {
  fields_.clear();
  starts_.clear();
  for (std::size_t begin = 0;;) {
    starts_.push_back(begin);
    std::size_t end = 0;
    if (begin < line.size() && line[begin] == '"') {
      const std::size_t close = closing_quote(line, begin);
      const std::string_view name = fields_.size() < names_.size() ? std::string_view(names_[fields_.size()]) : "";
      if (close == std::string_view::npos)
        fail(name, begin + 1, "unterminated-quote", "quote opened here is not closed on this line");
      end = close + 1;
      if (end < line.size() && line[end] != ',') fail(name, begin + 1, "bad-quote", "text follows the closing quote");
      fields_.push_back(line.substr(begin + 1, close - begin - 1));
    } else {
      end = begin;
      while (end < line.size() && line[end] != ',') ++end;
      fields_.push_back(line.substr(begin, end - begin));
    }
    if (end == line.size()) return;
    begin = end + 1;
  }
}

// Most lines are plain ASCII, which is checked many bytes at a time; only the others are checked byte by byte.
void CsvReader::check_bytes(std::string_view line) const {
  if (is_plain_ascii(line)) return;
  const BadByte bad = find_bad_byte(line);
  if (bad.offset == std::string_view::npos) return;
  // The line is not split yet, so the commas before the bad byte give the column; quoted commas may shift it.
  const auto commas =
      static_cast<std::size_t>(std::count(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(bad.offset), ','));
  fail(commas < names_.size() ? names_[commas] : "", bad.offset + 1, bad.code, bad.text);
}

void CsvReader::check_count(std::string_view line) {
  if (fields_.size() == names_.size()) return;
  std::string text = fmt::format("expected {} fields, got {}", names_.size(), fields_.size());
  if (fields_.size() < names_.size()) {
    if (names_.size() > 1 && fields_.size() == 1 && line.find(';') != std::string_view::npos)
      text += "; looks ';'-separated here";
    if (lines_.unterminated() || lines_.at_end()) text += "; file ends mid-record (truncated download?)";
  }
  fail("", 0, "field-count", std::move(text));
}

void CsvReader::read_row(std::string_view line) {
  check_bytes(line);
  if (line == header_)
    fail(names_[0], 1, "repeated-header", "header line repeated inside the data (two files concatenated?)");
  split(line);
  check_count(line);
  total_ = -1;
  row_ = {};
  for (const Used& used : used_) {
    if (Fault fault = parse_field(used, trimmed(fields_[used.index]))) {
      fail(names_[used.index], starts_[used.index] + 1, fault.code, std::move(fault.text));
    }
  }
  if (total_ >= 0) compare_total();
  builder_.add(row_);
}

Fault CsvReader::parse_field(const Used& used, std::string_view text) {
  switch (used.role) {
    case Role::arrival: row_.arrival_place = place_of(used.index); return parse_arrival(text);
    case Role::input: row_.input_place = place_of(used.index); return parse_tokens(text, row_.record.input_tokens);
    case Role::output: row_.output_place = place_of(used.index); return parse_tokens(text, row_.record.output_tokens);
    case Role::total: return parse_tokens(text, total_);
    case Role::session: return parse_session(text);
    case Role::prefix: row_.hashes_place = place_of(used.index); return parse_prefix(text);
    case Role::priority: return text.empty() ? Fault{} : parse_priority(text, row_.priority);
    case Role::gap: return text.empty() ? Fault{} : parse_time(text, unit_, row_.gap);
    case Role::parent:
    case Role::turns:
    case Role::other: return {};
  }
  return {};
}

Fault CsvReader::parse_arrival(std::string_view text) {
  if (format_.time != TimeUnit::date) return parse_time(text, unit_, row_.record.arrival);
  DateTime date;
  if (Fault fault = parse_date_time(text, date)) return fault;
  if (!zoned_.has_value()) zoned_ = date.has_zone;
  // Without offsets, the times are in an unknown zone, and mixing the two would shift some rows by hours.
  if (*zoned_ != date.has_zone) {
    return {"bad-timestamp", date.has_zone ? "a UTC offset here, but none in the first row"
                                           : "no UTC offset here, but one in the first row"};
  }
  row_.record.arrival = date.nanos;
  return {};
}

// An empty field means a request without a session, which is stored as 0. Session ids are therefore stored plus one.
Fault CsvReader::parse_session(std::string_view text) {
  std::uint64_t id = 0;
  if (text.empty()) return {};
  if (Fault fault = parse_id(text, id)) return fault;
  row_.record.session = id + 1;
  return {};
}

Fault CsvReader::parse_prefix(std::string_view text) {
  hashes_.clear();
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::uint64_t id = 0;
    if (Fault fault = parse_id(text.substr(0, end), id)) return fault;
    hashes_.push_back(id);
    text = trimmed(text.substr(end));
  }
  row_.hashes = hashes_;
  return {};
}

void CsvReader::compare_total() {
  const std::int64_t sum = std::int64_t{row_.record.input_tokens} + row_.record.output_tokens;
  if (sum == total_) return;
  builder_.warn(place_of(total_index_), "inconsistent",
                fmt::format("{} {} is not input + output = {}", names_[total_index_], total_, sum));
}

}  // namespace plimsoll::traces
