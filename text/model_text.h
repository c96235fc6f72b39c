// SPDX-License-Identifier: Apache-2.0
// The text side of a model's folder: tokenizer.json, its chat template, the tokens that end an answer, and the defaults
// for sampling.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace plimsoll::text {

/// From generation_config.json; absent ones are not stated.
struct SamplingDefaults {
  std::optional<double> temperature, top_p, min_p;
  std::optional<long> top_k;
};

struct ModelText {
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;  // nullopt: the model has no chat template
  std::vector<TokenId> ends;         // any of them ends an answer; ascending
  SamplingDefaults defaults;
};

/// Reads the folder of a model. The chat template is chat_template.jinja, or the one (or the one named `default`) in
/// tokenizer_config.json. The end tokens come from the first of generation_config.json, config.json and
/// tokenizer_config.json that states them. Throws InputError for a file that is missing, wrong or not supported.
[[nodiscard]] ModelText read_model_text(const std::string& folder);

}  // namespace plimsoll::text
