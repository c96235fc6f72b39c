// SPDX-License-Identifier: Apache-2.0
// Decode attention over a cache of its own, to time how it is divided among threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/cpu/host_memory.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/thread_pool.h"

namespace plimsoll::exec {

/// A layer with 8 KV heads of 4 queries each, 128 dimensions, in bf16. Its sequences have between a quarter and all of
/// the longest context, so threads that get equal numbers of them do not end together.
class AttentionProbe {
 public:
  /// `bytes` of keys and values, in as many layers as fit. At least one layer.
  AttentionProbe(const KernelSet& kernels, ThreadPool& pool, std::size_t bytes);
  /// Returns the seconds of a step of `sequences`, at most kMostSequences, over the next layer; divided into
  /// `per_thread` parts for each thread (decode_parts.h).
  [[nodiscard]] double shot(std::int64_t sequences, int per_thread);

  static constexpr std::int64_t kMostSequences = 8;

 private:
  void attend(std::int64_t sequence, std::int64_t first_head, std::int64_t heads, int thread);

  const KernelSet& kernels_;
  ThreadPool& pool_;
  std::int64_t layers_, layer_ = 0;
  HostMemory cache_;
  std::vector<std::int32_t> blocks_;
  std::vector<float> q_, out_, zeros_;
  std::vector<HostMemory> scratch_;  // [thread]
};

}  // namespace plimsoll::exec
