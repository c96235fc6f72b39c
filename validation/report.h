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

/// Every cell, predicted beside measured with its error, configuration by configuration; then the basis of the
/// predictions and summary_text().
[[nodiscard]] std::string comparison_text(const std::vector<Comparison>& comparisons);
/// Mean, median and p90 of the absolute error, the bias and the share of bands that hold: by table and metric, in all,
/// and by group of accelerator, engine and weight type. A group whose rows state the means of TTFT and TPOT alone has
/// the latency that follows from them as well.
[[nodiscard]] std::string summary_text(const std::vector<Comparison>& comparisons);

// Comparisons as one HTML page that needs nothing else: parity pictures, errors by group, and where the predicted time
// goes.

/// `title` and `notes` (one paragraph each) head the page. Errors are grouped by table, TP degree, sequence length and
/// share of the KV pool in use, each with n, mean, median and p90 of the absolute error, bias, and the share of bands
/// that hold.
[[nodiscard]] std::string comparison_html(const std::string& title, const std::vector<std::string>& notes,
                                          const std::vector<Comparison>& comparisons);

}  // namespace plimsoll::validation
