// SPDX-License-Identifier: Apache-2.0
#include "serve/api_request.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "net/json_shape.h"
#include "serve/prompt.h"

namespace plimsoll::serve {

namespace {

using nlohmann::json;

constexpr std::size_t kLongestName = 256;            // bytes; every event of a stream repeats the model's name
constexpr std::int64_t kMostTokens = (1 << 30) - 1;  // input + output must fit 32 bits
constexpr std::int64_t kChatTokens = 4;              // tokens that a message adds to its text

/// Internal to this file: thrown and caught here.
struct Refusal {
  ApiError error;
};

[[noreturn]] void refuse(const std::string& field, const std::string& text) {
  throw Refusal{{.status = 400, .message = fmt::format("{}: {}", field, text), .param = field, .code = {}}};
}

/// A JSON object and its place in the request.
class Fields {
 public:
  Fields(const json& object, std::string place) : object_(object), place_(std::move(place)) {}

  [[nodiscard]] std::string path(const char* name) const { return place_.empty() ? name : place_ + '.' + name; }
  /// Returns null if the field is missing or null.
  [[nodiscard]] const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] bool flag(const char* name) const {
    const json* const value = find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) refuse(path(name), "found neither true nor false");
    return value->get<bool>();
  }
  [[nodiscard]] std::int64_t whole(const char* name, std::int64_t low, std::int64_t high, std::int64_t missing) const {
    const json* const value = find(name);
    if (value == nullptr) return missing;
    const bool fits =
        value->is_number_integer() && (!value->is_number_unsigned() || value->get<std::uint64_t>() <= INT64_MAX);
    if (!fits || value->get<std::int64_t>() < low || value->get<std::int64_t>() > high)
      refuse(path(name), fmt::format("allowed is a whole number from {} to {}", low, high));
    return value->get<std::int64_t>();
  }
  void check_number(const char* name, double low, double high) const {
    const json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_number() || value->get<double>() < low || value->get<double>() > high)
      refuse(path(name), fmt::format("allowed is a number from {:g} to {:g}", low, high));
  }
  [[nodiscard]] std::string text(const char* name) const {
    const json* const value = find(name);
    if (value == nullptr) return {};
    if (!value->is_string()) refuse(path(name), "found no string");
    return value->get<std::string>();
  }
  /// Returns an object; null if it is missing.
  [[nodiscard]] const json* object(const char* name) const {
    const json* const value = find(name);
    if (value != nullptr && !value->is_object()) refuse(path(name), "found no object");
    return value;
  }

 private:
  const json& object_;
  std::string place_;
};

// ---- prompts ------------------------------------------------------------------------------------------------

void add_ids(const json& ids, const std::string& field, PromptCounter& prompt) {
  for (const json& id : ids) {
    if (!id.is_number_unsigned()) refuse(field, "token ids are whole numbers from 0");
    prompt.add_token(id.get<std::uint64_t>());
  }
}

void add_prompt(const json& value, const std::string& field, PromptCounter& prompt, bool inside) {
  if (value.is_string()) return prompt.add_text(value.get_ref<const std::string&>());
  if (!value.is_array()) refuse(field, "allowed are a string or an array of token ids");
  if (value.empty()) refuse(field, "it is empty");
  if (value.front().is_number()) return add_ids(value, field, prompt);
  if (inside || value.size() > 1) refuse(field, "only one prompt per request is served, found several");
  add_prompt(value.front(), field, prompt, true);
}

void add_part(const json& part, const std::string& place, PromptCounter& prompt) {
  if (!part.is_object()) refuse(place, "found no object");
  const Fields fields(part, place);
  const std::string type = fields.text("type");
  if (type != "text")
    refuse(fields.path(type.empty() || type.size() > kLongestName ? "type" : type.c_str()),
           "only parts of type text are served");
  const json* const text = fields.find("text");
  if (text == nullptr || !text->is_string()) refuse(fields.path("text"), "found no string");
  prompt.add_text(text->get_ref<const std::string&>());
}

