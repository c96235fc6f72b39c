// SPDX-License-Identifier: Apache-2.0
#include "tests/model/shapes.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace plimsoll::model {
namespace {

struct Sizes {
  std::int32_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocab;
};

LlmShape dense(const char* id, const char* family, const Sizes& sizes) {
  LlmShape s;
  s.id = id;
  s.family = family;
  s.layers = sizes.layers;
  s.hidden = sizes.hidden;
  s.heads = sizes.heads;
  s.kv_heads = sizes.kv_heads;
  s.head_dim = sizes.head_dim;
  s.intermediate = sizes.intermediate;
  s.vocab = sizes.vocab;
  s.max_position = 4096;
  return s;
}

template <class Change>
LlmShape changed(LlmShape shape, Change change) {
  change(shape);
  return shape;
}

LlmShape falcon(LlmShape shape) {
  shape.gated_mlp = false;
  shape.parallel_attention = true;
  shape.tie_embeddings = true;
  shape.norm = Norm::layernorm;
  return shape;
}

LlmShape opt_13b() {
  LlmShape s = dense("opt-13b", "opt", {40, 5120, 40, 40, 128, 20480, 50272});
  s.gated_mlp = false;
  s.norm = Norm::layernorm;
  s.qkv_bias = s.tie_embeddings = s.learned_positions = true;
  s.max_position = 2048;
  return s;
}

LlmShape gpt_j() {
  LlmShape s = dense("gpt-j-6b", "gptj", {28, 4096, 16, 16, 256, 16384, 50400});
  s.gated_mlp = false;
  s.norm = Norm::layernorm;
  s.parallel_attention = true;
  return s;
}

LlmShape deepseek_v3() {
  LlmShape s = dense("deepseek-v3", "deepseek_v3", {61, 7168, 128, 128, 0, 18432, 129280});
  s.mla = MlaShape{1536, 512, 128, 64, 128};
  s.moe = MoeShape{256, 8, 1, 2048, 3};
  return s;
}

LlmShape deepseek_v2_lite() {
  LlmShape s = dense("deepseek-v2-lite", "deepseek_v2", {27, 2048, 16, 16, 0, 10944, 102400});
  s.mla = MlaShape{0, 512, 128, 64, 128};
  s.moe = MoeShape{64, 6, 2, 1408, 1};
  return s;
}

std::vector<PublishedShape> make_shapes() {
  return {
      {dense("llama-2-7b", "llama", {32, 4096, 32, 32, 128, 11008, 32000}), 6738415616., 6738415616., 524288},
      {dense("llama-2-70b", "llama", {80, 8192, 64, 8, 128, 28672, 32000}), 68976648192., 68976648192., 327680},
      {dense("llama-3.1-8b", "llama", {32, 4096, 32, 8, 128, 14336, 128256}), 8030261248., 8030261248., 131072},
      {changed(dense("mistral-7b", "mistral", {32, 4096, 32, 8, 128, 14336, 32000}),
               [](LlmShape& s) { s.sliding_window = 4096; }),
       7241732096., 7241732096., 131072},
      {changed(dense("qwen2.5-7b", "qwen2", {28, 3584, 28, 4, 128, 18944, 152064}),
               [](LlmShape& s) { s.qkv_bias = true; }),
       7615616512., 7615616512., 57344},
      {changed(dense("qwen3-8b", "qwen3", {36, 4096, 32, 8, 128, 12288, 151936}),
               [](LlmShape& s) { s.qk_norm = true; }),
       8190735360., 8190735360., 147456},
      {changed(dense("gemma-2-9b", "gemma2", {42, 3584, 16, 8, 256, 14336, 256000}),
               [](LlmShape& s) {
                 s.tie_embeddings = true;
                 s.sliding_window = 4096;
                 s.window_period = 2;
               }),
       9241705984., 9241705984., 344064},
      {dense("phi-4", "phi3", {40, 5120, 40, 10, 128, 17920, 100352}), 14659507200., 14659507200., 204800},
      {falcon(dense("falcon-7b", "falcon", {32, 4544, 71, 1, 64, 18176, 65024})), 6921720704., 6921720704., 8192},
      {falcon(dense("falcon-40b", "falcon", {60, 8192, 128, 8, 64, 32768, 65024})), 41303293952., 41303293952., 122880},
      {opt_13b(), 12853473280., 12853473280., 819200},
      {gpt_j(), 6050882784., 6050882784., 458752},
      {changed(dense("mixtral-8x7b", "mixtral", {32, 4096, 32, 8, 128, 14336, 32000}),
               [](LlmShape& s) {
                 s.moe = MoeShape{8, 2, 0, 14336, 0};
               }),
       46702792704., 12879925248., 131072},
      {changed(dense("qwen3-30b-a3b", "qwen3", {48, 2048, 32, 4, 128, 6144, 151936}),
               [](LlmShape& s) {
                 s.qk_norm = true;
                 s.moe = MoeShape{128, 8, 0, 768, 0};
               }),
       30532122624., 3353032704., 98304},
      {deepseek_v3(), 671026404352., 37552282624., 70272},
      {deepseek_v2_lite(), 15706484224., 2661150208., 31104},
  };
}

}  // namespace

