// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, measured with the instructions and threads that the kernels use: the limits that
// kernels are judged by, and the accelerator that a plan for this machine starts from.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "exec/cpu/host_memory.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/thread_pool.h"

namespace plimsoll::exec {

/// Single shots, to be taken in turn with what they are compared with, as neighbours come and go.
class Probe {
 public:
  /// `bytes` to read in one shot: at least 8 times the last-level cache, or the cache is measured.
  Probe(const KernelSet& kernels, ThreadPool& pool, std::size_t bytes);
  /// Bytes a second of one pass over the buffer. The team wakes before the clock starts.
  [[nodiscard]] double read_once();
  /// f32 multiply-adds count twice; per second over about 2 ms.
  [[nodiscard]] double fma_once();

 private:
  void rouse();
  void multiply_add(std::int64_t rounds, std::atomic<double>& flops);

  const KernelSet& kernels_;
  ThreadPool& pool_;
  HostMemory buffer_;
};

/// Best of what fits into about 0.2 s. Bytes a second that `threads` threads read from `bytes` of memory.
[[nodiscard]] double read_bandwidth(int threads, std::size_t bytes);
/// Best of about 0.2 s: f32 flops a second of `threads` threads.
[[nodiscard]] double fma_peak(int threads);

/// What the machine gives on average, neighbours and all, where the probes above are bests.
struct SteadyRates {
  double read_bandwidth = 0, multiply_add = 0;  // bytes/s, flop/s
};
/// Keeps its threads and its 256 MiB, so that it can be asked often.
class SteadyProbe {
 public:
  explicit SteadyProbe(int threads);
  /// `seconds` of reading and as many of multiplying, in turns: the mean rates of the median turn.
  [[nodiscard]] SteadyRates rates(double seconds);

 private:
  ThreadPool pool_;
  Probe probe_;
};

}  // namespace plimsoll::exec