void add_message(const json& message, const std::string& place, PromptCounter& prompt) {
  if (!message.is_object()) refuse(place, "found no object");
  const Fields fields(message, place);
  const std::string role = fields.text("role");
  if (role.empty()) refuse(fields.path("role"), "a message needs a role");
  if (fields.find("tool_calls") != nullptr) refuse(fields.path("tool_calls"), "tools are not served");
  // A role counts as tokens with their own hash, so that prompts that differ in it share no blocks from there on.
  prompt.add_token(std::hash<std::string>{}(role), kChatTokens);
  const json* const content = fields.find("content");
  if (content == nullptr) {
    if (role != "assistant") refuse(fields.path("content"), "it is missing");
    return;
  }
  if (content->is_string()) return prompt.add_text(content->get_ref<const std::string&>());
  if (!content->is_array()) refuse(fields.path("content"), "allowed are a string or a list of text parts");
  for (std::size_t i = 0; i < content->size(); ++i)
    add_part((*content)[i], fmt::format("{}[{}]", fields.path("content"), i), prompt);
}

void add_messages(const Fields& fields, PromptCounter& prompt) {
  const json* const messages = fields.find("messages");
  if (messages == nullptr) refuse("messages", "it is missing");
  if (!messages->is_array() || messages->empty()) refuse("messages", "allowed is a list of at least one message");
  for (std::size_t i = 0; i < messages->size(); ++i)
    add_message((*messages)[i], fmt::format("messages[{}]", i), prompt);
}

void take_prompt(ApiRequest& request, PromptCounter& prompt, const char* field) {
  if (prompt.tokens() == 0) refuse(field, "the prompt is empty");
  if (prompt.tokens() > kMostTokens) refuse(field, "the prompt is too long");
  request.input = prompt.tokens();
  request.hashes = prompt.take_hashes();
}

// ---- OpenAI -------------------------------------------------------------------------------------------------

// Refuses what would need a real model, or several answers.
void refuse_unserved(const Fields& fields) {
  for (const char* const name : {"tools", "functions"}) {
    const json* const value = fields.find(name);
    if (value != nullptr && !(value->is_array() && value->empty())) refuse(name, "tools are not served");
  }
  for (const char* const name : {"tool_choice", "function_call"}) {
    const json* const value = fields.find(name);
    if (value != nullptr && *value != "none" && *value != "auto") refuse(name, "tools are not served");
  }
  for (const char* const name : {"n", "best_of"})
    if (fields.whole(name, 1, INT32_MAX, 1) > 1) refuse(name, "only one answer per request is served");
  if (fields.flag("echo")) refuse("echo", "the answer cannot include the prompt");
  if (fields.flag("use_beam_search")) refuse("use_beam_search", "it is not served");
  if (fields.find("suffix") != nullptr && !fields.text("suffix").empty()) refuse("suffix", "it is not served");
  for (const char* const name : {"audio", "images", "image"})
    if (fields.find(name) != nullptr) refuse(name, "only text is served");
}

// Checks fields that do not affect timing, because a real engine refuses them if they are malformed.
void check_sampling(const Fields& fields) {
  fields.check_number("temperature", 0, 2);
  fields.check_number("top_p", 0, 1);
  fields.check_number("presence_penalty", -2, 2);
  fields.check_number("frequency_penalty", -2, 2);
  (void)fields.whole("seed", INT64_MIN, INT64_MAX, 0);
  (void)fields.object("logit_bias");
  const json* const stop = fields.find("stop");
  if (stop == nullptr || stop->is_string()) return;
  bool strings = stop->is_array();
  if (strings)
    for (const json& text : *stop) strings = strings && text.is_string();
  if (!strings) refuse("stop", "allowed are a string or a list of strings");
}

void read_stream(const Fields& fields, ApiRequest& request) {
  request.stream = fields.flag("stream");
  const json* const options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!request.stream) refuse("stream_options", "it needs stream: true");
  const Fields inner(*options, "stream_options");
  request.include_usage = inner.flag("include_usage");
  request.continuous_usage = request.include_usage && inner.flag("continuous_usage_stats");
}

