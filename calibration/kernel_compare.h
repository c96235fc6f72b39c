// SPDX-License-Identifier: Apache-2.0
// Predictions of single kernels beside their measurements. Nothing is ever fitted here.
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
  bool seen = false;                           // the very shape is in the fit
  bool outside = false;                        // beyond the fitted shapes, rows or contexts, or another kernel's table
  bool derived = false;                        // a later chunk of a prefill: a difference of two whole ones
  std::size_t file = 0, line = 0;              // index into the files; line from 1
};

struct KernelReport {
  std::vector<std::string> files;
  std::vector<KernelComparison> rows;
  /// What was not predicted, and how many rows: other collectives, windows, ops or types that no table of the
  /// accelerator covers.
  std::map<std::string, std::size_t> not_predicted;
};

/// Of one accelerator, op, type and kernel.
struct KernelSummary {
  std::string accelerator, op, dtype, kernel;
  validation::ErrorSummary errors;
  std::size_t unseen = 0, outside = 0, derived = 0;
  double unseen_mean = 0;  // over shapes that are not in the fit
};

/// Throws InputError: an unreadable table, a device that the catalogue does not know, a damaged calibration.
[[nodiscard]] KernelReport compare_kernels(const std::vector<KernelRows>& files, const configs::Catalogue& catalogue);
/// By accelerator, op, type and kernel, in alphabetical order.
[[nodiscard]] std::vector<KernelSummary> summarise(const KernelReport& report);

[[nodiscard]] std::string kernel_report_text(const KernelReport& report);
/// One line a group: accelerator,op,dtype,kernel_source,n,unseen,extrapolates,derived,mean,median,p90,bias,unseen_mean.
[[nodiscard]] std::string kernel_report_csv(const KernelReport& report);
[[nodiscard]] std::string kernel_report_json(const KernelReport& report);
/// One line a row: file,line,accelerator,op,dtype,kernel_source,predicted_ms,measured_ms,relative_error,unseen,
/// extrapolates,derived.
[[nodiscard]] std::string kernel_rows_csv(const KernelReport& report);

}  // namespace plimsoll::calibration
