// SPDX-License-Identifier: Apache-2.0
#include "study/exchange/import_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "study/exchange/csv_file.h"
#include "study/exchange/csv_results.h"
#include "study/exchange/foreign_formats.h"
#include "study/run/point_result.h"
#include "traces/byte_source.h"

namespace plimsoll::study {
namespace {

using nlohmann::json;

constexpr std::string_view kTable = "csv";
constexpr std::array<std::string_view, 5> kImportFormats = {"vllm", "aiperf", "guidellm", "inferencex", kTable};
constexpr int kDeepest = 64;
constexpr std::size_t kMaxSize = std::size_t{256} << 20U, kPiece = 1U << 16U;  // bytes

// Reads a plain or gzip file. Text contains no NUL bytes, so endless input (/dev/zero) is rejected at once.
std::string read_whole(const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    throw InputError(Where{file, 0, 0}, "is a directory, expected the results of a load generator");
  traces::ByteSource source(file);
  std::string text;
  std::vector<char> piece(kPiece);
  while (const std::size_t got = source.read(piece)) {
    if (std::find(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(got), '\0') !=
        piece.begin() + static_cast<std::ptrdiff_t>(got))
      throw InputError(Where{file, 0, 0}, "holds NUL bytes, expected the JSON or CSV of a load generator");
    text.append(piece.data(), got);
    if (text.size() > kMaxSize)
      throw InputError(Where{file, 0, 0},
                       fmt::format("is larger than {} MiB, expected the results of a run", kMaxSize >> 20U));
  }
  return text;
}

bool is_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == std::string_view::npos || text[first] == '{' || text[first] == '[';
}

std::size_t line_of(std::string_view text, std::size_t byte) {
  return 1 + static_cast<std::size_t>(std::count(
                 text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(byte, text.size())), '\n'));
}

json parse(std::string_view text, const std::string& file, std::size_t first_line) {
  const auto shallow = [&](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) throw InputError(Where{file, 0, 0}, fmt::format("nested deeper than {} levels", kDeepest));
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), shallow);
  } catch (const json::parse_error& error) {
    throw InputError(Where{file, first_line - 1 + line_of(text, error.byte > 0 ? error.byte - 1 : 0), 0},
                     "is not valid JSON here, expected the results of a load generator as JSON");
  } catch (const json::out_of_range&) {
    throw InputError(Where{file, first_line, 0}, "holds a number that is too large");
  }
}

// Python writes Infinity and NaN, which JSON does not have. They become the text "inf" and null, on the same lines.
std::string without_python_numbers(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kWords = {
      {{"-Infinity", "null"}, {"Infinity", "\"inf\""}, {"NaN", "null"}}};
  std::string out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto* const word = quoted ? kWords.end() : std::find_if(kWords.begin(), kWords.end(), [&](const auto& w) {
      return text.compare(i, w.first.size(), w.first) == 0;
    });
    if (word != kWords.end()) {
      out += word->second;
      i += word->first.size() - 1;
      continue;
    }
    if (quoted && text[i] == '\\' && i + 1 < text.size())
      out += text[i++];
    else if (text[i] == '"')
      quoted = !quoted;
    out += text[i];
  }
  return out;
}

// Parses one document; or one per line, if the first line is a document by itself and not the last line.
std::vector<json> documents_in(const std::string& text, const std::string& file) {
  std::vector<json> documents;
  const std::size_t end = text.find('\n');
  const bool more = end != std::string::npos && text.find_first_not_of(" \t\r\n", end) != std::string::npos;
  if (more && json::accept(text.substr(0, end))) {
    std::size_t line = 1;
    for (std::size_t begin = 0; begin < text.size(); ++line) {
      const std::size_t stop = std::min(text.find('\n', begin), text.size());
      const std::string_view one = std::string_view(text).substr(begin, stop - begin);
      if (one.find_first_not_of(" \t\r") != std::string_view::npos) documents.push_back(parse(one, file, line));
      begin = stop + 1;
    }
    return documents;
  }
  documents.push_back(parse(text, file, 1));
  if (!documents.front().is_array()) return documents;
  json list = std::move(documents.front());
  documents.assign(std::make_move_iterator(list.begin()), std::make_move_iterator(list.end()));
  return documents;
}

std::string_view format_of(const ForeignValue& document) {
  if (is_guidellm(document)) return "guidellm";
  if (is_inferencex(document)) return "inferencex";
  if (is_aiperf(document)) return "aiperf";
  if (is_vllm(document)) return "vllm";
  document.fail(fmt::format("holds no results of a known tool; expected those of {}", fmt::join(kImportFormats, ", ")));
}

