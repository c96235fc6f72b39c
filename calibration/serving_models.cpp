// SPDX-License-Identifier: Apache-2.0
// The numbers to fit for each engine, with priors: values known before any serving data, and how well.
// docs/calibrate.md explains the choice of numbers.
#include <algorithm>

#include "calibration/serving_fit.h"
#include "model/error.h"

namespace plimsoll::calibration {
namespace {

ServingNumber number(const std::string& file, const std::string& path, const std::string& unit, double prior,
                     double spread, double low = 0, double high = 0) {
  return {{file.substr(file.find('/') + 1) + " " + path, prior, spread, low, high}, file, path, unit};
}

// Python launches every kernel separately and decodes every token to text before the next step; each step is a call
// from the router. Priors: 40 us per PyTorch launch, 100 us to sample and detokenize, 1.5 ms per call. One thread block
// of a paged attention kernel reads about 4.5 GB/s. PCIe as between L40S. A matrix-vector product reads at 0.82 of the
// bandwidth.
ServingModel tgi() {
  const std::string engine = "engines/tgi-1.1", a10g = "accelerators/a10g", link = "interconnects/pcie-g5";
  ServingModel m;
  m.engine = "tgi-1.1";
  m.data = "jumpstart";
  m.numbers = {number(engine, "host.op", "us", 40, 0.5),
               number(engine, "host.step", "ms", 1.5, 0.7),
               number(engine, "host.sequence", "us", 100, 0.7),
               number(engine, "host.prompt_rank", "us", 5, 1),
               number(engine, "host.rank_growth", "", 0.04, 0.7),
               number(engine, "host.overlap_exponent", "", 5, 0.5, 1.5, 16),
               number(engine, "kernels.attention_stream", "GB/s", 4.5, 0.5),
               number(a10g, "efficiency.gemm.memory", "", 0.82, 0.1, 0.4, 0.95),
               number(link, "ranks 4", "GB/s", 3.5, 0.5),
               number(link, "ranks 8", "GB/s", 0.94, 0.5)};
  m.scanned = number(engine, "memory.overhead", "GB", 2.9, 0.5);
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

// Servers of 2025 on H100. Decode steps replay CUDA graphs, and the scheduler prepares the next step while the device
// works. The remaining host time is a constant per step, a little per sequence, and more per prompt. Kernels come from
// the accelerator's tables, measured with one server; those of another differ by a factor. Priors are those of the
// profiles before any data.
ServingModel on_h100(const std::string& id, double step_ms, double sequence_us, double prefill_ms,
                     double front_end_ms) {
  const std::string engine = "engines/" + id;
  ServingModel m;
  m.engine = id;
  // vLLM and TensorRT-LLM take as long without Dynamo (serving-h200-b200): the time is the engine's own.
  const bool own = id != "sglang-0.5";
  m.data = "h100";
  m.numbers = {number(engine, "host.step", "ms", step_ms, 0.7),
               number(engine, "host.sequence", "us", sequence_us, 0.7),
               number(engine, "host.prefill", "ms", prefill_ms, 0.7),
               number(engine, own ? "host.front_end" : "front_ends.dynamo.delay", "ms", front_end_ms, 0.7),
               number(engine, "host.rank_growth", "", 0.04, 0.7),
               number(engine, "kernels.compute_scale", "", 1, 0.15, 0.4, 1.6),
               number(engine, "kernels.memory_scale", "", 1, 0.15, 0.4, 1.6)};
  m.scales = {{"ttft_mean_s", 0.15}, {"tpot_mean_s", 0.05}};
  m.tables = {"serving-h100"};
  // Its front end (Dynamo's) admits one request at a time; the other servers show no such queue. Prior: parsing,
  // tokenizing and handing over about a thousand tokens.
  if (id == "trtllm-1.0") m.numbers.push_back(number(engine, "front_ends.dynamo.intake", "ms", 5, 1));
  return m;
}

}  // namespace

const std::vector<ServingModel>& serving_models() {
  static const std::vector<ServingModel> kModels = {tgi(), on_h100("vllm-0.12", 1, 30, 0.2, 30),
                                                    on_h100("sglang-0.5", 1, 5, 0.2, 60),
                                                    on_h100("trtllm-1.0", 0.3, 12, 0.1, 20)};
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
  if (model.data == "jumpstart") return validation::jumpstart_tables();
  return {validation::read_measured(validation::published_folder() + "/serving-" + model.data + ".csv")};
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
