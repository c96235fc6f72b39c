// SPDX-License-Identifier: Apache-2.0
#include "study/exchange/csv_results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "configs/quantity.h"
#include "study/exchange/csv_file.h"
#include "study/exchange/import_results.h"
#include "study/run/point_result.h"

namespace plimsoll::study {
namespace {

struct Alias {
  std::string_view name, column;  // for times: the column without statistic and unit
};

constexpr auto kCsvTimes = std::to_array<Alias>({{"ttft", "ttft"},
                                                 {"time_to_first_token", "ttft"},
                                                 {"first_token", "ttft"},
                                                 {"first_token_time", "ttft"},
                                                 {"first_token_latency", "ttft"},
                                                 {"tpot", "tpot"},
                                                 {"time_per_output_token", "tpot"},
                                                 {"itl", "itl"},
                                                 {"inter_token_latency", "itl"},
                                                 {"latency", "latency"},
                                                 {"e2el", "latency"},
                                                 {"e2e", "latency"},
                                                 {"e2e_latency", "latency"},
                                                 {"end_to_end_latency", "latency"},
                                                 {"request_latency", "latency"},
                                                 {"total_latency", "latency"},
                                                 {"latency_per_token", "latency_per_token"},
                                                 {"normalized_latency", "latency_per_token"},
                                                 {"duration", "duration"}});

constexpr auto kOthers = std::to_array<Alias>({{"output_tokens_per_s", "output_tokens_per_s"},
                                               {"output_tokens_per_second", "output_tokens_per_s"},
                                               {"output_throughput", "output_tokens_per_s"},
                                               {"output_token_throughput", "output_tokens_per_s"},
                                               {"requests_per_s", "requests_per_s"},
                                               {"requests_per_second", "requests_per_s"},
                                               {"request_throughput", "requests_per_s"},
                                               {"total_tokens_per_s", "total_tokens_per_s"},
                                               {"total_token_throughput", "total_tokens_per_s"},
                                               {"input_tokens", "input_tokens_mean"},
                                               {"input_length", "input_tokens_mean"},
                                               {"prompt_tokens", "input_tokens_mean"},
                                               {"prompt_length", "input_tokens_mean"},
                                               {"isl", "input_tokens_mean"},
                                               {"output_tokens", "output_tokens_mean"},
                                               {"output_length", "output_tokens_mean"},
                                               {"completion_tokens", "output_tokens_mean"},
                                               {"generated_tokens", "output_tokens_mean"},
                                               {"osl", "output_tokens_mean"},
                                               {"requests", "requests_completed"},
                                               {"num_requests", "requests_completed"},
                                               {"completed", "requests_completed"},
                                               {"requests_completed", "requests_completed"},
                                               {"concurrency", kConcurrency},
                                               {"max_concurrency", kConcurrency},
                                               {"clients", kConcurrency},
                                               {"users", kConcurrency},
                                               {"rate", kRate},
                                               {"request_rate", kRate},
                                               {"qps", kRate},
                                               {"rps", kRate},
                                               {"model", "model"},
                                               {"model_id", "model"},
                                               {"model_name", "model"},
                                               {"hardware", "hardware"},
                                               {"instance", "hardware"},
                                               {"engine", "engine"},
                                               {"backend", "engine"},
                                               {"dtype", "dtype"},
                                               {"precision", "dtype"},
                                               {"policy", "policy"},
                                               {"tp", "tp"},
                                               {"tensor_parallel", "tp"},
                                               {"tensor_parallel_size", "tp"},
                                               {"replicas", "replicas"},
                                               {"load_kind", "load_kind"},
                                               {"load_value", "load_value"},
                                               {"arrival_cv", kArrivalCv},
                                               {"turnaround_s", "turnaround_s"}});

constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kCsvStatistics = {{{"mean", "mean"},
                                                                                          {"avg", "mean"},
                                                                                          {"average", "mean"},
                                                                                          {"median", "p50"},
                                                                                          {"p50", "p50"},
                                                                                          {"p90", "p90"},
                                                                                          {"p95", "p95"},
                                                                                          {"p99", "p99"}}};

constexpr std::array<std::pair<std::string_view, double>, 11> kCsvUnits = {{{"s", 1},
                                                                            {"sec", 1},
                                                                            {"secs", 1},
                                                                            {"second", 1},
                                                                            {"seconds", 1},
                                                                            {"ms", 1e-3},
                                                                            {"msec", 1e-3},
                                                                            {"milliseconds", 1e-3},
                                                                            {"us", 1e-6},
                                                                            {"microseconds", 1e-6},
                                                                            {"ns", 1e-9}}};

constexpr std::array<std::string_view, 7> kLabels = {"model",  "hardware",  "engine", "dtype",
                                                     "policy", "load_kind", "source"};
constexpr std::array<std::string_view, 3> kCounts = {"tp", "replicas", "requests_completed"};

template <class Table>
auto find_in(const Table& table, std::string_view name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& each) {
    const auto& [key, value] = each;
    return key == name;
  });
}

