// SPDX-License-Identifier: Apache-2.0
#include "validation/measured_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "configs/catalogue.h"
#include "configs/quantity.h"
#include "load/load_kind.h"
#include "study/exchange/csv_file.h"
#include "traces/byte_source.h"

namespace plimsoll::validation {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 32> kColumns = {"model",
                                                       "hardware",
                                                       "engine",
                                                       "dtype",
                                                       "tp",
                                                       "replicas",
                                                       "policy",
                                                       "input_tokens",
                                                       "output_tokens",
                                                       "load_kind",
                                                       "load_value",
                                                       "requests",
                                                       "output_tokens_per_s",
                                                       "latency_per_token_p90_s",
                                                       "latency_p90_s",
                                                       "latency_mean_s",
                                                       "ttft_mean_s",
                                                       "tpot_mean_s",
                                                       "source",
                                                       "length_cv",
                                                       "turnaround_s",
                                                       "kv_dtype",
                                                       "max_running",
                                                       "step_token_budget",
                                                       "arrival_cv",
                                                       "uniform_from",
                                                       "prefix_caching",
                                                       "engine_front_end",
                                                       "batch_wait_timeout_iters",
                                                       "batch_wait_max_tokens_ratio",
                                                       "ep",
                                                       "scheduler_recv_interval"};

// The columns that every table has: model, hardware, engine, lengths and load.
constexpr std::array<std::size_t, 7> kNeeded = {0, 1, 2, 7, 8, 9, 10};

// A column that occurs only in points.csv.
constexpr std::string_view kPointsOnly = "requests_completed";

bool is_points_csv(const std::vector<study::CsvField>& header) {
  return std::any_of(header.begin(), header.end(),
                     [](const study::CsvField& field) { return field.text == kPointsOnly; });
}

class Row {
 public:
  Row(const std::vector<std::size_t>& places, const std::vector<study::CsvField>& fields, const Where& where)
      : places_(places), fields_(fields), where_(where) {}

  [[nodiscard]] const Where& where() const { return where_; }
  [[nodiscard]] std::string text(std::size_t column) const {
    return places_[column] < fields_.size() ? fields_[places_[column]].text : std::string();
  }
  [[nodiscard]] std::string needed(std::size_t column) const {
    std::string value = text(column);
    if (value.empty()) fail(column, "is blank; a name is needed");
    return value;
  }
  [[nodiscard]] std::optional<double> number(std::size_t column, double above) const {
    const std::string value = text(column);
    if (value.empty()) return {};
    const std::optional<double> parsed = configs::parse_number(value);
    if (!parsed || !(*parsed > above) || *parsed > 1e15)
      fail(column, fmt::format("found '{}', expected a number above {}", value.substr(0, 40), above));
    return parsed;
  }
  /// Reads a mean over requests, as points.csv has it, and rounds it.
  [[nodiscard]] std::int64_t mean_tokens(std::size_t column) const {
    return static_cast<std::int64_t>(std::llround(number(column, 0).value_or(0)));
  }
  /// Reads a fraction of at most 1; 0 if blank.
  [[nodiscard]] double share(std::size_t column) const {
    const std::optional<double> value = number(column, 0);
    if (value && *value > 1) fail(column, fmt::format("found '{}', expected a share of at most 1", text(column)));
    return value.value_or(0);
  }
  [[nodiscard]] std::optional<bool> truth(std::size_t column) const {
    const std::string value = text(column);
    if (value.empty()) return {};
    if (value != "true" && value != "false")
      fail(column, fmt::format("found '{}', allowed: true, false", value.substr(0, 40)));
    return value == "true";
  }
  [[nodiscard]] std::int64_t whole(std::size_t column, std::int64_t fallback) const {
    const std::optional<double> value = number(column, 0);
    constexpr double kMaxCount = 1e9;  // for tokens, requests and GPUs
    if (value && (*value != std::floor(*value) || *value > kMaxCount))
      fail(column, fmt::format("found '{}', expected a whole number of at most 1e9", text(column)));
    return value ? static_cast<std::int64_t>(*value) : fallback;
  }

