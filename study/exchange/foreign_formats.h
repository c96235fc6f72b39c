// SPDX-License-Identifier: Apache-2.0
// The formats that import_results reads, one function each; private to study/exchange. Fields and units are those of
// the tools' own exporters (docs/import.md gives the versions).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "study/exchange/foreign_value.h"
#include "study/exchange/import_results.h"

namespace plimsoll::study {

inline constexpr double kSecondsPerMillisecond = 1e-3;

/// The object that `export` adds to the tools' own fields: the point's cells by column.
inline constexpr std::string_view kOwnObject = "plimsoll";
/// The coefficient of variation of a gamma load's gaps, and its column in older files, where it was a swept key.
inline constexpr std::string_view kArrivalCv = "arrival_cv", kSweptArrivalCv = "workload.load.gamma.cv";
/// AIPerf's pattern that sends requests as soon as a cap allows; without a cap, all at once.
inline constexpr std::string_view kAllAtOnce = "concurrency_burst";

/// Returns whether a column of points.csv holds text; the others hold numbers and flags.
[[nodiscard]] bool is_text_column(std::string_view column);

/// Collects a point's cells and notes.
class PointDraft {
 public:
  void text(std::string_view column, const std::optional<std::string>& value);
  /// Adds a number times `scale`, if there is a value and points.csv has the column.
  void number(std::string_view column, std::optional<double> value, double scale = 1);
  /// Replaces a count, if there is a value. Throws InputError if it is not a whole number.
  void count(std::string_view column, std::optional<double> value);
  /// Replaces the load; ignored if `kind` needs a value and there is none.
  void load(std::string_view kind, std::optional<double> value);
  /// Replaces a cell whatever it holds.
  void cell(std::string_view column, Cell value);
  void note(std::string text) { notes_.push_back(std::move(text)); }
  [[nodiscard]] bool has(std::string_view column) const { return point_.find(column) != nullptr; }
  [[nodiscard]] ImportedPoint& point() { return point_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  ImportedPoint point_;
  std::vector<std::string> notes_;
};

/// `vllm bench serve --save-result`; benchmark_serving of SGLang and of older vLLM writes the same fields.
[[nodiscard]] bool is_vllm(const ForeignValue& document);
[[nodiscard]] PointDraft read_vllm(const ForeignValue& document);

/// AIPerf profile_export_aiperf.json and GenAI-Perf *_genai_perf.json.
[[nodiscard]] bool is_aiperf(const ForeignValue& document);
[[nodiscard]] PointDraft read_aiperf(const ForeignValue& document);

/// guidellm benchmarks.json; may hold several points.
[[nodiscard]] bool is_guidellm(const ForeignValue& document);
[[nodiscard]] std::vector<PointDraft> read_guidellm(const ForeignValue& document);

/// InferenceX (InferenceMAX) aggregated results, one object.
[[nodiscard]] bool is_inferencex(const ForeignValue& document);
[[nodiscard]] PointDraft read_inferencex(const ForeignValue& document);

}  // namespace plimsoll::study
