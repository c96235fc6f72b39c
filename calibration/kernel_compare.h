// SPDX-License-Identifier: Apache-2.0
// Compares predictions of single kernels with their measurements. Fits nothing.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "calibration/kernel_rows.h"
#include "configs/catalogue.h"
#include "validation/error_summary.h"

namespace plimsoll::calibration {

/// One predicted row.
struct KernelComparison {
  std::string accelerator, op, dtype, kernel;  // attention's dtype is "type/KV type"
  double measured = 0, predicted = 0;          // seconds
  bool seen = false;                           // the fit includes exactly this shape
  bool outside = false;  // outside the fitted shapes, rows or contexts, or predicted from another kernel's table
  bool derived = false;  // a later chunk of a prefill: the difference of two whole prefills
  std::size_t file = 0, line = 0;  // index of the file; line number from 1
};

struct KernelReport {
  std::vector<std::string> files;
  std::vector<KernelComparison> rows;
  /// How many rows were not predicted, by reason: other collectives or windows, or ops and types that no table of the
  /// accelerator covers.
  std::map<std::string, std::size_t> not_predicted;
};

/// The errors of one accelerator, op, type and kernel.
struct KernelSummary {
  std::string accelerator, op, dtype, kernel;
  validation::ErrorSummary errors;
  std::size_t unseen = 0, outside = 0, derived = 0;
  double unseen_mean = 0;  // over shapes that are not in the fit
};

/// Predicts every row. Throws InputError for an unreadable table, an unknown device, or a damaged calibration.
[[nodiscard]] KernelReport compare_kernels(const std::vector<KernelRows>& files, const configs::Catalogue& catalogue);
/// Returns the groups by accelerator, op, type and kernel in alphabetical order.
[[nodiscard]] std::vector<KernelSummary> summarise(const KernelReport& report);

[[nodiscard]] std::string kernel_report_text(const KernelReport& report);
/// Returns one line per group:
/// accelerator,op,dtype,kernel_source,n,unseen,extrapolates,derived,mean,median,p90,bias,unseen_mean.
[[nodiscard]] std::string kernel_report_csv(const KernelReport& report);
[[nodiscard]] std::string kernel_report_json(const KernelReport& report);
/// Returns one line per row:
/// file,line,accelerator,op,dtype,kernel_source,predicted_ms,measured_ms,relative_error,unseen, extrapolates,derived.
[[nodiscard]] std::string kernel_rows_csv(const KernelReport& report);

}  // namespace plimsoll::calibration
