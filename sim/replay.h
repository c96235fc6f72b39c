// SPDX-License-Identifier: Apache-2.0
// Feeds the events of a live run (events.jsonl, docs/measure.md) to fresh replicas: the same policy with the same
// settings takes the same decisions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "load/scenario.h"

namespace plimsoll::sim {

/// The point of its study that the file is a run of. Throws InputError with file and line.
[[nodiscard]] std::size_t replayed_point(const std::string& file);

/// The decision log of each replica. What the file says of the KV pool wins over `scenario`, so that a run can be
/// replayed where less memory is. Throws InputError with file and line for a file that is damaged, or is not a run of
/// this policy.
[[nodiscard]] std::vector<std::string> replay(const std::string& file, const load::Scenario& scenario);

}  // namespace plimsoll::sim
