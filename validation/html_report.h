// SPDX-License-Identifier: Apache-2.0
// Comparisons as one HTML page that needs nothing else: parity pictures, errors by group, and where the predicted time
// goes.
#pragma once

#include <string>
#include <vector>

#include "validation/compare.h"

namespace plimsoll::validation {

/// `title` and `notes` (one paragraph each) head the page. Errors are grouped by table, TP degree, sequence length and
/// share of the KV pool in use, each with n, mean, median and p90 of the absolute error, bias, and the share of bands
/// that hold.
[[nodiscard]] std::string comparison_html(const std::string& title, const std::vector<std::string>& notes,
                                          const std::vector<Comparison>& comparisons);

}  // namespace plimsoll::validation
