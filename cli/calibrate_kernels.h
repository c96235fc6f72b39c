// SPDX-License-Identifier: Apache-2.0
// The part of `plimsoll calibrate` that fits tables of kernels measured elsewhere.
#pragma once

#include <string>

#include "cli/options.h"

namespace plimsoll::cli {

/// --from, --hold-out, --source, --export.
void add_kernel_options(po::options_description& options);

/// Fits the tables named by --from and writes the files of accelerators and links under --out. Returns an exit code.
int calibrate_from(const Parsed& parsed, Console& console, const std::string& date);
/// Prints a file of measured kernels as text.
int export_kernels(const Parsed& parsed, Console& console);

}  // namespace plimsoll::cli
