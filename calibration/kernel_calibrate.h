// SPDX-License-Identifier: Apache-2.0
// `plimsoll calibrate --from`: tables of measured kernels into the files of accelerators and interconnects.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "calibration/kernel_fit.h"
#include "calibration/kernel_rows.h"
#include "configs/catalogue.h"
#include "model/kernel_file.h"

namespace plimsoll::calibration {

/// What one accelerator's measurements gave.
struct FittedAccelerator {
  std::string id;            // of the catalogue
  std::string interconnect;  // its own link, where all-reduces were measured; else empty
  model::KernelFileHead head;
  std::string command;                            // as in CalibrateSettings
  std::vector<model::KernelTable> tables;         // by op, type and kernel
  std::vector<LeftOutErrors> errors;              // of the tables
  std::vector<model::AllReduceCurve> all_reduce;  // by kernel and ranks
};

struct CalibrateSettings {
  std::string source, date;  // of the measurements; of the fit
  std::string command{};     // how to do it again, for the files
  int hold_out = 0;          // n > 0: every n-th configuration of each table stays out of the fit
  std::function<void(double done, std::size_t total)> progress;  // may be empty; called from several threads
};

/// Whether a configuration is among those that `hold_out` keeps back: a hash of what it is, the same on every run.
[[nodiscard]] bool is_held_out(const KernelMeasurement& row, int hold_out);
/// The same for a size of a kernel's all-reduces over some ranks.
[[nodiscard]] bool is_held_out(const AllReduceMeasurement& row, int hold_out);

/// Fits every op, type and kernel of the rows on as many threads as there are cores. Throws InputError for a device
/// that the catalogue does not know.
[[nodiscard]] std::vector<FittedAccelerator> fit_kernels(const std::vector<KernelRows>& files,
                                                         const configs::Catalogue& catalogue,
                                                         const CalibrateSettings& settings);

/// Files as in a catalogue and their contents: accelerators/ID.kernels, and the catalogue's own files of the
/// accelerator, of those that share its kernels (their `kernels.file` names it) and of its link, with the fitted
/// coefficients, curves and errors in place of theirs.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> calibrated_files(const FittedAccelerator& fitted,
                                                                                const configs::Catalogue& catalogue);
/// The text of an accelerator's file with the fitted coefficients, and the name of a file of measured kernels, in place
/// of what it had.
[[nodiscard]] std::string accelerator_text(const std::string& text, const FittedAccelerator& fitted);
[[nodiscard]] std::string interconnect_text(const std::string& text, const FittedAccelerator& fitted);

/// One line a table: op, type, kernel, points, errors.
[[nodiscard]] std::string fit_text(const std::vector<FittedAccelerator>& fitted);

/// Everything in a file of measured kernels as CSV: one line a coefficient set, then one a shape with its log ratios.
[[nodiscard]] std::string kernel_file_text(const model::KernelFile& file);

}  // namespace plimsoll::calibration
