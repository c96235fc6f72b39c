// SPDX-License-Identifier: Apache-2.0
// The ladder of short runs that `calibrate --engine NAME --endpoint URL` measures on a server.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/options.h"
#include "configs/catalogue.h"
#include "validation/measured_points.h"

namespace plimsoll::cli {

struct Ladder {
  std::string name;    // of the profile
  std::string model;   // empty: what the server says
  std::string folder;  // for points.csv and the store that makes the ladder resumable
};

struct LadderRuns {
  std::vector<validation::MeasuredPoint> rows;
  std::string file;          // points.csv
  std::string like, server;  // an engine of the catalogue; "vLLM 0.16.0"
  std::optional<double> pool_tokens;
  std::optional<std::int64_t> block_tokens, slots;
  bool interrupted = false;  // by the user
};

/// Measures the rungs of calibration::ordered_rungs() for --users, --input and --output. Those that would probably last
/// beyond --seconds are left out. Throws InputError and DeviceError.
[[nodiscard]] LadderRuns run_ladder(const Ladder& ladder, const Parsed& parsed, const configs::Catalogue& catalogue,
                                    Console& console);

}  // namespace plimsoll::cli
