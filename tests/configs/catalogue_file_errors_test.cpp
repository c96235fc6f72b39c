// SPDX-License-Identifier: Apache-2.0
// Errors in catalogue files state line and column, what was found and what is allowed. Each case changes one place in a
// valid file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/catalogue.h"
#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using ::testing::StartsWith;

struct Change {
  std::string from, to, message;
};

template <class Read>
void expect_errors(const std::string& good, const Read& read, std::span<const Change> changes) {
  const auto problem = [&](const std::string& text) {
    return problem_of([&] { (void)read(Document::from_text(text, "f.yaml").root(), "it"); });
  };
  ASSERT_EQ(problem(good), "no error");
  for (const Change& change : changes) {
    std::string text = good;
    const std::size_t at = text.find(change.from);
    ASSERT_NE(at, std::string::npos) << change.from;
    text.replace(at, change.from.size(), change.to);
    EXPECT_THAT(problem(text), StartsWith(change.message)) << change.from << " -> " << change.to;
  }
}

TEST(CatalogueFileErrors, OfAnAccelerator) {
  const std::string good =
      "fp16: 312 TFLOP/s\n"
      "memory: 40 GB\n"
      "memory_bandwidth: 1555 GB/s\n"
      "efficiency:\n"
      "  gemm: {compute: 0.8, memory: 0.7, p: 2, t0: 6 us}\n"
      "  moe_gemm: {compute: 0.8, memory: 0.7, p: 2, t0: 6 us}\n"
      "  prefill_attention: {compute: 0.8, memory: 0.7, p: 2, t0: 6 us}\n"
      "  decode_attention: {compute: 0.8, memory: 0.7, p: 2, t0: 6 us}\n"
      "  pointwise: {compute: 0.8, memory: 0.7, p: 2, t0: 6 us}\n"
      "  kernel_gap: 1 us\n"
      "  source: none\n"
      "source: a datasheet\n";
  const Change changes[] = {
      {"312 TFLOP/s", "nan TFLOP/s", "f.yaml:1:7: found 'nan TFLOP/s': expected a finite number"},
      {"312 TFLOP/s", "312", "f.yaml:1:7: found '312': a unit is missing; write for example '312 TFLOP/s'"},
      {"312 TFLOP/s", "312 GB/s", "f.yaml:1:7: found '312 GB/s': unknown unit 'GB/s'; allowed: FLOP/s"},
      {"fp16: 312 TFLOP/s\n", "", "f.yaml:1:1: missing: a peak, one of fp16, bf16, fp32"},
      {"40 GB", "-40 GB", "f.yaml:2:9: found '-40 GB': must not be negative"},
      {"40 GB", "[40 GB]", "f.yaml:2:9: found a list of 1, expected a number with a unit"},
      {"memory: 40 GB\n", "", "f.yaml:1:1: key 'memory' is missing"},
      {"memory: 40", "memery: 40", "f.yaml:2:1: unknown key 'memery'; did you mean 'memory'?"},
      {"compute: 0.8", "compute: 1.2", "f.yaml:5:19: found 1.2, expected a number from 0.001 to 1"},
      {"compute: 0.8", "compute: 0", "f.yaml:5:19: found 0, expected a number from 0.001 to 1"},
      {"memory: 0.7", "memory: nan", "f.yaml:5:32: found 'nan', expected a finite number"},
      {"p: 2", "p: 0.5", "f.yaml:5:40: found 0.5, expected a number from 1 to 64"},
      {"t0: 6 us", "t0: -6 us", "f.yaml:5:47: found '-6 us': must not be negative"},
      {"gemm: {", "gemm: {one_row_memory: 2, ", "f.yaml:5:26: found 2, expected a number from 0.001 to 1"},
      {"pointwise: {", "pointwise: {one_row_memory: 0.5, ", "f.yaml:9:15: unknown key 'one_row_memory'"},
      {", t0: 6 us", "", "f.yaml:5:9: key 't0' is missing"},
      {"  pointwise: {compute: 0.8, memory: 0.7, p: 2, t0: 6 us}\n", "", "f.yaml:5:3: key 'pointwise' is missing"},
      {"source: a datasheet\n", "", "f.yaml:1:1: key 'source' is missing"},
  };
  expect_errors(good, read_accelerator, changes);
}

