// SPDX-License-Identifier: Apache-2.0
// `plimsoll calibrate --from`: converts tables of measured kernels to files of accelerators and interconnects.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "calibration/kernel_fit.h"
#include "calibration/kernel_rows.h"
#include "configs/catalogue.h"
#include "model/kernel_file.h"

namespace plimsoll::calibration {

/// The result for one accelerator.
struct FittedAccelerator {
  std::string id;            // catalogue id
  std::string interconnect;  // its own link if all-reduces were measured, else empty
  model::KernelFileHead head;
  std::string command;                            // as in CalibrateSettings
  std::vector<model::KernelTable> tables;         // by op, type and kernel
  std::vector<LeftOutErrors> errors;              // errors of the tables, in their order
  std::vector<model::AllReduceCurve> all_reduce;  // by kernel and ranks
};

struct CalibrateSettings {
  std::string source, date;  // source of the measurements; date of the fit
  std::string command{};     // command that repeats the fit, recorded in the files
  int hold_out = 0;          // n > 0: every n-th configuration of each table is held out of the fit
  std::function<void(double done, std::size_t total)> progress;  // may be empty; called from several threads
};

/// Returns true if `hold_out` excludes the configuration. A hash of the configuration decides, so the result is the
/// same in every run.
[[nodiscard]] bool is_held_out(const KernelMeasurement& row, int hold_out);
/// The same for one size of a kernel's all-reduces over a number of ranks.
[[nodiscard]] bool is_held_out(const AllReduceMeasurement& row, int hold_out);

/// Fits every op, type and kernel of the rows, on all cores. Throws InputError for a device that the catalogue does not
/// know.
[[nodiscard]] std::vector<FittedAccelerator> fit_kernels(const std::vector<KernelRows>& files,
                                                         const configs::Catalogue& catalogue,
                                                         const CalibrateSettings& settings);

/// Returns the changed files of the catalogue as (path, content), with fitted coefficients, curves and errors. They are
/// accelerators/ID.kernels and the files of the accelerator, of its link, and of accelerators that share its kernels
/// (`kernels.file` names it). Includes kernel files of servers to which these refer (`own_kernels`), unchanged.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> calibrated_files(const FittedAccelerator& fitted,
                                                                                const configs::Catalogue& catalogue);
/// Returns an accelerator's file with its coefficients and the name of its kernel file replaced by the fitted ones.
[[nodiscard]] std::string accelerator_text(const std::string& text, const FittedAccelerator& fitted);
[[nodiscard]] std::string interconnect_text(const std::string& text, const FittedAccelerator& fitted);

/// Returns one line per table: op, type, kernel, points, errors.
[[nodiscard]] std::string fit_text(const std::vector<FittedAccelerator>& fitted);

/// Returns a file of measured kernels as CSV: one line per coefficient set, then one line per shape with its log
/// ratios.
[[nodiscard]] std::string kernel_file_text(const model::KernelFile& file);

}  // namespace plimsoll::calibration
