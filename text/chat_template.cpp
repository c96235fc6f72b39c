// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <nlohmann/json.hpp>

#include "text/template_parser.h"

namespace plimsoll::text {

struct ChatTemplate::Compiled {
  Statement body;
  SpecialTokens tokens;
};

ChatTemplate::ChatTemplate(std::string source, SpecialTokens tokens)
    : compiled_(std::make_unique<Compiled>(Compiled{compile_template(std::move(source)), std::move(tokens)})) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&& other) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&& other) noexcept = default;

RenderedChat ChatTemplate::render(const nlohmann::ordered_json& messages, bool opens_answer,
                                  const nlohmann::ordered_json& variables) const {
  RenderedChat out;
  Scope scope{.parent = nullptr, .out = &out.text};
  scope.set("messages", from_json(messages));
  scope.set("tools", {});
  scope.set("documents", {});
  scope.set("add_generation_prompt", opens_answer);
  for (const auto& [name, token] : compiled_->tokens) scope.set(name, token);
  if (variables.is_object())
    for (const auto& [name, value] : variables.items()) scope.set(name, from_json(value));
  try {
    static_cast<void>(compiled_->body(scope));
  } catch (const TemplateError& error) {
    out = {.text = {}, .problem = error.what()};
  }
  return out;
}

}  // namespace plimsoll::text