 private:
  [[noreturn]] void fail(std::size_t column, const std::string& text) const {
    const std::size_t place = places_[column] < fields_.size() ? fields_[places_[column]].column : 0;
    throw InputError(Where{where_.file, where_.line, place}, fmt::format("{}: {}", kColumns[column], text));
  }
  const std::vector<std::size_t>& places_;
  const std::vector<study::CsvField>& fields_;
  const Where& where_;
};

// The column for the spread of a gamma load's gaps in older files, which have it only if it was swept.
constexpr std::string_view kSweptSpread = "workload.load.gamma.cv";

// Returns a points.csv column's name in tables of measured points.
std::string_view measured_name(std::string_view column) {
  if (column == "input_tokens_mean") return "input_tokens";
  if (column == "output_tokens_mean") return "output_tokens";
  if (column == kSweptSpread) return "arrival_cv";
  return column == kPointsOnly ? "requests" : column;
}

std::vector<std::size_t> read_header(const std::vector<study::CsvField>& header, const Where& where) {
  const bool points = is_points_csv(header);
  const bool has_spread =
      std::any_of(header.begin(), header.end(), [](const study::CsvField& f) { return f.text == "arrival_cv"; });
  std::vector<std::size_t> places(kColumns.size(), static_cast<std::size_t>(-1));
  for (std::size_t i = 0; i < header.size(); ++i) {
    if (points && has_spread && header[i].text == kSweptSpread) continue;  // a swept key; it repeats arrival_cv
    const auto* const found =
        std::find(kColumns.begin(), kColumns.end(), points ? measured_name(header[i].text) : header[i].text);
    if (found == kColumns.end()) {
      if (points) continue;  // points.csv has figures that are not compared
      const std::string_view near = configs::nearest(header[i].text, std::span<const std::string_view>(kColumns));
      throw InputError(Where{where.file, where.line, header[i].column},
                       fmt::format("unknown column '{}'{}", header[i].text.substr(0, 40),
                                   near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    }
    std::size_t& place = places[static_cast<std::size_t>(found - kColumns.begin())];
    if (place != static_cast<std::size_t>(-1))
      throw InputError(Where{where.file, where.line, header[i].column},
                       fmt::format("column '{}' occurs twice", header[i].text));
    place = i;
  }
  for (const std::size_t column : kNeeded)
    if (places[column] == static_cast<std::size_t>(-1))
      throw InputError(where, fmt::format("column '{}' is missing", kColumns[column]));
  return places;
}

MeasuredPoint read_row(const Row& row, bool points) {
  const auto name = [&](std::size_t column) { return points ? row.text(column) : row.needed(column); };
  MeasuredPoint p;
  p.where = row.where();
  p.imported = points;
  p.model = name(0);
  p.hardware = name(1);
  p.engine = name(2);
  p.dtype = row.text(3);
  p.tp = static_cast<std::int32_t>(row.whole(4, 1));
  p.replicas = static_cast<std::int32_t>(row.whole(5, 1));
  p.policy = row.text(6);
  p.input_tokens = points ? row.mean_tokens(7) : row.whole(7, 0);
  p.output_tokens = points ? row.mean_tokens(8) : row.whole(8, 0);
  p.load_kind = name(9);
  p.load_value = row.number(10, 0).value_or(0);
  p.requests = row.whole(11, 0);
  p.output_tokens_per_s = row.number(12, 0);
  p.latency_per_token_p90_s = row.number(13, 0);
  p.latency_p90_s = row.number(14, 0);
  p.latency_mean_s = row.number(15, 0);
  p.ttft_mean_s = row.number(16, 0);
  p.tpot_mean_s = row.number(17, 0);
  p.source = row.text(18);
  p.length_cv = row.number(19, 0).value_or(0);
  p.turnaround_s = row.number(20, 0).value_or(0);
  p.kv_dtype = row.text(21);
  p.max_running = row.whole(22, 0);
  p.step_token_budget = row.whole(23, 0);
  p.arrival_cv = row.number(24, 0).value_or(0);
  p.uniform_from = row.share(25);
  p.prefix_caching = row.truth(26);
  p.front_end = row.text(27);
  p.batch_wait_timeout_iters = row.whole(28, 0);
  p.batch_wait_max_tokens_ratio = row.share(29);
  p.ep = static_cast<std::int32_t>(row.whole(30, 1));
  p.scheduler_recv_interval = static_cast<std::int32_t>(row.whole(31, 0));
  p.unusable = problem_of(p);
  return p;
}

}  // namespace

std::int64_t shortest(std::int64_t tokens, const MeasuredPoint& p) {
  if (!(p.uniform_from > 0)) return tokens;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(p.uniform_from * static_cast<double>(tokens)));
}

double mean_output(const MeasuredPoint& p) {
  return static_cast<double>(shortest(p.output_tokens, p) + p.output_tokens) / 2;
}

std::string problem_of(const MeasuredPoint& p) {
  if (p.model.empty()) return "model is not stated";
  if (p.hardware.empty()) return "hardware is not stated";
  if (p.engine.empty()) return "engine is not stated";
  if (p.input_tokens < 1 || p.output_tokens < 1) return "lengths are not stated";
  if (p.load_kind.empty()) return "load_kind is not stated";
  const load::LoadKind& kind = load::load_kind_named(p.load_kind);
  if (kind.name.empty())
    return fmt::format("load_kind: found '{}', allowed: jumpstart, closed_loop, poisson, constant, gamma, burst",
                       p.load_kind);
  if (kind.quantity == load::LoadQuantity::rate_scale)
    return "load_kind is a trace, but the row does not name the "
           "file";
  if (kind.quantity == load::LoadQuantity::none) return "load_kind is a script, but the row does not contain it";
  if (kind.name == load::load_kind(load::Sessions{}) || kind.name == load::load_kind(load::SessionArrivals{}))
    return "load_kind is sessions, but the row does not describe them";
  if (!(p.load_value > 0)) return "load_value is not stated";
  if (p.uniform_from > 0 && p.length_cv > 0) return "uniform_from and length_cv exclude each other";
  const bool is_gamma = kind.name == load::load_kind(load::GammaArrivals{});
  if (is_gamma && !(p.arrival_cv > 0))
    return "arrival_cv, the spread of the gaps between a gamma load's requests, is not stated";
  return {};
}

MeasuredTable read_measured(const std::string& file) {
  const fs::path name = fs::path(file).extension() == ".gz" ? fs::path(file).stem() : fs::path(file);
  MeasuredTable table{name.stem().string(), {}};
  std::vector<std::size_t> places;
  bool points = false;
  study::read_csv(file, "a CSV of measured points",
                  [&](const std::vector<study::CsvField>& fields, const Where& where) {
                    if (places.empty()) {
                      places = read_header(fields, where);
                      points = is_points_csv(fields);
                    } else {
                      table.points.push_back(read_row(Row(places, fields, where), points));
                    }
                  });
  if (table.points.empty()) throw InputError(Where{file, 0, 0}, "holds no measured point");
  return table;
}

namespace {

// Returns the header of a plain or gzip file; empty if its first 64 KiB have none.
std::vector<study::CsvField> header_of(const std::string& file) {
  std::vector<char> piece(1U << 16U);
  traces::ByteSource source(file);
  study::CsvLines lines({piece.data(), source.read(piece)}, file);
  return lines.next() ? lines.fields() : std::vector<study::CsvField>();
}

// Returns whether a table has the columns that read_measured() needs; other tools name theirs differently. The reader
// reports a file that cannot be opened.
bool is_measured_table(const std::string& file) {
  try {
    std::size_t found = 0;
    for (const study::CsvField& field : header_of(file)) {
      const std::string_view name = measured_name(field.text);
      for (const std::size_t needed : kNeeded) found += name == kColumns[needed] ? 1 : 0;
    }
    return found == kNeeded.size();
  } catch (const traces::TraceError&) {
    return false;
  } catch (const InputError&) {
    return false;  // no CSV
  }
}

}  // namespace

MeasuredTable read_runs(const std::string& file, const study::ImportLabels& labels,
                        const std::vector<std::string>& maps, std::vector<std::string>& notes) {
  MeasuredTable table{fs::path(file).stem().string(), {}};
  if (maps.empty() && is_measured_table(file)) {
    table = read_measured(file);
  } else {
    study::ImportedResults results = study::import_results(file, labels, maps);
    notes.insert(notes.end(), results.notes.begin(), results.notes.end());
    std::vector<std::size_t> places;
    const std::string text = study::imported_csv(results.points);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const Where where{file, 0, 0};
      const std::vector<study::CsvField> fields = study::csv_fields(text.substr(at, end - at), where);
      if (places.empty())
        places = read_header(fields, where);
      else
        table.points.push_back(read_row(Row(places, fields, where), true));
      at = end + 1;
    }
  }
  for (MeasuredPoint& point : table.points) point.imported = true;
  return table;
}

std::string published_folder() {
  const fs::path beside = fs::path(configs::Catalogue::default_root()).parent_path() / "validation" / "published";
  std::error_code error;
  if (fs::is_directory(beside, error)) return beside.string();
#ifdef PLIMSOLL_PUBLISHED_DIR
  if (fs::is_directory(PLIMSOLL_PUBLISHED_DIR, error)) return PLIMSOLL_PUBLISHED_DIR;
#endif
  throw InputError(Where{beside.string(), 0, 0}, "the published tables are missing");
}

bool is_published(const std::string& file) {
  std::error_code error;
  return fs::equivalent(fs::absolute(file, error).parent_path(), published_folder(), error) && !error;
}

std::vector<MeasuredTable> jumpstart_tables() {
  std::vector<MeasuredTable> tables;
  for (const char* name : {"by-instance", "by-tp", "by-instance-count", "min-latency", "max-throughput"})
    tables.push_back(read_measured((fs::path(published_folder()) / fmt::format("jumpstart-{}.csv", name)).string()));
  return tables;
}

}  // namespace plimsoll::validation