// Splits a header: "P90 TTFT (ms)" becomes {"p90", "ttft", "ms"}.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const char lower = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    const bool part = (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
    if (part)
      words.back() += lower;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, "_")); }

struct Known {
  std::string column;
  bool is_time = false;
  std::optional<double> scale;  // factor from the unit in the name; 1 if the column has no unit
};

// Returns the column of points.csv to which a header name corresponds.
std::optional<Known> known_column(std::string_view name) {
  std::vector<std::string> words = words_of(name);
  std::string_view statistic = "mean";
  std::erase_if(words, [&](const std::string& word) {
    const auto found = find_in(kCsvStatistics, word);
    if (found == kCsvStatistics.end()) return false;
    statistic = found->second;
    return true;
  });
  if (const auto other = find_in(kOthers, joined(words)); other != kOthers.end() && statistic == "mean")
    return Known{std::string(other->column), false, 1};
  std::optional<double> scale;
  if (const auto unit = words.empty() ? kCsvUnits.end() : find_in(kCsvUnits, words.back()); unit != kCsvUnits.end()) {
    scale = unit->second;
    words.pop_back();
  }
  const auto time = find_in(kCsvTimes, joined(words));
  if (time == kCsvTimes.end()) return {};
  if (time->column == "duration") return Known{"duration_s", true, scale};
  std::string column = fmt::format("{}_{}_s", time->column, statistic);
  static const std::vector<std::string> ours = point_columns({});
  if (std::find(ours.begin(), ours.end(), column) == ours.end()) return {};
  return Known{std::move(column), true, scale};
}

// ---- other separators ---------------------------------------------------------------------------------------------

// Returns the first line that is neither blank nor a comment.
std::string_view header_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos && line.front() != '#') return line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