void read_lengths(const Fields& fields, Api api, ApiRequest& request) {
  const bool newer = api == Api::chat && fields.find("max_completion_tokens") != nullptr;
  const char* const name = newer ? "max_completion_tokens" : "max_tokens";
  request.max_tokens = static_cast<sched::Tok>(fields.whole(name, 1, kMostTokens, 0));
  request.min_tokens = static_cast<sched::Tok>(fields.whole("min_tokens", 0, kMostTokens, 0));
  if (request.max_tokens > 0 && request.min_tokens > request.max_tokens)
    refuse("min_tokens", fmt::format("it is greater than {}", name));
  request.ignore_eos = fields.flag("ignore_eos");
}

ApiRequest read_openai(Api api, const json& body, const PromptRules& rules) {
  const Fields fields(body, "");
  ApiRequest request;
  request.model = fields.text("model");
  if (request.model.size() > kLongestName) refuse("model", fmt::format("it is longer than {} bytes", kLongestName));
  refuse_unserved(fields);
  check_sampling(fields);
  read_stream(fields, request);
  read_lengths(fields, api, request);
  const std::string user = fields.text("user");
  // 0 means no session, so the lowest bit is always set.
  if (!user.empty()) request.session = std::hash<std::string>{}(user) | 1U;
  if (fields.find("priority") != nullptr)
    request.priority = static_cast<std::int32_t>(fields.whole("priority", INT32_MIN, INT32_MAX, 0));
  PromptCounter prompt(rules.chars_per_token, rules.hash_tokens);
  const json* const text = fields.find("prompt");
  if (api == Api::chat)
    add_messages(fields, prompt);
  else if (text == nullptr)
    refuse("prompt", "it is missing");
  else
    add_prompt(*text, "prompt", prompt, false);
  take_prompt(request, prompt, api == Api::chat ? "messages" : "prompt");
  return request;
}

// ---- TGI ----------------------------------------------------------------------------------------------------

ApiRequest read_tgi(const json& body, const PromptRules& rules) {
  const Fields fields(body, "");
  ApiRequest request;
  request.stream = fields.flag("stream");
  const json* const inputs = fields.find("inputs");
  if (inputs == nullptr || !inputs->is_string()) refuse("inputs", "found no string");
  PromptCounter prompt(rules.chars_per_token, rules.hash_tokens);
  prompt.add_text(inputs->get_ref<const std::string&>());
  take_prompt(request, prompt, "inputs");
  const json* const parameters = fields.object("parameters");
  if (parameters == nullptr) return request;
  const Fields inner(*parameters, "parameters");
  request.max_tokens = static_cast<sched::Tok>(inner.whole("max_new_tokens", 1, kMostTokens, 0));
  request.details = inner.flag("details");
  if (inner.whole("best_of", 1, INT32_MAX, 1) > 1)
    refuse("parameters.best_of", "only one answer per request is served");
  if (inner.flag("return_full_text")) refuse("parameters.return_full_text", "the answer cannot include the prompt");
  if (inner.flag("decoder_input_details")) refuse("parameters.decoder_input_details", "it is not served");
  if (inner.find("tools") != nullptr) refuse("parameters.tools", "tools are not served");
  return request;
}

}  // namespace

std::variant<ApiRequest, ApiError> read_request(Api api, std::string_view body, const PromptRules& rules) {
  if (const std::string fault = net::fault_of_json_shape(body); !fault.empty())
    return ApiError{.message = "the body " + fault};
  const json parsed = json::parse(body, nullptr, false);
  if (parsed.is_discarded()) return ApiError{.message = "the body is not valid JSON in UTF-8"};
  if (!parsed.is_object()) return ApiError{.message = "the body is not a JSON object"};
  try {
    return api == Api::tgi ? read_tgi(parsed, rules) : read_openai(api, parsed, rules);
  } catch (const Refusal& refusal) {
    return refusal.error;
  }
}

}  // namespace plimsoll::serve
