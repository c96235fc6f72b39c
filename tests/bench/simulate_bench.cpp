// SPDX-License-Identifier: Apache-2.0
// Speed of the simulator on the workloads of docs/performance.md. Each iteration is one whole run on one thread, from a
// resolved scenario to its metrics. It excludes process start and reading the study, which scripts/time-simulate
// measures.
#include <benchmark/benchmark.h>

#include <memory>

#include "configs/catalogue.h"
#include "sim/simulate.h"
#include "study/file/study.h"
#include "study/run/resolve.h"

namespace plimsoll {
namespace {

load::Scenario scenario(const std::string& text) {
  const auto catalogue = std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
  const study::Study study(configs::Document::from_text(text, "benchmark"), "benchmark", {}, catalogue);
  study::ResolvedPoint point = study::resolve_point(study, 0);
  return *point.scenario;
}

constexpr std::string_view kLlama31OnH100 = "model: llama-3.1-8b\nhardware: {accelerator: h100-sxm, count: 1}\n";
constexpr std::string_view kLlama2OnA100 = "model: llama-2-7b\nhardware: {accelerator: a100-sxm-80gb, count: 1}\n";

std::string chat_study(std::string_view machine, int tokens, double rate, std::int64_t requests) {
  return std::string(machine) + "engine: vllm-0.12\n" +
         "scheduler: {prefix_caching: false}\nworkload:\n  load: {poisson: {rate: " + std::to_string(rate) +
         " /s}}\n  lengths: {input: " + std::to_string(tokens) + ", output: " + std::to_string(tokens) +
         "}\n  requests: " + std::to_string(requests) + "\n";
}

void run(benchmark::State& state, const load::Scenario& s) {
  std::int64_t steps = 0;
  for (auto _ : state) {
    const sim::RunResult result = sim::simulate(s);
    steps = result.steps_run;
    benchmark::DoNotOptimize(result.metrics.duration_s);
  }
  state.counters["steps"] = static_cast<double>(steps);
  state.counters["requests"] = static_cast<double>(s.workload.requests);
}

// 10 000 requests of 512 + 512 tokens, Llama 3.1 8B on one H100, vLLM V1.
void BM_TenThousand(benchmark::State& state) {
  run(state, scenario(chat_study(kLlama31OnH100, 512, static_cast<double>(state.range(0)), 10000)));
}
BENCHMARK(BM_TenThousand)->ArgName("req_per_s")->Arg(8)->Arg(40)->Unit(benchmark::kMillisecond);

void BM_TenThousandStepwise(benchmark::State& state) {
  load::Scenario s = scenario(chat_study(kLlama31OnH100, 512, 8, 10000));
  s.stepwise = true;
  run(state, s);
}
BENCHMARK(BM_TenThousandStepwise)->Unit(benchmark::kMillisecond);

void BM_Million(benchmark::State& state) { run(state, scenario(chat_study(kLlama31OnH100, 512, 8, 1000000))); }
BENCHMARK(BM_Million)->Unit(benchmark::kMillisecond)->Iterations(1);

// 1 000 requests of 256 + 256 tokens, Llama 2 7B on one A100-80.
void BM_Thousand(benchmark::State& state) { run(state, scenario(chat_study(kLlama2OnA100, 256, 8, 1000))); }
BENCHMARK(BM_Thousand)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll
