// SPDX-License-Identifier: Apache-2.0
// The numbers to fit for each engine. Their priors state what is known before any serving data, and how well.
// docs/calibrate.md explains the choice of numbers.
#include <algorithm>

#include "calibration/serving_fit.h"
#include "model/error.h"

namespace plimsoll::calibration {
namespace {

// What is known about a number before any serving data: see FitNumber.
struct Prior {
  double value, spread, low = 0, high = 0;
};

ServingNumber number(const std::string& file, const std::string& path, const std::string& unit, const Prior& prior) {
  return {{file.substr(file.find('/') + 1) + " " + path, prior.value, prior.spread, prior.low, prior.high},
          file,
          path,
          unit};
}

// Python launches every kernel separately and decodes every token to text before the next step; each step is a call
// from the router. Priors: 40 us per PyTorch launch, 100 us to sample and detokenize, 1.5 ms per call. One thread block
// of a paged attention kernel reads at about 4.5 GB/s. PCIe performs as between L40S. A matrix-vector product reads at
// 0.82 of the bandwidth.
ServingModel tgi() {
  const std::string engine = "engines/tgi-1.1", a10g = "accelerators/a10g", link = "interconnects/pcie-g5";
  ServingModel m;
  m.engine = "tgi-1.1";
  m.numbers = {number(engine, "host.op", "us", {40, 0.5}),
               number(engine, "host.step", "ms", {1.5, 0.7}),
               number(engine, "host.sequence", "us", {100, 0.7}),
               number(engine, "host.prompt_rank", "us", {5, 1}),
               number(engine, "host.rank_growth", "", {0.04, 0.7}),
               number(engine, "host.rank_growth_by_accelerator.a10g", "", {0.04, 0.7}),
               number(engine, "host.overlap_exponent", "", {5, 0.5, 1.5, 16}),
               number(engine, "kernels.attention_stream", "GB/s", {4.5, 0.5}),
               number(a10g, "efficiency.gemm.memory", "", {0.82, 0.1, 0.4, 0.95}),
               number(link, "ranks 4", "GB/s", {3.5, 0.5}),
               number(link, "ranks 8", "GB/s", {0.94, 0.5})};
  m.scanned = number(engine, "memory.overhead", "GB", {2.9, 0.5});
  m.scan = {2.1, 2.3, 2.5, 2.7, 2.9, 3.1, 3.3, 3.5};
  m.scales = {{"latency_per_token_p90_s", 0.08}, {"output_tokens_per_s", 0.08}};
  m.tables = {"jumpstart-by-instance", "jumpstart-by-tp", "jumpstart-by-instance-count"};
  m.accelerator_note =
      "fitted here: gemm memory; the other efficiencies are generic, gemm compute and p those of tensor cores "
      "that accumulate in FP32 at half rate and are therefore the only limit of a product";
  m.link_note =
      "fitted here: the bandwidth of large all-reduces at 4 and 8 ranks; latencies and the shape are those of NCCL "
      "2.27.3 between L40S on PCIe 4 (ai-dynamo/aiconfigurator, Apache-2.0), two ranks as much faster than four as "
      "there";
  return m;
}

// Servers of 2025. Decode steps replay CUDA graphs, and the scheduler prepares the next step while the device works.
// The remaining host time is a constant per step, a little per sequence, and more per prompt. Kernel times come from
// the accelerator's tables, measured with one server; another server's kernels differ by a factor. The priors are the
// values of the profiles before any data.
struct Priors {
  double step_ms, sequence_us, prefill_ms, front_end_ms;
};

void add_common(ServingModel& m, const Priors& priors) {
  const std::string engine = "engines/" + m.engine;
  m.numbers = {number(engine, "host.prefill", "ms", {priors.prefill_ms, 0.7}),
               number(engine, "host.rank_growth", "", {0.04, 0.7}),
               number(engine, "kernels.compute_scale", "", {1, 0.15, 0.4, 1.6}),
               number(engine, "kernels.memory_scale", "", {1, 0.15, 0.4, 1.6})};
  m.scales = {{"ttft_mean_s", 0.15}, {"tpot_mean_s", 0.05}};
}

// Runs without a front end determine the engine's own times.
ServingModel without_front_end(const std::string& id, const Priors& priors) {
  ServingModel m;
  m.engine = id;
  add_common(m, priors);
  const std::string engine = "engines/" + id;
  m.numbers.push_back(number(engine, "host.step", "ms", {priors.step_ms, 0.7}));
  m.numbers.push_back(number(engine, "host.sequence", "us", {priors.sequence_us, 0.7}));
  m.numbers.push_back(number(engine, "host.front_end", "ms", {priors.front_end_ms, 0.7}));
  m.tables = {"serving-h200-b200"};
  return m;
}

// Runs behind Dynamo determine what Dynamo adds to the times of the version that was measured without it. Its front end
// takes the place of the engine's own server.
ServingModel behind_dynamo(const std::string& id, const std::string& other, const Priors& priors) {
  ServingModel m;
  m.engine = id;
  m.other_version = other;
  m.taken = {"host.step", "host.sequence", "host.front_end", "host.intake"};
  add_common(m, priors);
  const std::string engine = "engines/" + id;
  m.numbers.push_back(number(engine, "front_ends.dynamo.front_end", "ms", {20, 1}));
  m.numbers.push_back(number(engine, "front_ends.dynamo.step", "ms", {0.5, 1}));
  m.numbers.push_back(number(engine, "front_ends.dynamo.sequence", "us", {10, 1}));
  m.tables = {"serving-h100"};
  return m;
}

// 4-bit products run in kernels of another library than the measured ones. Steps with prompts launch their kernels one
// by one; with short prompts on many GPUs this time is not hidden. Its prior lies between compiled code and PyTorch.
ServingModel vllm_0_10() {
  ServingModel m = without_front_end("vllm-0.10", {1, 30, 0.2, 30});
  m.other_version = "vllm-0.12";
  m.numbers.push_back(number("engines/vllm-0.10", "host.op", "us", {20, 1}));
  m.numbers.push_back(number("engines/vllm-0.10", "kernels.products.nvfp4.memory_scale", "", {1, 0.3, 0.2, 1.6}));
  return m;
}

ServingModel trtllm_1_1() {
  ServingModel m = without_front_end("trtllm-1.1", {0.3, 12, 0.1, 20});
  m.other_version = "trtllm-1.0";
  m.numbers.push_back(number("engines/trtllm-1.1", "kernels.fused_quantisation", "us", {4, 0.5}));
  m.numbers.push_back(number("engines/trtllm-1.1", "kernels.products.nvfp4.memory_scale", "", {1, 0.3, 0.2, 1.6}));
  return m;
}

// Dynamo passes requests to this engine one at a time, in the process that also sends out its tokens. The other servers
// have no such queue. Priors: parsing, tokenizing and handing over about a thousand tokens; a message per token in
// Python. The tables of 8- and 4-bit products are those of a later version.
ServingModel trtllm_1_0() {
  ServingModel m = behind_dynamo("trtllm-1.0", "trtllm-1.1", {0.3, 12, 0.1, 20});
  m.tables = {"serving-h100", "trtllm-max-throughput"};
  m.scales.emplace("output_tokens_per_s", 0.05);
  const std::string engine = "engines/trtllm-1.0";
  m.numbers.push_back(number(engine, "front_ends.dynamo.intake", "ms", {5, 1}));
  m.numbers.push_back(number(engine, "front_ends.dynamo.stream", "us", {100, 1}));
  m.numbers.push_back(number(engine, "kernels.fused_quantisation", "us", {4, 0.5}));
  m.numbers.push_back(number(engine, "kernels.products.nvfp4.memory_scale", "", {1, 0.3, 0.2, 1.6}));
  m.numbers.push_back(number(engine, "kernels.products.fp8.compute_scale", "", {1, 0.15, 0.4, 1.6}));
  return m;
}

// One profile for all versions: those on H100 ran behind Dynamo, those on H200 did not. From about 15 000 tokens a
// second, first tokens wait for the one process that detokenizes and streams in Python.
ServingModel sglang_0_5() {
  ServingModel m = without_front_end("sglang-0.5", {1, 5, 0.2, 20});
  m.tables = {"serving-h100", "serving-h200-b200"};
  m.numbers.push_back(number("engines/sglang-0.5", "host.stream", "us", {50, 1}));
  m.numbers.push_back(number("engines/sglang-0.5", "front_ends.dynamo.front_end", "ms", {80, 0.7}));
  return m;
}

}  // namespace

const std::vector<ServingModel>& serving_models() {
  static const std::vector<ServingModel> kModels = {
      tgi(),        vllm_0_10(),  behind_dynamo("vllm-0.12", "vllm-0.10", {1, 30, 0.2, 30}),
      sglang_0_5(), trtllm_1_0(), trtllm_1_1()};
  return kModels;
}

const ServingModel& serving_model(const std::string& engine) {
  std::string names;
  for (const ServingModel& m : serving_models()) {
    if (m.engine == configs::canonical_name(engine)) return m;
    names += (names.empty() ? "" : ", ") + m.engine;
  }
  throw InputError("no serving data for the engine '" + engine + "'; there are some for " + names);
}

std::vector<validation::MeasuredTable> serving_tables(const ServingModel& model) {
  if (model.tables.front().starts_with("jumpstart")) return validation::jumpstart_tables();
  std::vector<validation::MeasuredTable> tables;
  for (const std::string& name : model.tables)
    tables.push_back(validation::read_measured(validation::published_folder() + "/" + name + ".csv"));
  return tables;
}

bool holds_table(const std::vector<validation::MeasuredTable>& tables, const std::string& name) {
  return std::any_of(tables.begin(), tables.end(),
                     [&](const validation::MeasuredTable& table) { return table.name == name; });
}

std::vector<validation::MeasuredTable> with_fitted_tables(const std::vector<validation::MeasuredTable>& given,
                                                          const ServingModel& model) {
  std::vector<validation::MeasuredTable> tables = given;
  for (validation::MeasuredTable& table : serving_tables(model)) {
    const bool fitted = std::find(model.tables.begin(), model.tables.end(), table.name) != model.tables.end();
    if (fitted && !holds_table(given, table.name)) tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace plimsoll::calibration
