// SPDX-License-Identifier: Apache-2.0
#include "text/model_text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "text/json_fields.h"

namespace plimsoll::text {
namespace {

namespace fs = std::filesystem;

std::string file_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw InputError({.file = path.string()}, "cannot be read");
  return text;
}

// Null if there is no such file.
Json optional_json(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  Json json = Json::parse(file_text(path), nullptr, false);
  if (!json.is_object()) throw InputError({.file = path.string()}, "not a JSON object");
  return json;
}

// A token is a text, or an object with the text as its content.
std::string token_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  const Json& content = field(value, "content");
  return content.is_string() ? content.get<std::string>() : std::string();
}

SpecialTokens special_tokens(const Json& config) {
  SpecialTokens out;
  for (const char* const name :
       {"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"})
    if (std::string token = token_text(field(config, name)); !token.empty()) out.emplace_back(name, std::move(token));
  return out;
}

std::string template_source(const fs::path& folder, const Json& config) {
  std::error_code error;
  if (fs::exists(folder / "chat_template.jinja", error)) return file_text(folder / "chat_template.jinja");
  const Json& value = field(config, "chat_template");
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array())
    for (const Json& item : value)
      if (field(item, "name") == "default" && field(item, "template").is_string())
        return field(item, "template").get<std::string>();
  return {};
}

// A number or a list of them.
std::vector<TokenId> end_ids(const Json& value) {
  std::vector<TokenId> out;
  if (value.is_number_unsigned()) out.push_back(value.get<TokenId>());
  if (value.is_array())
    for (const Json& item : value)
      if (item.is_number_unsigned()) out.push_back(item.get<TokenId>());
  return out;
}

std::optional<double> number_of(const Json& json, const char* name) {
  const Json& value = field(json, name);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

}  // namespace

ModelText read_model_text(const std::string& name) {
  const fs::path folder(name);
  ModelText out;
  out.tokenizer = Tokenizer::read((folder / "tokenizer.json").string());
  const Json config = optional_json(folder / "tokenizer_config.json");
  const std::string source = template_source(folder, config);
  if (!source.empty()) {
    try {
      out.chat.emplace(source, special_tokens(config));
    } catch (const InputError& error) {
      throw InputError({.file = name}, error.text());
    }
  }
  const Json generation = optional_json(folder / "generation_config.json");
  out.ends = end_ids(field(generation, "eos_token_id"));
  if (out.ends.empty()) out.ends = end_ids(field(optional_json(folder / "config.json"), "eos_token_id"));
  if (const auto end = out.tokenizer->id_of(token_text(field(config, "eos_token"))); end && out.ends.empty())
    out.ends.push_back(*end);
  std::ranges::sort(out.ends);
  out.defaults = {.temperature = number_of(generation, "temperature"),
                  .top_p = number_of(generation, "top_p"),
                  .min_p = number_of(generation, "min_p"),
                  .top_k = {}};
  if (const auto top_k = number_of(generation, "top_k")) out.defaults.top_k = static_cast<long>(*top_k);
  return out;
}

}  // namespace plimsoll::text