const std::vector<PublishedShape>& published_shapes() {
  static const std::vector<PublishedShape> shapes = make_shapes();
  return shapes;
}

const LlmShape& shape_named(const std::string& id) {
  for (const PublishedShape& published : published_shapes()) {
    if (published.shape.id == id) return published.shape;
  }
  PLIMSOLL_CHECK(false, "no such shape in the tests");
}

Accelerator a10g() {
  Accelerator a;
  a.id = "a10g";
  a.fp16 = a.bf16 = FlopsPerSecond(70e12);
  a.memory = Bytes(24.0e9);
  a.memory_visible = Bytes(24146608128.);
  a.memory_bandwidth = BytesPerSecond(600e9);
  a.last_level_cache = Bytes(6291456.);
  return a;
}

Accelerator a100_40() {
  Accelerator a;
  a.id = "a100-sxm-40gb";
  a.fp16 = a.bf16 = FlopsPerSecond(312e12);
  a.int8 = FlopsPerSecond(624e12);
  a.memory = Bytes(40e9);
  a.memory_visible = Bytes(42505076736.);
  a.memory_bandwidth = BytesPerSecond(1555e9);
  a.last_level_cache = Bytes(41943040.);
  return a;
}

Accelerator with_efficiencies(Accelerator accelerator) {
  for (OpCoefficients& c : accelerator.coefficients) c = {0.8, 0.8, 3, Seconds(5e-6), nullptr};
  accelerator.kernel_gap = Seconds(1e-6);
  return accelerator;
}

Accelerator with_decode_residual(Accelerator accelerator) {
  ResidualTable table;
  table.x = {0, 3, 6};
  table.y = {7, 9, 11, 13};
  for (const double x : table.x) {
    for (const double y : table.y) table.log_ratio.push_back(0.4 - 0.03 * x - 0.02 * y + 0.05 * std::sin(x + y));
  }
  OpCoefficients& c = accelerator.coefficients[static_cast<std::size_t>(OpClass::decode_attention)];
  c.residual = std::make_shared<const ResidualTable>(std::move(table));
  return accelerator;
}

Interconnect nvswitch_a100() {
  Interconnect link;
  link.id = "nvswitch-a100";
  link.kind = LinkKind::nvswitch;
  link.unidirectional = BytesPerSecond(300e9);
  return link;
}

Interconnect pcie_gen4() {
  Interconnect link;
  link.id = "pcie-gen4";
  link.kind = LinkKind::pcie;
  link.unidirectional = BytesPerSecond(32e9);
  return link;
}

EngineProfile ideal_engine() {
  EngineProfile engine;
  engine.id = "ideal";
  return engine;
}

EngineProfile tgi_like_engine() {
  EngineProfile engine;
  engine.id = "tgi-like";
  engine.host_step = Seconds(1e-3);
  engine.host_layer = Seconds(400e-6);
  engine.host_layer_tp = Seconds(150e-6);
  engine.host_sequence = Seconds(150e-6);
  engine.host_prefill = Seconds(10e-3);
  return engine;
}

ForwardWork decode_work(const LlmShape& shape, std::int64_t rows, double mean_context) {
  ForwardWork work;
  work.decode_rows = work.sampled = rows;
  work.decode_context = static_cast<double>(rows) * mean_context;
  const double window = shape.sliding_window > 0 ? shape.sliding_window : mean_context;
  work.decode_context_windowed = static_cast<double>(rows) * std::min(mean_context, window);
  return work;
}

}  // namespace plimsoll::model