// Returns the separator of the header: the one that occurs most outside quotes.
char separator_of(std::string_view header) {
  std::array<std::pair<char, std::size_t>, 3> counts = {{{',', 0}, {';', 0}, {'\t', 0}}};
  bool quoted = false;
  for (const char c : header) {
    if (c == '"') quoted = !quoted;
    for (auto& [separator, count] : counts) count += !quoted && c == separator ? 1U : 0U;
  }
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

// Returns a field as a field of a CSV with commas; "12,5" is a number with a decimal comma.
std::string comma_field(std::string field) {
  if (field.find(',') == std::string::npos || field.starts_with('"')) return field;
  std::string number = field;
  number[number.find(',')] = '.';
  if (configs::parse_number(number)) return number;
  return '"' + field + '"';
}

constexpr std::size_t kMaxShown = 20;  // columns in a message
constexpr std::size_t kMaxName = 40;   // characters of each

// ---- reading a table --------------------------------------------------------------------------------------------

struct Column {
  std::string ours;  // column of points.csv; empty: ignored
  double scale = 1;
};

std::optional<double> unit_in(std::string_view name) {
  const std::vector<std::string> words = words_of(name);
  const auto unit = words.empty() ? kCsvUnits.end() : find_in(kCsvUnits, words.back());
  return unit == kCsvUnits.end() ? std::nullopt : std::optional(unit->second);
}

bool is_time(const std::string& column) { return column.ends_with("_s") && !column.ends_with("_per_s"); }

Column mapped(const ColumnMap& map) {
  if (!is_time(map.ours)) return {map.ours, map.scale.value_or(1)};
  const std::optional<double> scale = map.scale ? map.scale : unit_in(map.theirs);
  if (!scale)
    throw InputError(fmt::format("--map: the unit of '{0}' is unknown; write '{0}:ms' or '{0}:s'", map.theirs));
  return {map.ours, *scale};
}

std::vector<Column> read_header(const std::vector<CsvField>& header, const Where& where,
                                const std::vector<ColumnMap>& maps, std::vector<std::string>& notes) {
  std::vector<Column> columns(header.size());
  for (const ColumnMap& map : maps) {
    const auto found =
        std::find_if(header.begin(), header.end(), [&](const CsvField& field) { return field.text == map.theirs; });
    if (found == header.end()) {
      std::vector<std::string> names;
      for (const CsvField& field : header) names.push_back(field.text);
      throw InputError(where, fmt::format("--map: no column '{}', found {}", map.theirs, fmt::join(names, ", ")));
    }
    columns[static_cast<std::size_t>(found - header.begin())] = mapped(map);
  }
  // Mappings of --map come first: a column recognised by its name does not replace them.
  const auto taken = [&](std::string_view ours) {
    return std::any_of(columns.begin(), columns.end(), [&](const Column& c) { return c.ours == ours; });
  };
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (!columns[i].ours.empty()) continue;
    if (header[i].text == kSweptArrivalCv && !taken(kArrivalCv)) {
      columns[i].ours = kArrivalCv;
      continue;
    }
    const std::optional<Known> known = known_column(header[i].text);
    if (!known || taken(known->column)) continue;
    // The unit of a time is never guessed: milliseconds read as seconds would look plausible.
    if (known->scale)
      columns[i] = {known->column, *known->scale};
    else
      notes.push_back(fmt::format("column '{0}' is left out: its unit is unknown; --map {1}={0}:ms states it",
                                  header[i].text, known->column));
  }
  std::vector<std::string> unread;
  for (std::size_t i = 0; i < header.size(); ++i)
    if (columns[i].ours.empty() && !header[i].text.empty() && !known_column(header[i].text) &&
        unread.size() < kMaxShown)
      unread.push_back(header[i].text.substr(0, kMaxName));
  const bool any =
      std::any_of(columns.begin(), columns.end(), [](const Column& column) { return column.ours.ends_with("_s"); });
  if (!any) {
    std::vector<std::string> names;
    for (const CsvField& field : header) names.push_back(field.text.substr(0, kMaxName));
    if (names.size() > kMaxShown) names.resize(kMaxShown);
    throw InputError(where,
                     fmt::format("no column has a known figure; --map FIGURE=COLUMN:UNIT states one, for example "
                                 "--map ttft={}:ms; found {}",
                                 names.front(), fmt::join(names, ", ")));
  }
  if (!unread.empty())
    notes.push_back(
        fmt::format("columns that are not read: {}; --map FIGURE=COLUMN[:UNIT] reads one", fmt::join(unread, ", ")));
  return columns;
}

double number_of(const CsvField& field, const Column& column, const Where& where) {
  const std::optional<double> value = configs::parse_number(field.text);
  if (!value || *value < 0)
    throw InputError(
        Where{where.file, where.line, field.column},
        fmt::format("{}: found '{}', expected a number of 0 or more", column.ours, field.text.substr(0, 40)));
  return *value;
}

