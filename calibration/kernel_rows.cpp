// SPDX-License-Identifier: Apache-2.0
#include "calibration/kernel_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <set>

#include "configs/quantity.h"
#include "traces/line_reader.h"

namespace plimsoll::calibration {
namespace {

using model::KernelOp;

constexpr double kMaxMilliseconds = 3.6e6;

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

// A row with access by column name. Fields of these tables contain neither commas nor quotes.
class Row {
 public:
  Row(const std::string& file, std::size_t line, const std::map<std::string, std::size_t>& places,
      std::vector<std::string_view> fields)
      : file_(file), line_(line), places_(places), fields_(std::move(fields)) {}

  [[nodiscard]] bool has(const std::string& name) const { return places_.find(name) != places_.end(); }
  [[nodiscard]] std::string text(const std::string& name) const {
    const auto place = places_.find(name);
    if (place == places_.end()) fail(name, "this column is missing");
    if (fields_[place->second].empty()) fail(name, "is blank");
    return std::string(fields_[place->second]);
  }
  [[nodiscard]] std::string text_or(const std::string& name, const std::string& fallback) const {
    const auto place = places_.find(name);
    return place == places_.end() || fields_[place->second].empty() ? fallback : std::string(fields_[place->second]);
  }
  [[nodiscard]] std::uint32_t whole(const std::string& name, double least) const {
    constexpr double kMaxCount = 1e9;
    const std::string found = text(name);
    const std::optional<double> value = configs::parse_number(found);
    if (!value || !(*value >= least) || *value > kMaxCount || *value != std::floor(*value)) {
      fail(name, fmt::format("found '{}', expected a whole number from {:.0f} to {:.0f}", found.substr(0, 40), least,
                             kMaxCount));
    }
    return static_cast<std::uint32_t>(*value);
  }
  [[nodiscard]] double seconds() const {
    const std::string found = text("latency");
    const std::optional<double> value = configs::parse_number(found);
    if (!value || !(*value > 0) || *value > kMaxMilliseconds) {
      fail("latency", fmt::format("found '{}', expected milliseconds above 0", found.substr(0, 40)));
    }
    return *value * 1e-3;
  }
  [[noreturn]] void fail(const std::string& name, const std::string& text) const {
    throw InputError(Where{file_, line_, 0}, fmt::format("{}: {}", name, text));
  }
  [[nodiscard]] std::size_t line() const { return line_; }

