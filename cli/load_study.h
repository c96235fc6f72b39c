// SPDX-License-Identifier: Apache-2.0
// The study that a verb's arguments name or state, with --set and --seed applied.
#pragma once

#include "cli/options.h"
#include "study/file/study.h"

namespace plimsoll::cli {

/// Reads STUDY, options instead of it (cli/stated_study.h), or both. Prints the study's notes. Throws
/// InputError.
[[nodiscard]] study::Study load_study(const Parsed& parsed, Console& console);

}  // namespace plimsoll::cli
