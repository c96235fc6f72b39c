// SPDX-License-Identifier: Apache-2.0
// Reads model shapes from the catalogue's files (configs/README.md).
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "configs/catalogue.h"
#include "configs/hf_families.h"

namespace plimsoll::configs {

namespace {

constexpr std::array<std::string_view, 10> kNeeded{"family",       "layers", "hidden", "heads",      "kv_heads",
                                                   "intermediate", "vocab",  "norm",   "activation", "source"};
constexpr std::array<std::string_view, 33> kModelKeys{"name",
                                                      "aliases",
                                                      "hf_id",
                                                      "family",
                                                      "layers",
                                                      "hidden",
                                                      "heads",
                                                      "kv_heads",
                                                      "head_dim",
                                                      "intermediate",
                                                      "vocab",
                                                      "max_position",
                                                      "gated_mlp",
                                                      "parallel_attention",
                                                      "qkv_bias",
                                                      "qk_norm",
                                                      "tie_embeddings",
                                                      "learned_positions",
                                                      "norm",
                                                      "activation",
                                                      "rope_base",
                                                      "rotary_dim",
                                                      "sliding_window",
                                                      "window_period",
                                                      "moe",
                                                      "mla",
                                                      "weights_params",
                                                      "active_params",
                                                      "note",
                                                      "source",
                                                      "global_every",
                                                      "chunked",
                                                      "checkpoint"};

std::int32_t count(const Node& node, std::string_view key, std::int64_t max = kWidth.max) {
  return static_cast<std::int32_t>(node.at(key).as_integer(1, max));
}
std::int32_t count_or(const Node& node, std::string_view key, std::int32_t fallback) {
  const auto found = node.find(key);
  return !found || found->is_null() ? fallback : static_cast<std::int32_t>(found->as_integer(0, 1'000'000'000));
}
bool flag(const Node& node, std::string_view key) {
  const auto found = node.find(key);
  return found && found->as_bool();
}

model::MoeShape read_moe(const Node& node) {
  static constexpr std::array<std::string_view, 8> kKeys = {
      "experts", "experts_per_token",   "shared_experts", "intermediate", "first_dense_layers",
      "period",  "shared_intermediate", "shared_gate"};
  node.require_known_keys(kKeys);
  model::MoeShape moe;
  moe.experts = count(node, "experts", kHeads.max);
  moe.experts_per_token = count(node, "experts_per_token", kHeads.max);
  moe.shared_experts = count_or(node, "shared_experts", 0);
  moe.intermediate = count(node, "intermediate");
  moe.first_dense_layers = count_or(node, "first_dense_layers", 0);
  moe.period = std::max(1, count_or(node, "period", 1));
  moe.shared_intermediate = count_or(node, "shared_intermediate", 0);
  moe.shared_gate = flag(node, "shared_gate");
  if (moe.experts_per_token > moe.experts) node.at("experts_per_token").fail("more experts per token than experts");
  return moe;
}

model::MlaShape read_mla(const Node& node) {
  static constexpr std::array<std::string_view, 5> kKeys = {"q_lora_rank", "kv_lora_rank", "qk_nope_head_dim",
                                                            "qk_rope_head_dim", "v_head_dim"};
  node.require_known_keys(kKeys);
  return {count_or(node, "q_lora_rank", 0), count(node, "kv_lora_rank"), count(node, "qk_nope_head_dim"),
          count(node, "qk_rope_head_dim"), count(node, "v_head_dim")};
}

model::Checkpoint read_checkpoint(const Node& node) {
  static constexpr std::array<std::string_view, 5> kKeys = {"dtype", "kv_dtype", "format", "keeps_16_bits",
                                                            "scale_bytes"};
  node.require_known_keys(kKeys);
  model::Checkpoint checkpoint;
  checkpoint.dtype = node.at("dtype").as_dtype();
  checkpoint.format = node.has("format") ? node.at("format").as_string() : model::name(checkpoint.dtype);
  if (const auto kv = node.find("kv_dtype")) checkpoint.kv_dtype = kv->as_dtype();
  if (const auto scales = node.find("scale_bytes")) checkpoint.scale_bytes = scales->as_number(0, 4);
  if (const auto wide = node.find("keeps_16_bits"))
    for (const Item& matrix : wide->items()) checkpoint.wide.push_back(matrix.value.as_string());
  return checkpoint;
}

// Every `period`-th layer attends globally, the others attend within the window.
void read_global_layers(const Node& root, model::LlmShape& m) {
  const auto node = root.find("global_every");
  if (!node) return;
  const auto period = static_cast<std::int32_t>(node->as_integer(2, kLayers.max));
  if (m.sliding_window == 0 || root.has("window_period"))
    node->fail("requires sliding_window and excludes window_period");
  for (std::int32_t layer = 0; layer < m.layers; ++layer) m.windows.push_back((layer + 1) % period != 0 ? 1 : 0);
}

void read_flags(const Node& root, model::LlmShape& m) {
  static constexpr std::array<std::string_view, 2> kNorms = {"rmsnorm", "layernorm"};
  m.gated_mlp = flag(root, "gated_mlp");
  m.parallel_attention = flag(root, "parallel_attention");
  m.qkv_bias = flag(root, "qkv_bias");
  m.qk_norm = flag(root, "qk_norm");
  m.tie_embeddings = flag(root, "tie_embeddings");
  m.learned_positions = flag(root, "learned_positions");
  m.norm = static_cast<model::Norm>(root.at("norm").as_one_of(kNorms));
  m.activation = root.at("activation").as_string();
}

// The file also states the totals of the shape, so that a mistyped digit is detected.
void check_sum(const Node& root, std::string_view key, double counted) {
  const auto stated = root.find(key);
  if (!stated) return;
  const double expected = stated->as_number(1, 1e15);
  if (std::abs(counted - expected) > 0.5)
    stated->fail(
        fmt::format("the shape has {} parameters, the file states {}", number_text(counted), number_text(expected)));
}

void check_consistency(const Node& root, const model::LlmShape& m) {
  if (m.heads % m.kv_heads != 0)
    root.at("kv_heads")
        .fail(fmt::format("found {}, expected a divisor of the {} attention heads", m.kv_heads, m.heads));
  if (m.head_dim < 1) root.at("heads").fail(fmt::format("found {}, expected at most hidden, {}", m.heads, m.hidden));
  if (m.rotary_dim > m.head_dim)
    root.at("rotary_dim").fail(fmt::format("found {}, expected at most head_dim, {}", m.rotary_dim, m.head_dim));
  if (m.moe && m.moe->first_dense_layers > m.layers) root.at("moe").fail("more dense layers than layers");
  check_sum(root, "weights_params", model::weight_count(m));
  check_sum(root, "active_params", model::active_weight_count(m));
}

}  // namespace

model::LlmShape read_model(const Node& root, const std::string& id) {
  root.require_known_keys(kModelKeys);
  root.require_keys(kNeeded);
  model::LlmShape m;
  m.id = id;
  if (const auto hf_id = root.find("hf_id")) m.hf_id = hf_id->as_string();
  m.family = root.at("family").as_string();
  m.layers = count(root, "layers", kLayers.max);
  m.hidden = count(root, "hidden");
  m.heads = count(root, "heads", kHeads.max);
  m.kv_heads = count(root, "kv_heads", kHeads.max);
  m.head_dim = count_or(root, "head_dim", m.hidden / m.heads);
  m.intermediate = count(root, "intermediate");
  m.vocab = count(root, "vocab", kVocabulary.max);
  m.max_position = count_or(root, "max_position", 0);
  read_flags(root, m);
  if (const auto base = root.find("rope_base")) m.rope_base = base->as_number(0, 1e12);
  m.rotary_dim = count_or(root, "rotary_dim", 0);
  m.sliding_window = count_or(root, "sliding_window", 0);
  m.window_period = std::max(1, count_or(root, "window_period", 1));
  read_global_layers(root, m);
  m.chunked = flag(root, "chunked");
  if (const auto checkpoint = root.find("checkpoint")) m.checkpoint = read_checkpoint(*checkpoint);
  if (const auto moe = root.find("moe")) m.moe = read_moe(*moe);
  if (const auto mla = root.find("mla")) m.mla = read_mla(*mla);
  m.source = root.at("source").as_string();
  check_consistency(root, m);
  return m;
}

}  // namespace plimsoll::configs
