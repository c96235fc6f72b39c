// SPDX-License-Identifier: Apache-2.0
#include "configs/hf_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <regex>
#include <string_view>
#include <utility>

#include "model/tp_layout.h"

namespace plimsoll::configs {
namespace {

using model::OpId;

// The modules of a layer that make up a matrix, in the spellings of the supported families.
struct Modules {
  OpId matrix;
  std::vector<std::string_view> names;
};

const std::vector<Modules>& modules() {
  static const std::vector<Modules> kModules = {
      {OpId::qkv, {"self_attn.q_proj", "self_attn.qkv_proj", "self_attention.query_key_value", "attn.q_proj"}},
      {OpId::attention_out, {"self_attn.o_proj", "self_attn.out_proj", "self_attention.dense", "attn.out_proj"}},
      {OpId::q_down, {"self_attn.q_a_proj"}},
      {OpId::q_up, {"self_attn.q_b_proj"}},
      {OpId::q, {"self_attn.q_proj"}},
      {OpId::kv_down, {"self_attn.kv_a_proj_with_mqa"}},
      {OpId::kv_up, {"self_attn.kv_b_proj"}},
      {OpId::gate_up, {"mlp.gate_proj", "mlp.up_proj", "mlp.gate_up_proj", "feed_forward.gate_proj"}},
      {OpId::up, {"mlp.up_proj", "mlp.dense_h_to_4h", "mlp.fc_in", "fc1"}},
      {OpId::down, {"mlp.down_proj", "feed_forward.down_proj", "mlp.dense_4h_to_h", "mlp.fc_out", "fc2"}},
      {OpId::shared_gate_up,
       {"mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj", "feed_forward.shared_expert.gate_proj"}},
      {OpId::shared_down,
       {"mlp.shared_experts.down_proj", "mlp.shared_expert.down_proj", "feed_forward.shared_expert.down_proj"}},
      {OpId::expert_gate_up,
       {"mlp.experts.0.gate_proj", "mlp.experts.gate_up_proj", "block_sparse_moe.experts.0.w1",
        "feed_forward.experts.gate_up_proj", "feed_forward.experts.0.gate_proj"}},
      {OpId::expert_down,
       {"mlp.experts.0.down_proj", "mlp.experts.down_proj", "block_sparse_moe.experts.0.w2",
        "feed_forward.experts.down_proj", "feed_forward.experts.0.down_proj"}}};
  return kModules;
}

constexpr std::array<std::string_view, 4> kPrefixes = {"model.", "language_model.model.", "model.language_model.",
                                                       "transformer."};

// Finds "a.b" in "x.a.b.c". Matches whole words only, so "gate" does not match "gate_proj".
bool holds_words(std::string_view name, std::string_view words) {
  for (std::size_t at = name.find(words); at != std::string_view::npos; at = name.find(words, at + 1)) {
    const std::size_t end = at + words.size();
    if ((at == 0 || name[at - 1] == '.') && (end == name.size() || name[end] == '.')) return true;
  }
  return false;
}

// Backtracks by one step only: after a mismatch the last star takes one more character, so the time is never
// exponential.
bool glob_matches(std::string_view text, std::string_view glob) {
  std::size_t t = 0, g = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (g < glob.size() && (glob[g] == text[t] || glob[g] == '?')) {
      ++t;
      ++g;
    } else if (g < glob.size() && glob[g] == '*') {
      star = g++;
      mark = t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

// A glob matches a module and everything inside it.
bool glob_holds(const std::string& name, std::string_view glob) {
  for (std::size_t end = name.find('.'); end != std::string::npos; end = name.find('.', end + 1))
    if (glob_matches(std::string_view(name).substr(0, end), glob)) return true;
  return glob_matches(name, glob);
}

// Returns the layer number in "…layers.12.…" and the text that follows.
std::optional<std::pair<std::int32_t, std::string>> layer_of(std::string_view pattern) {
  constexpr std::string_view kLayers = "layers.";
  const std::size_t at = pattern.find(kLayers);
  if (at == std::string_view::npos || (at > 0 && pattern[at - 1] != '.')) return {};
  std::size_t end = at + kLayers.size();
  std::int32_t number = 0;
  const std::size_t digits = end;
  for (; end < pattern.size() && pattern[end] >= '0' && pattern[end] <= '9' && number < 100'000; ++end)
    number = number * 10 + (pattern[end] - '0');
  if (end == digits || (end < pattern.size() && pattern[end] != '.')) return {};
  return std::pair(number, std::string(pattern.substr(std::min(end + 1, pattern.size()))));
}

/// Keeps patterns by layer, so that those of one layer are found without a search.
class Matcher {
 public:
  Matcher(const ModulePatterns& patterns, std::int32_t layers) : own_(static_cast<std::size_t>(layers)) {
    for (const std::string& pattern : patterns) {
      if (pattern.starts_with("re:")) {
        expressions_.emplace_back(pattern.substr(3));
      } else if (auto layer = layer_of(pattern)) {
        if (layer->first < layers) own_[static_cast<std::size_t>(layer->first)].push_back(std::move(layer->second));
      } else {
        const std::size_t at = pattern.find("layers.");
        // Remove the names of wrappers before "layers.".
        any_.push_back(at == std::string::npos ? pattern : pattern.substr(at));
      }
    }
  }

  [[nodiscard]] bool means(std::int32_t layer, std::string_view module) const {
    for (const std::string& rest : own_[static_cast<std::size_t>(layer)])
      if (rest.empty() || fits(std::string(module), rest)) return true;
    const std::string name = fmt::format("layers.{}.{}", layer, module);
    for (const std::string& pattern : any_)
      if (fits(name, pattern)) return true;
    for (const std::regex& expression : expressions_)
      for (const std::string_view prefix : kPrefixes)
        if (std::regex_search(std::string(prefix) + name, expression, std::regex_constants::match_continuous))
          return true;
    return false;
  }

 private:
  static bool fits(const std::string& name, const std::string& pattern) {
    return pattern.find('*') == std::string::npos ? holds_words(name, pattern) : glob_holds(name, pattern);
  }

  std::vector<std::vector<std::string>> own_;
  std::vector<std::string> any_;
  std::vector<std::regex> expressions_;
};

}  // namespace

std::vector<MatrixShare> matrices_meant(const ModulePatterns& patterns, const model::LlmShape& shape) {
  const Matcher matcher(patterns, shape.layers);
  std::vector<MatrixShare> shares;
  for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
    std::vector<model::Matrix> matrices = model::attention_matrices(shape, 1);
    for (model::Matrix& matrix : model::mlp_matrices(shape, 1, model::layer_kind(shape, layer).moe))
      matrices.push_back(matrix);
    for (const model::Matrix& matrix : matrices) {
      if (!matrix.quantised) continue;
      auto share =
          std::find_if(shares.begin(), shares.end(), [&](const MatrixShare& s) { return s.matrix == matrix.id; });
      if (share == shares.end()) share = shares.insert(share, MatrixShare{matrix.id});
      ++share->layers;
      const auto known =
          std::find_if(modules().begin(), modules().end(), [&](const Modules& m) { return m.matrix == matrix.id; });
      // A matrix without known module names counts as not selected.
      if (known == modules().end()) continue;
      if (std::any_of(known->names.begin(), known->names.end(),
                      [&](std::string_view m) { return matcher.means(layer, m); }))
        ++share->meant;
    }
  }
  return shares;
}

}  // namespace plimsoll::configs
