// SPDX-License-Identifier: Apache-2.0
// Reads model shapes from the config.json of Hugging Face repositories.
#include <fmt/format.h>

#include <filesystem>

#include "configs/catalogue.h"
#include "configs/hf_checkpoint.h"
#include "configs/hf_families.h"

namespace plimsoll::configs {

namespace {

using model::LlmShape;
using nlohmann::json;

// Reads rope_theta. Files written by transformers 5 have it in rope_parameters.
double rope_base(const JsonFields& f, double fallback) {
  const json* parameters = f.find("rope_parameters");
  const bool nested = f.is_null("rope_theta") && parameters != nullptr && parameters->is_object();
  const auto theta = nested ? parameters->find("rope_theta") : json::const_iterator();
  if (nested && theta != parameters->end() && theta->is_number()) return theta->get<double>();
  return f.number_or("rope_theta", 1e-6, 1e12, fallback);
}

std::string activation(const JsonFields& f, std::string_view fallback) {
  const std::string name =
      f.text_or({"hidden_activation", "activation_function", "activation", "hidden_act"}, std::string(fallback));
  return name == "gelu_pytorch_tanh" ? "gelu_tanh" : name;
}

void read_common(const JsonFields& f, const ModelType& type, LlmShape& m) {
  const FieldName kHeadCount = {"num_attention_heads", "n_head"};
  m.family = type.family;
  m.layers = f.whole({"num_hidden_layers", "n_layer", "num_layers"}, kLayers);
  m.hidden = f.whole({"hidden_size", "n_embd", "n_embed"}, kWidth);
  m.heads = f.whole(kHeadCount, kHeads);
  m.vocab = f.whole({"vocab_size", "padded_vocab_size"}, kVocabulary);
  m.max_position = f.whole_or({"max_position_embeddings", "n_positions", "seq_length"}, kPositions, 0);
  m.head_dim = f.whole_or("head_dim", kWidth, m.hidden / m.heads);
  m.tie_embeddings = f.flag_or("tie_word_embeddings", type.tie_embeddings);
  m.activation = activation(f, type.activation);
  m.rope_base = type.rope_base > 0 ? rope_base(f, type.rope_base) : 0;
  if (m.hidden < m.heads)
    f.fail(kHeadCount, fmt::format("found {}, expected at most the {} of hidden_size", m.heads, m.hidden));
}

// Returns the name of the model's folder, or the file's own name unless that is config.json.
std::string id_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path file = fs::absolute(path, error);
  const std::string id =
      canonical_name((file.stem() == "config" ? file.parent_path().filename() : file.stem()).string());
  return id.empty() ? "config" : id;
}

// Returns the language model's fields: the file itself, or a part of a multimodal file (text_config …).
JsonFields language_part(const JsonFields& whole) {
  const std::string name = whole.text("model_type");
  if (find_type(name) != nullptr) return whole;
  const FieldName kParts = {"text_config", "llm_config", "language_config"};
  auto part = whole.inside(kParts);
  if (!part || part->is_null("model_type")) refuse_type(whole, name);
  return *std::move(part);
}

}  // namespace

LlmShape read_hf_config(const std::string& path) {
  const JsonFields whole = JsonFields::from_file(path);
  JsonFields f = language_part(whole);
  const std::string name = f.text("model_type");
  const ModelType* const found = find_type(name);
  if (found == nullptr) refuse_type(f, name);
  const ModelType& type = *found;
  if (!type.defaults.empty()) f.add_defaults(json::parse(type.defaults));
  LlmShape m;
  m.id = id_of(path);
  m.source = fmt::format("Hugging Face config.json of type {}", type.name);
  // The language model of a multimodal one lies in an inner object with a type of its own.
  if (type.multimodal || whole.text("model_type") != name)
    m.notes.push_back(fmt::format(
        "multimodal {}: only the language model is counted; its encoders' weights, memory and time are missing",
        whole.text("model_type")));
  read_common(f, type, m);
  type.read(f, m);
  if (m.heads % m.kv_heads != 0)
    f.fail({"num_key_value_heads", "num_kv_heads", "n_head_kv"},
           fmt::format("found {}, expected a divisor of the {} attention heads", m.kv_heads, m.heads));
  const bool own_width = m.mla || !f.is_null("head_dim") || m.head_dim != m.hidden / m.heads;
  if (!own_width && m.hidden % m.heads != 0)
    f.fail({"hidden_size", "n_embd", "n_embed"},
           fmt::format("{} is not a multiple of the {} heads, and there is no head_dim", m.hidden, m.heads));
  m.checkpoint = read_checkpoint(whole, f, m);
  return m;
}

}  // namespace plimsoll::configs