std::vector<PointDraft> read_document(std::string_view format, const ForeignValue& document) {
  if (format == "guidellm") return read_guidellm(document);
  if (format == "inferencex") return {read_inferencex(document)};
  if (format == "aiperf") return {read_aiperf(document)};
  return {read_vllm(document)};
}

// Reads the object that `export` added.
void read_own(const ForeignValue& document, PointDraft& draft) {
  const auto own = document.find(kOwnObject);
  if (!own || !own->is_object()) return;
  static const std::vector<std::string> kColumns = point_columns({});
  for (const std::string& column : kColumns) {
    const auto value = own->find(column);
    if (!value) continue;
    if (is_text_column(column))
      draft.cell(column, *own->text(column));
    else if (value->raw().is_boolean())
      draft.cell(column, value->raw().get<bool>());
    else if (value->raw().is_number_integer())
      draft.cell(column, value->raw().get<std::int64_t>());
    else if (value->raw().is_number())
      draft.cell(column, value->raw().get<double>());
    else
      value->fail("expected a number");
  }
}

void apply(const ImportLabels& labels, PointDraft& draft) {
  const auto text = [&](std::string_view column, const std::string& value) {
    if (!value.empty()) draft.text(column, value);
  };
  if (!draft.has("source")) draft.text("source", "measured");
  text("model", labels.model);
  text("hardware", labels.hardware);
  text("engine", labels.engine);
  text("dtype", labels.dtype);
  text("policy", labels.policy);
  if (labels.tp) draft.count("tp", *labels.tp);
  if (labels.replicas) draft.count("replicas", *labels.replicas);
}

void add_notes(const PointDraft& draft, std::vector<std::string>& notes) {
  for (const std::string& note : draft.notes())
    if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
}

// Notes missing columns without which a point cannot be simulated for comparison.
void note_missing(ImportedResults& results) {
  for (const char* column : {"model", "hardware", "engine", "load_kind", "input_tokens_mean", "output_tokens_mean"}) {
    const auto lacking =
        static_cast<std::size_t>(std::count_if(results.points.begin(), results.points.end(),
                                               [&](const ImportedPoint& p) { return p.find(column) == nullptr; }));
    if (lacking == 0) continue;
    const bool can_be_stated = std::string_view(column) == "model" || std::string_view(column) == "hardware" ||
                               std::string_view(column) == "engine";
    results.notes.push_back(fmt::format(
        "{} is not stated{}{}", column,
        lacking < results.points.size() ? fmt::format(" by {} of {} points", lacking, results.points.size()) : "",
        can_be_stated ? fmt::format("; --{} states it", column) : ""));
  }
}

void add(PointDraft& draft, const ImportLabels& labels, ImportedResults& results) {
  apply(labels, draft);
  add_notes(draft, results.notes);
  results.points.push_back(std::move(draft.point()));
}

ImportedResults read_json_results(const std::string& text, const std::string& file, const ImportLabels& labels) {
  const std::vector<json> documents = documents_in(without_python_numbers(text), file);
  ImportedResults results;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const ForeignValue document(documents[i], file, documents.size() > 1 ? fmt::format("[{}]", i) : "");
    const std::string_view format = format_of(document);
    if (!results.format.empty() && results.format != format)
      document.fail(
          fmt::format("found results of {} after those of {}, expected one kind per file", format, results.format));
    results.format = format;
    for (PointDraft& draft : read_document(format, document)) {
      read_own(document, draft);
      if (!holds_a_figure(draft.point())) document.fail("holds neither a throughput nor a mean latency, TTFT or TPOT");
      add(draft, labels, results);
    }
  }
  return results;
}

ImportedResults read_table(const std::string& text, const std::string& file, const ImportLabels& labels,
                           const std::vector<ColumnMap>& columns) {
  ImportedResults results;
  results.format = kTable;
  std::size_t blank = 0;
  for (PointDraft& draft : read_csv_results(comma_separated(text), file, columns)) {
    if (holds_a_figure(draft.point()))
      add(draft, labels, results);
    else
      ++blank;
  }
  if (blank > 0)
    results.notes.push_back(fmt::format("{} row{} without a throughput, mean latency, TTFT or TPOT left out", blank,
                                        blank == 1 ? "" : "s"));
  return results;
}

