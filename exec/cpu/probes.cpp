// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/probes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "exec/cpu/kernels.h"
#include "exec/cpu/tuner.h"

namespace plimsoll::exec {

namespace {

template <class Shot>
double best_of(const Shot& shot) {
  constexpr double kSeconds = 0.2;
  const auto start = ProbeClock::now();
  double best = 0;
  do best = std::max(best, shot());
  while (seconds_since(start) < kSeconds);
  return best;
}

// Returns the mean rate of shots of equal work: their number divided by the sum of their times.
template <class Shot>
double mean_of(const Shot& shot, double seconds) {
  const auto start = ProbeClock::now();
  double inverse = 0;
  int shots = 0;
  do {
    inverse += 1 / shot();
    ++shots;
  } while (seconds_since(start) < seconds);
  return shots / inverse;
}

constexpr std::size_t kSteadyBytes = std::size_t{256} << 20U;

// A shot is cut into pieces, so that a thread delayed by a neighbour leaves its share to the others, as in a forward.
constexpr std::int64_t kPieceBytes = 256 << 10, kPiecesPerThread = 8;
constexpr std::int64_t kRounds = 500'000;  // multiply-adds per thread and shot, about 2 ms

// Keeps the compiler from removing the computation of `result`.
void use(float result) { asm volatile("" : : "g"(result) : "memory"); }

}  // namespace

Probe::Probe(const KernelSet& kernels, ThreadPool& pool, std::size_t bytes)
    : kernels_(kernels), pool_(pool), buffer_(bytes, "a bandwidth probe") {
  // Write the buffer: pages that were never written all map to one page of zeros.
  pool_.parallel_for(static_cast<std::int64_t>(bytes), kPieceBytes, [&](int, std::int64_t begin, std::int64_t end) {
    std::memset(buffer_.data() + begin, 1, static_cast<std::size_t>(end - begin));
  });
}

void Probe::multiply_add(std::int64_t rounds, std::atomic<double>& flops) {
  float values[] = {0.5F, 0.25F, 0};
  flops += kernels_.multiply_add(rounds, values);
  use(values[2]);
}

// Does about 100 us of work in pieces, which is long enough for the other threads to wake and take part.
void Probe::rouse() {
  std::atomic<double> flops = 0;
  pool_.for_each(pool_.threads() * kPiecesPerThread,
                 [&](int, std::int64_t) { multiply_add(kRounds / (20 * kPiecesPerThread), flops); });
}

double Probe::read_once() {
  const auto bytes = static_cast<std::int64_t>(buffer_.bytes());
  rouse();
  const auto start = ProbeClock::now();
  pool_.parallel_for(bytes, kPieceBytes, [&](int, std::int64_t begin, std::int64_t end) {
    use(kernels_.read(buffer_.data() + begin, static_cast<std::size_t>(end - begin)));
  });
  return static_cast<double>(bytes) / seconds_since(start);
}

double Probe::fma_once() {
  std::atomic<double> flops = 0;
  rouse();
  const auto start = ProbeClock::now();
  pool_.for_each(pool_.threads() * kPiecesPerThread,
                 [&](int, std::int64_t) { multiply_add(kRounds / kPiecesPerThread, flops); });
  return flops / seconds_since(start);
}

std::size_t last_level_cache() { return cache_sizes().last; }

std::size_t streamed_bytes() {
  return std::clamp(8 * last_level_cache(), std::size_t{256} << 20U, std::size_t{2} << 30U);
}

double read_bandwidth(int threads, std::size_t bytes) {
  ThreadPool pool(threads);
  Probe probe(select_kernels(), pool, bytes);
  return best_of([&] { return probe.read_once(); });
}

double fma_peak(int threads) {
  ThreadPool pool(threads);
  Probe probe(select_kernels(), pool, 0);
  return best_of([&] { return probe.fma_once(); });
}

SteadyProbe::SteadyProbe(int threads) : pool_(threads), probe_(select_kernels(), pool_, kSteadyBytes) {}

// Alternate between the two, so that both see the same conditions, and take the median turn. A hiccup of the host
// spoils one turn; a neighbour that keeps using the cores affects them all, as it should. The first turn raises the
// clock and maps the pages, and does not count.
SteadyRates SteadyProbe::rates(double seconds) {
  constexpr std::size_t kTurns = 5;
  const double turn = seconds / kTurns;
  std::array<double, kTurns> reads{}, products{};
  static_cast<void>(mean_of([&] { return probe_.read_once(); }, turn / 2));
  static_cast<void>(mean_of([&] { return probe_.fma_once(); }, turn / 2));
  for (std::size_t i = 0; i < kTurns; ++i) {
    reads[i] = mean_of([&] { return probe_.read_once(); }, turn);
    products[i] = mean_of([&] { return probe_.fma_once(); }, turn);
  }
  std::sort(reads.begin(), reads.end());
  std::sort(products.begin(), products.end());
  return {reads[kTurns / 2], products[kTurns / 2]};
}

}  // namespace plimsoll::exec
