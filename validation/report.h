// SPDX-License-Identifier: Apache-2.0
// Comparisons as text: one row a figure as CSV, or tables by configuration with the errors by group and in all.
#pragma once

#include <string>
#include <vector>

#include "validation/compare.h"

namespace plimsoll::validation {

/// Columns: table,model,hardware,engine,dtype,tp,instances,input_tokens,output_tokens,load_kind,load_value,metric,
/// predicted,measured,relative_error,lo,hi,extrapolates. lo and hi bound a 90 % band; blank where there is none.
[[nodiscard]] std::string comparison_csv(const std::vector<Comparison>& comparisons);
[[nodiscard]] std::string comparison_json(const std::vector<Comparison>& comparisons);

/// Every cell, predicted beside measured with its error, configuration by configuration; then the errors by table and
/// metric and in total, and the basis of the predictions.
[[nodiscard]] std::string comparison_text(const std::vector<Comparison>& comparisons);
/// The last part of it alone: mean, median and p90 of the absolute error and the bias, by table and metric and in all.
[[nodiscard]] std::string summary_text(const std::vector<Comparison>& comparisons);

}  // namespace plimsoll::validation
