// SPDX-License-Identifier: Apache-2.0
#include "serve/vocabulary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "model/error.h"
#include "serve/prompt.h"

namespace plimsoll::serve {

Vocabulary::Vocabulary(text::ModelText text, std::int32_t size)
    : text_(std::move(text)), ends_(text_->ends), size_(size) {
  if (text_->tokenizer->size() > size)
    throw InputError(fmt::format("tokenizer.json has {} tokens, the model knows {}: they do not belong together",
                                 text_->tokenizer->size(), size));
}

std::unique_ptr<text::TokenEncoder> Vocabulary::take_encoder() const {
  const std::lock_guard lock(mutex_);
  if (encoders_.empty()) return std::make_unique<text::TokenEncoder>(*text_->tokenizer);
  std::unique_ptr<text::TokenEncoder> encoder = std::move(encoders_.back());
  encoders_.pop_back();
  return encoder;
}

void Vocabulary::encode(std::string_view text, bool specials, std::vector<std::int32_t>& out) const {
  if (text_) {
    std::unique_ptr<text::TokenEncoder> encoder = take_encoder();
    encoder->encode(text, specials, out);
    const std::lock_guard lock(mutex_);
    encoders_.push_back(std::move(encoder));
    return;
  }
  for (const std::uint64_t value : counted_tokens(text, chars_per_token_))
    out.push_back(static_cast<std::int32_t>(value % static_cast<std::uint64_t>(size_)));
}

Vocabulary::Chat Vocabulary::chat(const nlohmann::ordered_json& messages, bool opens_answer,
                                  const nlohmann::ordered_json& variables) const {
  Chat out;
  if (!text_) {
    // A message counts as in a simulated deployment: 4 tokens for its role, and its text.
    for (const auto& message : messages) {
      const std::string role = message["role"].get<std::string>();
      for (int i = 0; i < 4; ++i) encode(role.substr(0, 1), false, out.tokens);
      encode(message.value("content", ""), false, out.tokens);
    }
    return out;
  }
  if (!text_->chat) {
    out.problem = "the model has no chat template";
    return out;
  }
  text::RenderedChat rendered = text_->chat->render(messages, opens_answer, variables);
  out.problem = std::move(rendered.problem);
  if (out.problem.empty()) encode(rendered.text, false, out.tokens);
  return out;
}

}  // namespace plimsoll::serve