TEST(CatalogueFileErrors, OfAModel) {
  // 2 x 100 x 8 embeddings; 4 x 8 x 8 attention, 3 x 8 x 16 MLP and two norms per layer; a final norm: 2264 in all.
  const std::string good =
      "family: llama\n"
      "layers: 1\n"
      "hidden: 8\n"
      "heads: 2\n"
      "kv_heads: 2\n"
      "intermediate: 16\n"
      "vocab: 100\n"
      "gated_mlp: true\n"
      "norm: rmsnorm\n"
      "activation: silu\n"
      "weights_params: 2264\n"
      "source: this test\n";
  const Change changes[] = {
      {"layers: 1", "layers: 0", "f.yaml:2:9: found 0, expected a whole number from 1 to 10000"},
      {"layers: 1", "layers: 1.5", "f.yaml:2:9: found '1.5', expected a whole number"},
      {"layers: 1", "layers: nan", "f.yaml:2:9: found 'nan', expected a whole number"},
      {"hidden: 8", "hidden: 8 GB", "f.yaml:3:9: found '8 GB', expected a whole number"},
      {"heads: 2", "heads: -2", "f.yaml:4:8: found -2, expected a whole number from 1"},
      {"heads: 2", "heads: 3", "f.yaml:5:11: found 2, expected a divisor of the 3 attention heads"},
      {"heads: 2", "heads: 16", "f.yaml:4:8: found 16, expected at most hidden, 8"},
      {"vocab: 100\n", "", "f.yaml:1:1: key 'vocab' is missing"},
      {"gated_mlp: true", "gated_mlp: yes", "f.yaml:8:12: found 'yes', expected true or false"},
      {"rmsnorm", "rmsnrm", "f.yaml:9:7: found 'rmsnrm' (did you mean 'rmsnorm'?), expected one of rmsnorm, layernorm"},
      {"silu\n", "silu\nrotary_dim: 5\n", "f.yaml:11:13: found 5, expected at most head_dim, 4"},
      {"2264", "2265", "f.yaml:11:17: the shape has 2264 parameters, the file states 2265"},
      {"source", "moe: {experts: 2, experts_per_token: 3, intermediate: 4}\nsource",
       "f.yaml:12:38: more experts per token than experts"},
      {"source", "mla: {kv_lora_rank: 4}\nsource", "f.yaml:12:6: key 'qk_nope_head_dim' is missing"},
  };
  expect_errors(good, read_model, changes);
}

TEST(CatalogueFileErrors, OfAnInstance) {
  const std::string good =
      "cloud: AWS\n"
      "accelerator: a10g\n"
      "count: 4\n"
      "usd_per_hour: {\"2025-04\": 5 USD, \"2026-07\": 4 USD}\n"
      "source: a price list\n";
  const Change changes[] = {
      {"count: 4", "count: 0", "f.yaml:3:8: found 0, expected a whole number from 1"},
      {"5 USD", "5", "f.yaml:4:27: found '5': a unit is missing; write for example '5 USD'"},
      {"5 USD", "-5 USD", "f.yaml:4:27: found '-5 USD': must not be negative"},
      {"2025-04", "yesterday", "f.yaml:4:16: found 'yesterday', expected a month, as in \"2026-07\""},
      {"2025-04", "2026-08", "f.yaml:4:34: 2026-07 comes after 2026-08; expected the oldest price first"},
      {"cloud", "clowd", "f.yaml:1:1: unknown key 'clowd'; did you mean 'cloud'?"},
      {"accelerator: a10g\n", "", "f.yaml:1:1: key 'accelerator' is missing"},
  };
  expect_errors(good, read_instance, changes);
}

TEST(CatalogueFileErrors, OfAnInterconnect) {
  const std::string good =
      "kind: nvswitch\n"
      "unidirectional: 300 GB/s\n"
      "all_reduce:\n"
      "  - {ranks: 2, segments: [{latency: 10 us, bandwidth: 40 GB/s}]}\n"
      "  - {ranks: 8, segments: [{latency: 20 us, bandwidth: 70 GB/s}]}\n"
      "source: a fit\n";
  const Change changes[] = {
      {"nvswitch", "nvswich", "f.yaml:1:7: found 'nvswich' (did you mean 'nvswitch'?), expected one of none, nvswitch"},
      {"300 GB/s", "0 B/s", "f.yaml:2:17: found '0 B/s': out of range"},
      {"ranks: 8", "ranks: 2", "f.yaml:5:13: found 2 after 2, expected curves by growing ranks"},
      {"ranks: 2", "ranks: 1", "f.yaml:4:13: found 1, expected a whole number from 2"},
      {"latency: 10 us", "latency: -1 us", "f.yaml:4:37: found '-1 us': must not be negative"},
      {"[{latency: 10 us, bandwidth: 40 GB/s}]", "[]", "f.yaml:4:26: an all-reduce curve needs at least one segment"},
      {"unidirectional: 300 GB/s\n", "", "f.yaml:1:1: key 'unidirectional' is missing"},
  };
  expect_errors(good, read_interconnect, changes);
}

TEST(CatalogueFileErrors, OfAnEngine) {
  const std::string good =
      "host: {layer: 410 us, overlap: p_norm, overlap_exponent: 3}\n"
      "kernels: {compute_scale: 0.5}\n"
      "memory: {fraction: 0.9, overhead: 500 MB}\n"
      "scheduler: {policy: tgi}\n"
      "scheduler_when_memory_at_least: {memory: 70 GiB, except: [a100], scheduler: {max_running: 1024}}\n"
      "calibrated: false\n"
      "calibrated_on: nothing\n";
  const Change changes[] = {
      {"410 us", "410", "f.yaml:1:15: found '410': a unit is missing"},
      {"p_norm", "max", "f.yaml:1:32: found 'max', expected one of none, p_norm, full"},
      {"exponent: 3", "exponent: 0", "f.yaml:1:58: found 0, expected a number from 1 to 64"},
      {"compute_scale: 0.5", "compute_scale: -1", "f.yaml:2:26: found -1, expected a number from 0.01 to 10"},
      {"fraction: 0.9", "fraction: 1.1", "f.yaml:3:20: found 1.1, expected a number from 0.01 to 1"},
      {"{policy: tgi}", "tgi", "f.yaml:4:12: found 'tgi', expected a map"},
      {"memory: 70 GiB, ", "", "f.yaml:5:33: key 'memory' is missing"},
      {"calibrated_on: nothing\n", "", "f.yaml:1:1: key 'calibrated_on' is missing"},
  };
  expect_errors(good, read_engine, changes);
}

}  // namespace
}  // namespace plimsoll::configs
