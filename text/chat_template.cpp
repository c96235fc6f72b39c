// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <nlohmann/json.hpp>

#include "text/template_parser.h"

namespace plimsoll::text {
namespace {

using nlohmann::ordered_json;

// A template reads what a model thought as `reasoning_content`, that of gpt-oss as `thinking`. Clients also write
// `reasoning`. The first of the three that is given is passed under the first two names.
ordered_json with_reasoning(ordered_json message) {
  ordered_json reasoning;
  for (const char* const name : {"reasoning_content", "thinking", "reasoning"})
    if (reasoning.is_null() && message.contains(name)) reasoning = message[name];
  if (reasoning.is_null()) return message;
  ordered_json out = {{"thinking", reasoning}};
  out.update(message);
  out["reasoning_content"] = std::move(reasoning);
  return out;
}

// Messages as transformers passes them to a template: without fields that are null. Throws TemplateError for a message
// that is no object.
ordered_json plain_messages(const ordered_json& messages) {
  ordered_json out = ordered_json::array();
  for (const ordered_json& message : messages) {
    if (!message.is_object()) throw TemplateError("a message is no object");
    ordered_json plain = ordered_json::object();
    for (const auto& [name, value] : message.items())
      if (!value.is_null()) plain[name] = value;
    out.push_back(with_reasoning(std::move(plain)));
  }
  return out;
}

}  // namespace

struct ChatTemplate::Compiled {
  Statement body;
  SpecialTokens tokens;
};

ChatTemplate::ChatTemplate(std::string source, SpecialTokens tokens)
    : compiled_(std::make_unique<Compiled>(Compiled{compile_template(std::move(source)), std::move(tokens)})) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&& other) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&& other) noexcept = default;

RenderedChat ChatTemplate::render(const ordered_json& messages, bool opens_answer,
                                  const ordered_json& variables) const {
  RenderedChat out;
  Scope scope{.parent = nullptr, .out = &out.text};
  try {
    scope.set("messages", from_json(plain_messages(messages)));
    scope.set("tools", {});
    scope.set("documents", {});
    scope.set("add_generation_prompt", opens_answer);
    for (const auto& [name, token] : compiled_->tokens) scope.set(name, token);
    if (variables.is_object())
      for (const auto& [name, value] : variables.items()) scope.set(name, from_json(value));
    static_cast<void>(compiled_->body(scope));
  } catch (const TemplateError& error) {
    out = {.text = {}, .problem = error.what()};
  }
  return out;
}

}  // namespace plimsoll::text
