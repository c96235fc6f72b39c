// SPDX-License-Identifier: Apache-2.0
// The formats that import_results knows, one function each; private to study/exchange. Fields and units are those of
// the tools' own exporters (docs/import.md names the versions).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "study/exchange/foreign_value.h"
#include "study/exchange/import_results.h"

namespace plimsoll::study {

inline constexpr double kSecondsPerMillisecond = 1e-3;

/// The object that `export` adds to the tools' fields: the point's cells by their columns.
inline constexpr std::string_view kOwnObject = "plimsoll";
/// The spread of a gamma load's gaps; as the column of a swept key in older files.
inline constexpr std::string_view kArrivalCv = "arrival_cv", kSweptArrivalCv = "workload.load.gamma.cv";
/// AIPerf's pattern of requests that are sent as soon as a cap allows; without a cap all at once.
inline constexpr std::string_view kAllAtOnce = "concurrency_burst";

/// Whether a column of points.csv holds a text; the others hold numbers and flags.
[[nodiscard]] bool is_text_column(std::string_view column);

/// Collects a point's cells and notes.
class PointDraft {
 public:
  void text(std::string_view column, const std::optional<std::string>& value);
  void number(std::string_view column, std::optional<double> value, double scale = 1);
  void count(std::string_view column, std::optional<double> value);
  /// Replaces the load; a kind without the value that it needs is not stated.
  void load(std::string_view kind, std::optional<double> value);
  /// Replaces a cell, whatever it holds.
  void cell(std::string_view column, Cell value);
  void note(std::string text) { notes_.push_back(std::move(text)); }
  [[nodiscard]] bool has(std::string_view column) const { return point_.find(column) != nullptr; }
  [[nodiscard]] ImportedPoint& point() { return point_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  ImportedPoint point_;
  std::vector<std::string> notes_;
};

/// `vllm bench serve --save-result`; SGLang's and older vLLM's benchmark_serving write the same fields.
[[nodiscard]] bool is_vllm(const ForeignValue& document);
[[nodiscard]] PointDraft read_vllm(const ForeignValue& document);

/// AIPerf profile_export_aiperf.json and GenAI-Perf *_genai_perf.json.
[[nodiscard]] bool is_aiperf(const ForeignValue& document);
[[nodiscard]] PointDraft read_aiperf(const ForeignValue& document);

/// guidellm benchmarks.json: several points.
[[nodiscard]] bool is_guidellm(const ForeignValue& document);
[[nodiscard]] std::vector<PointDraft> read_guidellm(const ForeignValue& document);

/// InferenceX (InferenceMAX) aggregated results, one object.
[[nodiscard]] bool is_inferencex(const ForeignValue& document);
[[nodiscard]] PointDraft read_inferencex(const ForeignValue& document);

}  // namespace plimsoll::study
