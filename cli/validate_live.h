// SPDX-License-Identifier: Apache-2.0
// validate --live STUDY: every point of a study measured on this machine beside its simulation.
#pragma once

#include "cli/console.h"
#include "cli/options.h"

namespace plimsoll::cli {

/// Adds --live and its related options to those of `validate`.
void add_live_options(po::options_description& options);
/// Runs it; --live was given. Returns the exit code; throws InputError and DeviceError.
[[nodiscard]] int validate_live_runs(const Parsed& parsed, Console& console);

}  // namespace plimsoll::cli
