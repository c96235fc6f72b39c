// SPDX-License-Identifier: Apache-2.0
// The cost of measuring: of adding a request, and of computing the metrics of a million requests.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "sched/metrics_collector.h"

namespace plimsoll::sched {
namespace {

std::vector<RequestResult> requests(std::size_t count) {
  std::mt19937_64 engine(1);
  const auto nanos = [&engine](std::uint64_t limit) { return static_cast<Nanos>(engine() % limit); };
  std::vector<RequestResult> results(count);
  for (std::size_t i = 0; i < count; ++i) {
    RequestResult& result = results[i];
    result.sent = static_cast<Nanos>(i) * 1'000'000;
    result.first_token = result.sent + nanos(100'000'000);
    result.end = result.first_token + nanos(5'000'000'000);
    result.input = 512;
    result.output = 1 + static_cast<Tok>(nanos(400));
  }
  return results;
}

void AddRequests(benchmark::State& state) {
  const auto results = requests(4096);
  for (auto _ : state) {
    MetricsCollector measurements({}, Seconds(0), false);
    for (int i = 0; i < 256; ++i)
      for (const RequestResult& result : results) measurements.add(result);
    benchmark::DoNotOptimize(measurements);
  }
  state.SetItemsProcessed(state.iterations() * 4096 * 256);
}
BENCHMARK(AddRequests)->Unit(benchmark::kMillisecond);

void MetricsOfAMillion(benchmark::State& state) {
  MetricsCollector measurements({}, Seconds(0), false);
  for (const RequestResult& result : requests(1'000'000)) measurements.add(result);
  measurements.end_run({0, 1005, 0, 0}, {});
  for (auto _ : state) benchmark::DoNotOptimize(measurements.metrics());
}
BENCHMARK(MetricsOfAMillion)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll::sched
