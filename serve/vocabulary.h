// SPDX-License-Identifier: Apache-2.0
// How a real model behind the server reads and writes text: by its own tokenizer and chat template. A model without
// them has a synthetic vocabulary, so that every client can send it text. As in a simulated deployment, a token is a
// fixed number of characters; its id depends on them, and answers are words without meaning.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/model_text.h"

namespace plimsoll::serve {

/// Several threads may use one. It stays where it was made.
class Vocabulary {
 public:
  /// `size` is the number of ids that the model knows. Throws InputError if the tokenizer has more.
  Vocabulary(text::ModelText text, std::int32_t size);
  /// A synthetic one.
  Vocabulary(std::int32_t size, double chars_per_token) : chars_per_token_(chars_per_token), size_(size) {}
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  [[nodiscard]] std::int32_t size() const { return size_; }
  /// Returns null for a synthetic vocabulary.
  [[nodiscard]] const text::Tokenizer* tokenizer() const { return text_ ? text_->tokenizer.get() : nullptr; }
  /// Returns the tokens that end an answer, ascending.
  [[nodiscard]] const std::vector<text::TokenId>& ends() const { return ends_; }
  [[nodiscard]] text::SamplingDefaults defaults() const { return text_ ? text_->defaults : text::SamplingDefaults{}; }

  /// Appends the tokens of a text, which must be valid UTF-8. With `specials`, also those that the tokenizer's template
  /// adds. Throws InputError for a text that the tokenizer cannot read.
  void encode(std::string_view text, bool specials, std::vector<std::int32_t>& out) const;

  /// The tokens of a conversation, or why it has none.
  struct Chat {
    std::vector<std::int32_t> tokens;
    std::string problem;
  };
  /// `messages` is a list of objects with `role` and perhaps `content` and `reasoning_content`, all strings;
  /// `variables` are further ones of the template. With `opens_answer`, the beginning of an answer follows. Throws as
  /// encode() does.
  [[nodiscard]] Chat chat(const nlohmann::ordered_json& messages, bool opens_answer,
                          const nlohmann::ordered_json& variables) const;

 private:
  [[nodiscard]] std::unique_ptr<text::TokenEncoder> take_encoder() const;

  std::optional<text::ModelText> text_;
  std::vector<text::TokenId> ends_;
  double chars_per_token_ = 4;
  std::int32_t size_;
  // Encoders that no thread uses now. They remember words, so they are kept.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<text::TokenEncoder>> encoders_;
};

}  // namespace plimsoll::serve
