// SPDX-License-Identifier: Apache-2.0
// The part of `plimsoll calibrate` that fits an engine's profile to measured serving runs.
#pragma once

#include <string>

#include "cli/options.h"

namespace plimsoll::cli {

/// --engine.
void add_engine_options(po::options_description& options);

/// Fits the engine named by --engine from scratch, prints the errors in and out of the fit, and writes its files below
/// --out (default: the catalogue). Returns an exit code.
int calibrate_engine(const Parsed& parsed, Console& console, const std::string& date);

}  // namespace plimsoll::cli
