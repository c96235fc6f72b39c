// SPDX-License-Identifier: Apache-2.0
// The limits of this machine, measured with the instructions and threads that the kernels use. Kernels are judged
// against them, and a plan for this machine starts from them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "exec/cpu/host_memory.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/thread_pool.h"

namespace plimsoll::exec {

using ProbeClock = std::chrono::steady_clock;
inline double seconds_since(ProbeClock::time_point start) {
  return std::chrono::duration<double>(ProbeClock::now() - start).count();
}

/// Single shots. Alternate them with the measurement they are compared with, because neighbours on the machine come and
/// go.
class Probe {
 public:
  /// `bytes` to read in one shot: at least 8 times the last-level cache, otherwise the cache is measured.
  Probe(const KernelSet& kernels, ThreadPool& pool, std::size_t bytes);
  /// Returns bytes per second of one pass over the buffer. Wakes the team before the clock starts.
  [[nodiscard]] double read_once();
  /// Returns f32 flops per second over about 2 ms; a multiply-add counts as two.
  [[nodiscard]] double fma_once();

 private:
  void rouse();
  void multiply_add(std::int64_t rounds, std::atomic<double>& flops);

  const KernelSet& kernels_;
  ThreadPool& pool_;
  HostMemory buffer_;
};

/// Returns the bytes of this machine's last-level cache; 32 MiB if the system does not say.
[[nodiscard]] std::size_t last_level_cache();
/// Returns the bytes to read so that memory is measured and not the cache: 8 caches, but 256 MiB to 2 GiB.
[[nodiscard]] std::size_t streamed_bytes();

/// Returns bytes per second that `threads` threads read from `bytes` of memory: the best within about 0.2 s.
[[nodiscard]] double read_bandwidth(int threads, std::size_t bytes);
/// Returns f32 flops per second of `threads` threads: the best within about 0.2 s.
[[nodiscard]] double fma_peak(int threads);

/// Average rates with all neighbours on the machine, whereas the probes above return best values.
struct SteadyRates {
  double read_bandwidth = 0, multiply_add = 0;  // bytes/s, flop/s
};
/// Keeps its threads and its 256 MiB, so that it can be called often.
class SteadyProbe {
 public:
  explicit SteadyProbe(int threads);
  /// Alternates `seconds` of reading with as many of multiplying. Returns the mean rates of the median turn.
  [[nodiscard]] SteadyRates rates(double seconds);

 private:
  ThreadPool pool_;
  Probe probe_;
};

}  // namespace plimsoll::exec
