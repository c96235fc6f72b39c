// SPDX-License-Identifier: Apache-2.0
// Ranks that are threads of one process and see each other's memory: tensor parallelism on the CPU. Those of other
// processes join by a mesh of sockets, with the same bits.
#pragma once

#include <memory>
#include <vector>

#include "exec/communicator.h"
#include "exec/remote_ranks.h"

namespace plimsoll::exec {

namespace group {
class Mesh;
}

/// Endpoint i is rank i's. all_reduce takes f32 only. Waiting threads sleep; they do not spin against the ranks that
/// work.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_thread_group(int size);
/// The endpoints of `share` of a group of `size` ranks; each process of the mesh, which outlives them, holds as many. A
/// message goes to every other process whole: right for the few processes that CPUs are worth, not for many.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_thread_group(int size, RankShare share,
                                                                           group::Mesh& mesh);

}  // namespace plimsoll::exec