 private:
  const std::string& file_;
  std::size_t line_;
  const std::map<std::string, std::size_t>& places_;
  std::vector<std::string_view> fields_;
};

// Refuses quotes in names, because names are written into YAML files between double quotes.
std::string quotable(const Row& row, const std::string& column) {
  const std::string name = row.text_or(column, "");
  const auto breaks = [](char c) { return c == '"' || c == '\\' || std::iscntrl(static_cast<unsigned char>(c)) != 0; };
  if (std::any_of(name.begin(), name.end(), breaks))
    row.fail(column, "quotes, backslashes and control characters are not allowed");
  return name;
}

template <class Measurement>
void read_origin(const Row& row, Measurement& m) {
  static_cast<void>(row.text("device"));  // throws if the column is missing
  m.device = quotable(row, "device");
  m.framework = quotable(row, "framework");
  m.version = quotable(row, "version");
  m.kernel = quotable(row, "kernel_source");
  m.line = row.line();
  m.seconds = row.seconds();
}

void check_dtype(const Row& row, const std::string& column, const std::string& dtype) {
  if (!model::stored_bytes(dtype)) {
    row.fail(column,
             fmt::format("found '{}', allowed: bfloat16, float16, half, fp8, fp8_block, int8, nvfp4, w4a16_mxfp4, "
                         "w4a8_mxfp4_mxfp8, int4_wo",
                         dtype.substr(0, 40)));
  }
}

// Returns one name for all 16-bit types: they run the same kernels at the same speed.
std::string canonical_dtype(const std::string& dtype) {
  return dtype == "float16" || dtype == "half" ? "bfloat16" : dtype;
}

// "balanced" becomes 0, "power_law_1.01" becomes 101.
std::uint32_t skew_of(const Row& row) {
  constexpr std::string_view kPower = "power_law_";
  const std::string found = row.text("distribution");
  if (found == "balanced" || found == "uniform") return 0;
  if (found.starts_with(kPower)) {
    const std::optional<double> power = configs::parse_number(found.substr(kPower.size()));
    if (power && *power >= 0 && *power < 100) return static_cast<std::uint32_t>(std::lround(*power * 100));
  }
  row.fail("distribution", fmt::format("found '{}', allowed: balanced, power_law_P", found.substr(0, 40)));
}

std::string dtype_of(const Row& row, const std::string& column) {
  const std::string found = row.text(column);
  check_dtype(row, column, found);
  return canonical_dtype(found);
}

// Reads one row into `rows`.
void read_gemm(const Row& row, KernelRows& rows) {
  KernelMeasurement m;
  read_origin(row, m);
  m.op = KernelOp::gemm;
  m.dtype = dtype_of(row, "gemm_dtype");
  m.key = {row.whole("n", 1), row.whole("k", 1), 0, 0, 0, 0, 0};
  m.column = row.whole("m", 1);
  rows.kernels.push_back(std::move(m));
}

void read_moe(const Row& row, KernelRows& rows) {
  KernelMeasurement m;
  read_origin(row, m);
  m.op = KernelOp::moe;
  m.dtype = dtype_of(row, "moe_dtype");
  m.key = {row.whole("hidden_size", 1),
           row.whole("inter_size", 1),
           row.whole("topk", 1),
           row.whole("num_experts", 1),
           skew_of(row),
           row.whole("moe_tp_size", 1),
           row.whole("moe_ep_size", 1)};
  if (m.key[2] > m.key[3]) row.fail("topk", fmt::format("{} of {} experts", m.key[2], m.key[3]));
  m.column = row.whole("num_tokens", 1);
  rows.kernels.push_back(std::move(m));
}

void read_attention(const Row& row, KernelRows& rows) {
  const std::string op = row.text("op_name");
  const bool decode = op.find("generation") != std::string::npos || op.find("decode") != std::string::npos;
  if (!decode && op.find("context") == std::string::npos && op.find("prefill") == std::string::npos) {
    row.fail("op_name", fmt::format("found '{}', allowed: context_attention, generation_attention", op.substr(0, 40)));
  }
  KernelMeasurement m;
  read_origin(row, m);
  m.op = decode ? KernelOp::decode_attention : KernelOp::prefill_attention;
  m.dtype = dtype_of(row, "attn_dtype");
  m.kv_dtype = dtype_of(row, "kv_cache_dtype");
  m.key = {row.whole("batch_size", 1),
           row.whole("num_heads", 1),
           row.whole("num_key_value_heads", 1),
           row.whole("head_dim", 1),
           0,
           0,
           0};
  if (m.key[2] > m.key[1]) row.fail("num_key_value_heads", fmt::format("{} for {} heads", m.key[2], m.key[1]));
  const std::uint32_t tokens = row.whole("isl", 1), step = row.whole("step", 0);
  m.column = decode ? tokens + step : tokens;
  m.past = decode ? 0 : step;
  // Count rows that the model cannot use by reason, so that a report can state what was left out.
  std::string unmodelled;
  if (row.has("window_size") && row.whole("window_size", 0) > 0)
    unmodelled = op + " with a window";
  else if (row.has("beam_width") && row.whole("beam_width", 1) > 1)
    unmodelled = op + " with beams";
  if (unmodelled.empty())
    rows.kernels.push_back(std::move(m));
  else
    ++rows.not_modelled[unmodelled];
}

void read_all_reduce(const Row& row, KernelRows& rows) {
  AllReduceMeasurement m;
  read_origin(row, m);
  m.dtype = row.has("nccl_dtype") ? row.text("nccl_dtype") : row.text("allreduce_dtype");
  const std::optional<double> element = model::stored_bytes(m.dtype);
  if (!element)
    row.fail(row.has("nccl_dtype") ? "nccl_dtype" : "allreduce_dtype",
             fmt::format("found '{}'", m.dtype.substr(0, 40)));
  m.ranks = row.whole("num_gpus", 2);
  m.bytes = row.whole("message_size", 1) * *element;
  const std::string op = row.text("op_name");
  if (op == "all_reduce")
    rows.all_reduces.push_back(std::move(m));
  else
    ++rows.not_modelled[op];
}

using ReadRow = void (*)(const Row&, KernelRows&);

// Recognises the family of a table by columns that only this family has.
ReadRow reader_for(const std::set<std::string, std::less<>>& names) {
  const auto has = [&](std::initializer_list<std::string_view> wanted) {
    return std::all_of(wanted.begin(), wanted.end(), [&](std::string_view n) { return names.find(n) != names.end(); });
  };
  if (!has({"device", "latency"})) return nullptr;
  if (has({"gemm_dtype", "m", "n", "k"})) return read_gemm;
  if (has({"moe_dtype", "num_tokens"})) return read_moe;
  if (has({"attn_dtype", "kv_cache_dtype", "isl"})) return read_attention;
  if (has({"num_gpus", "message_size"})) return read_all_reduce;
  return nullptr;
}

std::set<std::string, std::less<>> names_in(std::string_view line) {
  std::set<std::string, std::less<>> names;
  for (const std::string_view name : split(line)) names.emplace(name);
  return names;
}

}  // namespace

bool is_kernel_header(std::string_view line) { return reader_for(names_in(line)) != nullptr; }

bool is_kernel_table(const std::string& file) {
  try {
    traces::ByteSource source(file);
    traces::LineReader lines(source, file);
    std::string_view line;
    return lines.next(line) && is_kernel_header(line);
  } catch (const InputError&) {
    return false;
  }
}

KernelRows read_kernel_rows(const std::string& file) {
  traces::ByteSource source(file);
  traces::LineReader lines(source, file);
  std::string_view line;
  if (!lines.next(line))
    throw InputError(Where{file, 0, 0}, "is empty, expected a table of measured kernels (docs/kernel-tables.md)");
  const ReadRow read = reader_for(names_in(line));
  if (read == nullptr) {
    throw InputError(Where{file, 1, 0},
                     "these are not the columns of a table of measured kernels; docs/kernel-tables.md lists them");
  }
  std::map<std::string, std::size_t> places;
  for (const std::string_view name : split(line)) places.emplace(std::string(name), places.size());
  const std::size_t columns = split(line).size();
  if (places.size() != columns) throw InputError(Where{file, 1, 0}, "a column occurs twice");
  KernelRows rows{file, {}, {}, {}};
  while (lines.next(line)) {
    if (line.empty()) continue;
    std::vector<std::string_view> fields = split(line);
    if (fields.size() != columns) {
      throw InputError(Where{file, lines.number(), 0},
                       fmt::format("found {} fields, expected {}", fields.size(), columns));
    }
    read(Row(file, lines.number(), places, std::move(fields)), rows);
  }
  return rows;
}

}  // namespace plimsoll::calibration