void read_cell(const CsvField& field, const Column& column, const Where& where, PointDraft& draft) {
  if (field.text.empty() || column.ours.empty()) return;
  const auto is_in = [&](const auto& list) { return std::find(list.begin(), list.end(), column.ours) != list.end(); };
  if (is_in(kLabels)) return draft.text(column.ours, field.text);
  if (column.ours == kRate && field.text == "inf") return;  // as fast as the concurrency allows
  const double value = number_of(field, column, where);
  if (is_in(kCounts))
    draft.count(column.ours, value);
  else if (column.ours == kRate)
    draft.load("poisson", value * column.scale);
  else if (column.ours == kConcurrency) {
    if (!draft.has("load_kind")) draft.load("closed_loop", value);
  } else
    draft.number(column.ours, value, column.scale);
}

}  // namespace

std::optional<ColumnMeaning> recognised_column(std::string_view name) {
  const std::optional<Known> known = known_column(name);
  if (!known) return {};
  return ColumnMeaning{known->column, !known->scale};
}

std::string comma_separated(std::string text) {
  const char separator = separator_of(header_line(text));
  if (separator == ',') return text;
  std::string out, field;
  bool quoted = false, comment = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool line_begins = i == 0 || text[i - 1] == '\n';
    if (line_begins) comment = c == '#';
    if (c == '"') quoted = !quoted;
    const bool ends = c == '\n' || (c == separator && !quoted && !comment);
    if (!ends) {
      field += c;
      continue;
    }
    const bool carriage = field.ends_with('\r');
    if (carriage) field.pop_back();
    out += comment ? field : comma_field(std::move(field));
    out += c == '\n' ? "\n" : ",";
    field.clear();
    if (c == '\n') quoted = false;
  }
  return out + (comment ? field : comma_field(std::move(field)));
}

ColumnMap read_column_map(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw InputError(fmt::format(
        "--map: found '{}', expected FIGURE=COLUMN or FIGURE=COLUMN:UNIT, for example ttft=first_token_ms", text));
  ColumnMap map{.ours = {}, .theirs = text.substr(equals + 1), .scale = {}};
  const std::string figure = text.substr(0, equals);
  const std::optional<Known> known = known_column(figure);
  if (!known) {
    std::vector<std::string> names = point_columns({});
    for (const Alias& alias : kCsvTimes) names.emplace_back(alias.name);
    for (const Alias& alias : kOthers) names.emplace_back(alias.name);
    const std::string_view near = configs::nearest(figure, names);
    throw InputError(
        fmt::format("--map: unknown figure '{}'{}; allowed: the columns of points.csv, and ttft, tpot, itl, latency "
                    "(with p50_, p90_ …), input_tokens, output_tokens, rate, concurrency",
                    figure, near.empty() ? "" : fmt::format(", did you mean '{}'?", near)));
  }
  map.ours = known->column;
  // The unit follows the last colon, because column names may contain colons.
  const std::size_t colon = map.theirs.rfind(':');
  if (colon == std::string::npos) return map;
  const auto unit = find_in(kCsvUnits, map.theirs.substr(colon + 1));
  if (unit == kCsvUnits.end())
    throw InputError(fmt::format("--map: unknown unit '{}', allowed: s, ms, us, ns", map.theirs.substr(colon + 1)));
  map.scale = unit->second;
  map.theirs.resize(colon);
  return map;
}

std::vector<PointDraft> read_csv_results(const std::string& text, const std::string& file,
                                         const std::vector<ColumnMap>& maps) {
  std::vector<PointDraft> drafts;
  std::vector<Column> columns;
  std::vector<std::string> notes;
  for (CsvLines lines(text, file); lines.next();) {
    const std::vector<CsvField> fields = lines.fields();
    if (columns.empty()) {
      columns = read_header(fields, lines.where(), maps, notes);
      continue;
    }
    if (fields.size() != columns.size())
      throw InputError(lines.where(),
                       fmt::format("found {} fields, expected {} as in the header", fields.size(), columns.size()));
    PointDraft& draft = drafts.emplace_back();
    for (std::size_t i = 0; i < fields.size(); ++i) read_cell(fields[i], columns[i], lines.where(), draft);
    for (const std::string& note : notes) draft.note(note);
  }
  return drafts;
}

}  // namespace plimsoll::study
