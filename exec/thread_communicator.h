// SPDX-License-Identifier: Apache-2.0
// Communicators for tensor parallelism on the CPU. The ranks of one process are threads that share memory; ranks of
// other processes join through a mesh of sockets. Results have the same bits either way.
#pragma once

#include <memory>
#include <vector>

#include "exec/communicator.h"
#include "exec/remote_ranks.h"

namespace plimsoll::exec {

namespace group {
class Mesh;
}

/// Endpoint i is that of rank i. all_reduce takes f32 only. Waiting threads sleep, so that they do not slow down ranks
/// that compute.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_thread_group(int size);
/// The endpoints of `share` in a group of `size` ranks. The mesh must outlive them, and every process in it must hold
/// the same number of ranks. Each message is sent in full to every other process, which suits only a few processes.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_thread_group(int size, RankShare share,
                                                                           group::Mesh& mesh);

}  // namespace plimsoll::exec
