// SPDX-License-Identifier: Apache-2.0
// Comparisons as text: CSV with one row per figure, or tables by configuration, with the errors by group and overall.
#pragma once

#include <string>
#include <vector>

#include "validation/compare.h"

namespace plimsoll::validation {

/// Columns: table,model,hardware,engine,dtype,tp,instances,input_tokens,output_tokens,load_kind,load_value,metric,
/// predicted,measured,relative_error,lo,hi,extrapolates. lo and hi are the ends of a 90 % band; blank if there is none.
[[nodiscard]] std::string comparison_csv(const std::vector<Comparison>& comparisons);
[[nodiscard]] std::string comparison_json(const std::vector<Comparison>& comparisons);

/// Returns every figure, predicted and measured, with its error, grouped by configuration. Then follow the basis of the
/// predictions and summary_text().
[[nodiscard]] std::string comparison_text(const std::vector<Comparison>& comparisons);
/// Returns mean, median and p90 of the absolute error, the bias, and the fraction of bands that contain the
/// measurement. They are given by table and metric, overall, and by group of accelerator, engine and weight type. A
/// group whose rows state only the means of TTFT and TPOT also has the latency that follows from them.
[[nodiscard]] std::string summary_text(const std::vector<Comparison>& comparisons);

// Comparisons as one self-contained HTML page: plots of predicted over measured, errors by group, and a breakdown of
// the predicted time.

/// The page begins with `title` and `notes` (one paragraph each). Errors are grouped by table, TP degree, sequence
/// length and share of the KV pool in use. Each group has n, mean, median and p90 of the absolute error, bias, and the
/// fraction of bands that contain the measurement.
[[nodiscard]] std::string comparison_html(const std::string& title, const std::vector<std::string>& notes,
                                          const std::vector<Comparison>& comparisons);

}  // namespace plimsoll::validation
