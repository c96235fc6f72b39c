// SPDX-License-Identifier: Apache-2.0
// Chat templates: how a model wants a conversation written as one text. The templates of models are written in Jinja;
// this is the subset that they use. Statements, filters, tests, functions and methods that are not in it are refused by
// name when the template is read.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::text {

/// Special tokens by the name of their variable, such as bos_token.
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

/// The text of a conversation, or why the template refused it.
struct RenderedChat {
  std::string text;
  std::string problem;  // empty if there is none
};

/// Several threads may use one.
class ChatTemplate {
 public:
  /// Throws InputError, with the line, for a template outside the subset.
  ChatTemplate(std::string source, SpecialTokens tokens);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&& other) noexcept;
  ChatTemplate& operator=(ChatTemplate&& other) noexcept;

  /// Renders a list of messages ({"role", "content", …}). Fields that are null count as absent, as in transformers;
  /// `reasoning_content`, `reasoning` and `thinking` are names of the same field. With `opens_answer` (Jinja's
  /// add_generation_prompt), the text ends with the beginning of an answer. `variables` is an object of further
  /// variables, such as tools; it may be null.
  [[nodiscard]] RenderedChat render(const nlohmann::ordered_json& messages, bool opens_answer,
                                    const nlohmann::ordered_json& variables) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace plimsoll::text