std::vector<Cell> row_of(const ImportedPoint& point, const std::vector<std::string>& columns) {
  std::vector<Cell> row;
  for (const std::string& column : columns) {
    const Cell* cell = point.find(column);
    row.push_back(cell != nullptr ? *cell : Cell());
  }
  return row;
}

}  // namespace

const Cell* ImportedPoint::find(std::string_view column) const {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const auto& cell) { return cell.first == column; });
  return found == cells.end() ? nullptr : &found->second;
}

void PointDraft::text(std::string_view column, const std::optional<std::string>& value) {
  if (!value || value->empty()) return;
  for (auto& [name, cell] : point_.cells)
    if (name == column) {
      cell = *value;
      return;
    }
  point_.cells.emplace_back(column, *value);
}

void PointDraft::number(std::string_view column, std::optional<double> value, double scale) {
  static const std::vector<std::string> known = point_columns({});
  if (!value || std::find(known.begin(), known.end(), column) == known.end()) return;  // itl_p90_s: not in points.csv
  point_.cells.emplace_back(column, *value * scale);
}

void PointDraft::count(std::string_view column, std::optional<double> value) {
  if (!value) return;
  constexpr double kMaxCount = 1e15;
  if (*value != std::floor(*value) || std::abs(*value) > kMaxCount) {
    throw InputError(fmt::format("{}: found {:g}, expected a whole number", column, *value));
  }
  std::erase_if(point_.cells, [&](const auto& cell) { return cell.first == column; });
  point_.cells.emplace_back(column, static_cast<std::int64_t>(*value));
}

void PointDraft::load(std::string_view kind, std::optional<double> value) {
  if (!value && load::load_kind_named(kind).quantity != load::LoadQuantity::none) return;
  text("load_kind", std::string(kind));
  std::erase_if(point_.cells, [](const auto& cell) { return cell.first == "load_value"; });
  number("load_value", value);
}

void PointDraft::cell(std::string_view column, Cell value) {
  std::erase_if(point_.cells, [&](const auto& cell) { return cell.first == column; });
  point_.cells.emplace_back(column, std::move(value));
}

ImportedResults import_results(const std::string& file, const ImportLabels& labels,
                               const std::vector<std::string>& maps) {
  std::vector<ColumnMap> columns;
  for (const std::string& map : maps) columns.push_back(read_column_map(map));
  const std::string text = read_whole(file);
  ImportedResults results =
      is_json(text) ? read_json_results(text, file, labels) : read_table(text, file, labels, columns);
  if (is_json(text) && !maps.empty()) results.notes.emplace_back("--map is for CSV: JSON is recognised by its content");
  if (results.points.empty()) throw InputError(Where{file, 0, 0}, "holds no results");
  note_missing(results);
  return results;
}

TableHead read_table_head(const std::string& file, std::size_t rows) {
  TableHead head;
  std::string text = read_whole(file);
  if (is_json(text)) return head;
  head.is_table = true;
  text = comma_separated(std::move(text));
  for (CsvLines lines(text, file); lines.next();) {
    const bool is_header = head.header.empty();
    if (!is_header && ++head.row_count > rows) continue;
    std::vector<std::string> fields;
    for (const CsvField& field : lines.fields()) fields.push_back(field.text);
    if (!is_header) fields.resize(head.header.size());
    (is_header ? head.header : head.rows.emplace_back()) = std::move(fields);
  }
  return head;
}

bool holds_a_figure(const ImportedPoint& point) {
  constexpr std::array<std::string_view, 5> kFigures = {"output_tokens_per_s", "requests_per_s", "latency_mean_s",
                                                        "ttft_mean_s", "tpot_mean_s"};
  return std::any_of(kFigures.begin(), kFigures.end(),
                     [&](std::string_view column) { return point.find(column) != nullptr; });
}

std::string imported_csv(const std::vector<ImportedPoint>& points) {
  const std::vector<std::string> columns = point_columns({});
  std::string text = csv_header(columns);
  for (const ImportedPoint& point : points) text += csv_line(row_of(point, columns));
  return text;
}

std::string imported_json(const std::vector<ImportedPoint>& points) {
  const std::vector<std::string> columns = point_columns({});
  std::string text = "[";
  for (const ImportedPoint& point : points)
    text += fmt::format("{}\n{{{}}}", text.size() > 1 ? "," : "", json_members(columns, row_of(point, columns)));
  return text + "\n]\n";
}

}  // namespace plimsoll::study
