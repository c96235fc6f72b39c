// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process and see each other's memory: tensor parallelism on the CPU.
#pragma once

#include <memory>
#include <vector>

#include "exec/communicator.h"

namespace plimsoll::exec {

/// Endpoint i is rank i's. all_reduce takes f32 only. Waiting threads sleep; they do not spin against the ranks that work.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_thread_group(int size);

}  // namespace plimsoll::exec
