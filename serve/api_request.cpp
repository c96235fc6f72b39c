// SPDX-License-Identifier: Apache-2.0
#include "serve/api_request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "model/error.h"
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
      refuse(path(name), fmt::format("expected a whole number from {} to {}", low, high));
    return value->get<std::int64_t>();
  }
  void check_number(const char* name, double low, double high) const {
    const json* const value = find(name);
    if (value == nullptr) return;
    if (!value->is_number() || value->get<double>() < low || value->get<double>() > high)
      refuse(path(name), fmt::format("expected a number from {:g} to {:g}", low, high));
  }
  struct Range {
    double low = 0, high = 0;
  };
  [[nodiscard]] double number(const char* name, Range range, double missing) const {
    check_number(name, range.low, range.high);
    const json* const value = find(name);
    return value == nullptr ? missing : value->get<double>();
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

/// Collects the tokens of a prompt: with a vocabulary their ids, for a simulated deployment only their number and
/// hashes.
class PromptTokens {
 public:
  explicit PromptTokens(const PromptRules& rules)
      : vocabulary_(rules.vocabulary), counter_(rules.chars_per_token, rules.hash_tokens) {}

  void add_text(const std::string& text, bool specials) {
    if (vocabulary_ == nullptr) return counter_.add_text(text);
    vocabulary_->encode(text, specials, ids_);
  }
  /// Returns the largest id that add_id() takes.
  [[nodiscard]] std::uint64_t largest_id() const {
    return vocabulary_ == nullptr ? UINT64_MAX : static_cast<std::uint64_t>(vocabulary_->size()) - 1;
  }
  void add_id(std::uint64_t id) {
    if (vocabulary_ == nullptr) return counter_.add_token(id);
    ids_.push_back(static_cast<std::int32_t>(id));
  }
  void add_ids(std::vector<std::int32_t> ids) { ids_ = std::move(ids); }
  [[nodiscard]] PromptCounter& counter() { return counter_; }

  void take(ApiRequest& request, const char* field) {
    for (const std::int32_t id : ids_) counter_.add_token(static_cast<std::uint64_t>(id));
    if (counter_.tokens() == 0) refuse(field, "the prompt is empty");
    if (counter_.tokens() > kMostTokens) refuse(field, "the prompt is too long");
    request.input = counter_.tokens();
    request.hashes = counter_.take_hashes();
    if (vocabulary_ != nullptr) request.tokens->prompt = std::move(ids_);
  }

 private:
  const Vocabulary* vocabulary_;
  PromptCounter counter_;
  std::vector<std::int32_t> ids_;
};

void add_ids(const json& ids, const std::string& field, PromptTokens& prompt) {
  for (const json& id : ids) {
    if (!id.is_number_unsigned()) refuse(field, "token ids are whole numbers from 0");
    if (id.get<std::uint64_t>() > prompt.largest_id())
      refuse(field,
             fmt::format("the model's token ids are 0 to {}, found {}", prompt.largest_id(), id.get<std::uint64_t>()));
    prompt.add_id(id.get<std::uint64_t>());
  }
}

void add_prompt(const json& value, const Fields& fields, PromptTokens& prompt, bool inside) {
  const std::string field = "prompt";
  if (value.is_string()) {
    const bool specials = fields.find("add_special_tokens") == nullptr || fields.flag("add_special_tokens");
    return prompt.add_text(value.get_ref<const std::string&>(), specials);
  }
  if (!value.is_array()) refuse(field, "expected a string or an array of token ids");
  if (value.empty()) refuse(field, "it is empty");
  if (value.front().is_number()) return add_ids(value, field, prompt);
  if (inside || value.size() > 1) refuse(field, "only one prompt per request is served, found several");
  add_prompt(value.front(), fields, prompt, true);
}

const std::string& text_of_part(const json& part, const std::string& place) {
  if (!part.is_object()) refuse(place, "found no object");
  const Fields fields(part, place);
  const std::string type = fields.text("type");
  if (type != "text")
    refuse(fields.path(type.empty() || type.size() > kLongestName ? "type" : type.c_str()),
           "only parts of type text are served");
  const json* const text = fields.find("text");
  if (text == nullptr || !text->is_string()) refuse(fields.path("text"), "found no string");
  return text->get_ref<const std::string&>();
}

/// A message of a chat. Each part of its content is a separate text.
struct Message {
  std::string role;
  std::vector<std::string> texts;
  const json* reasoning = nullptr;  // of an earlier answer; null if none
  bool has_content = false;
  /// Returns the message as chat templates get it: a missing content differs from an empty one.
  [[nodiscard]] nlohmann::ordered_json plain() const {
    nlohmann::ordered_json out = {{"role", role}};
    if (has_content) out["content"] = fmt::format("{}", fmt::join(texts, "\n"));
    if (reasoning != nullptr) out["reasoning_content"] = *reasoning;
    return out;
  }
};

Message read_message(const json& message, const std::string& place) {
  if (!message.is_object()) refuse(place, "found no object");
  const Fields fields(message, place);
  Message out{.role = fields.text("role"), .texts = {}, .reasoning = fields.find("reasoning_content")};
  if (out.role.empty()) refuse(fields.path("role"), "a message needs a role");
  if (fields.find("tool_calls") != nullptr) refuse(fields.path("tool_calls"), "tools are not served");
  if (out.reasoning == nullptr) out.reasoning = fields.find("reasoning");
  if (out.reasoning != nullptr && !out.reasoning->is_string()) refuse(fields.path("reasoning"), "expected a string");
  const json* const content = fields.find("content");
  out.has_content = content != nullptr;
  if (content == nullptr) {
    if (out.role != "assistant") refuse(fields.path("content"), "it is missing");
  } else if (content->is_string()) {
    out.texts.push_back(content->get<std::string>());
  } else if (content->is_array()) {
    for (std::size_t i = 0; i < content->size(); ++i)
      out.texts.push_back(text_of_part((*content)[i], fmt::format("{}[{}]", fields.path("content"), i)));
  } else {
    refuse(fields.path("content"), "expected a string or a list of text parts");
  }
  return out;
}

void add_messages(const Fields& fields, const PromptRules& rules, PromptTokens& prompt) {
  const json* const messages = fields.find("messages");
  if (messages == nullptr) refuse("messages", "it is missing");
  if (!messages->is_array() || messages->empty()) refuse("messages", "expected a list of at least one message");
  nlohmann::ordered_json chat = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const Message message = read_message((*messages)[i], fmt::format("messages[{}]", i));
    if (rules.vocabulary != nullptr) {
      chat.push_back(message.plain());
      continue;
    }
    // A role counts as tokens with their own hash, so that prompts that differ in it share no blocks from there on.
    prompt.counter().add_token(std::hash<std::string>{}(message.role), kChatTokens);
    for (const std::string& text : message.texts) prompt.counter().add_text(text);
  }
  if (rules.vocabulary == nullptr) return;
  const json* const variables = fields.object("chat_template_kwargs");
  const bool opens_answer = fields.find("add_generation_prompt") == nullptr || fields.flag("add_generation_prompt");
  Vocabulary::Chat rendered = rules.vocabulary->chat(
      chat, opens_answer,
      variables == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json::parse(variables->dump()));
  if (!rendered.problem.empty()) refuse("messages", rendered.problem);
  prompt.add_ids(std::move(rendered.tokens));
}

// ---- fields of a real model ---------------------------------------------------------------------------------

constexpr std::size_t kMostStops = 64, kLongestStop = 1024;  // stop strings and tokens; bytes of a string

// Refuses fields that would change the answer but are not implemented. A value that changes nothing is allowed.
void refuse_disobeyed(const Fields& fields, std::initializer_list<std::pair<const char*, json>> neutral) {
  for (const auto& [name, allowed] : neutral) {
    const json* const value = fields.find(name);
    if (value == nullptr || *value == allowed || *value == false) continue;
    if ((value->is_array() || value->is_object()) && value->empty()) continue;
    refuse(fields.path(name),
           allowed.is_null() ? std::string("it is not served") : fmt::format("only {} is served", allowed.dump()));
  }
}

void read_stop_strings(const Fields& fields, StopRules& stops) {
  const json* const stop = fields.find("stop");
  if (stop == nullptr) return;
  const auto add = [&](const json& text) {
    if (!text.is_string()) refuse(fields.path("stop"), "expected a string or a list of strings");
    const auto& string = text.get_ref<const std::string&>();
    if (string.empty() || string.size() > kLongestStop)
      refuse(fields.path("stop"), fmt::format("a string has 1 to {} bytes", kLongestStop));
    stops.strings.push_back(string);
  };
  if (!stop->is_array()) return add(*stop);
  if (stop->size() > kMostStops) refuse(fields.path("stop"), fmt::format("at most {} strings are served", kMostStops));
  for (const json& text : *stop) add(text);
}

void read_stop_tokens(const Fields& fields, const Vocabulary& vocabulary, StopRules& stops) {
  const json* const ids = fields.find("stop_token_ids");
  if (ids == nullptr) return;
  bool fits = ids->is_array() && ids->size() <= kMostStops;
  for (std::size_t i = 0; fits && i < ids->size(); ++i)
    fits = (*ids)[i].is_number_unsigned() &&
           (*ids)[i].get<std::uint64_t>() < static_cast<std::uint64_t>(vocabulary.size());
  if (!fits)
    refuse("stop_token_ids",
           fmt::format("expected a list of at most {} token ids from 0 to {}", kMostStops, vocabulary.size() - 1));
  stops.tokens = ids->get<std::vector<std::int32_t>>();
}

// Refuses filters that a request states. The filters of the model's own defaults are ignored.
void refuse_filters(const Fields& fields, TokenCall& call) {
  const bool stated[] = {call.top_k > 0, call.top_p<1, call.min_p> 0};
  const char* const names[] = {"top_k", "top_p", "min_p"};
  for (std::size_t i = 0; i < std::size(stated); ++i)
    if (stated[i] && fields.find(names[i]) != nullptr)
      refuse(fields.path(names[i]), "ranks on several GPUs do not serve it");
  call.top_k = 0;
  call.top_p = 1;
  call.min_p = 0;
}

// As in vLLM: the model's generation_config.json gives the defaults of fields that the request omits.
void read_openai_sampling(const Fields& fields, const PromptRules& rules, ApiRequest& request) {
  const Vocabulary& vocabulary = *rules.vocabulary;
  refuse_disobeyed(fields, {{"presence_penalty", 0},
                            {"frequency_penalty", 0},
                            {"repetition_penalty", 1},
                            {"length_penalty", 1},
                            {"logit_bias", nullptr},
                            {"logprobs", nullptr},
                            {"top_logprobs", 0},
                            {"prompt_logprobs", nullptr},
                            {"response_format", {{"type", "text"}}},
                            {"structured_outputs", nullptr},
                            {"guided_json", nullptr},
                            {"guided_regex", nullptr},
                            {"guided_choice", nullptr},
                            {"guided_grammar", nullptr},
                            {"bad_words", nullptr},
                            {"allowed_token_ids", nullptr},
                            {"truncate_prompt_tokens", nullptr},
                            {"continue_final_message", false},
                            {"chat_template", nullptr},
                            {"documents", nullptr},
                            {"return_token_ids", nullptr}});
  const text::SamplingDefaults defaults = vocabulary.defaults();
  TokenCall& call = *request.tokens;
  call.temperature = fields.number("temperature", {0, 2}, defaults.temperature.value_or(1));
  call.top_p = fields.number("top_p", {0, 1}, defaults.top_p.value_or(1));
  call.min_p = fields.number("min_p", {0, 1}, defaults.min_p.value_or(0));
  const std::int64_t top_k = fields.whole("top_k", -1, INT32_MAX, defaults.top_k.value_or(0));
  call.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(top_k, 0));
  if (!rules.filters) refuse_filters(fields, call);
  if (fields.find("seed") != nullptr)
    request.seed = static_cast<std::uint64_t>(fields.whole("seed", INT64_MIN, INT64_MAX, 0));
  read_stop_strings(fields, request.stops);
  read_stop_tokens(fields, vocabulary, request.stops);
  request.stops.ignores_ends = request.ignore_eos;
  request.stops.min_tokens = request.min_tokens;
  request.stops.includes_stop = fields.flag("include_stop_str_in_output");
  request.stops.skips_special = fields.find("skip_special_tokens") == nullptr || fields.flag("skip_special_tokens");
}

// As in TGI: decoding is greedy unless the request asks for sampling or states a sampling parameter.
void read_tgi_sampling(const Fields& fields, const PromptRules& rules, ApiRequest& request) {
  refuse_disobeyed(fields, {{"repetition_penalty", 1},
                            {"frequency_penalty", 0},
                            {"typical_p", 1},
                            {"top_n_tokens", 0},
                            {"truncate", nullptr},
                            {"watermark", false},
                            {"grammar", nullptr},
                            {"adapter_id", nullptr}});
  TokenCall& call = *request.tokens;
  const bool stated =
      fields.find("temperature") != nullptr || fields.find("top_k") != nullptr || fields.find("top_p") != nullptr;
  call.temperature = stated || fields.flag("do_sample") ? fields.number("temperature", {0.01, 100}, 1) : 0;
  call.top_p = fields.number("top_p", {0, 1}, 1);
  call.top_k = static_cast<std::int32_t>(fields.whole("top_k", 0, INT32_MAX, 0));
  if (!rules.filters) refuse_filters(fields, call);
  if (fields.find("seed") != nullptr) request.seed = static_cast<std::uint64_t>(fields.whole("seed", 0, INT64_MAX, 0));
  read_stop_strings(fields, request.stops);
}

// ---- OpenAI -------------------------------------------------------------------------------------------------

// Refuses fields that would need a real model, or several answers.
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
  if (!strings) refuse("stop", "expected a string or a list of strings");
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
  if (rules.vocabulary != nullptr) {
    request.tokens = std::make_shared<TokenCall>();
    read_openai_sampling(fields, rules, request);
  }
  PromptTokens prompt(rules);
  const json* const text = fields.find("prompt");
  if (api == Api::chat)
    add_messages(fields, rules, prompt);
  else if (text == nullptr)
    refuse("prompt", "it is missing");
  else
    add_prompt(*text, fields, prompt, false);
  prompt.take(request, api == Api::chat ? "messages" : "prompt");
  return request;
}

// ---- TGI ----------------------------------------------------------------------------------------------------

ApiRequest read_tgi(const json& body, const PromptRules& rules) {
  const Fields fields(body, "");
  ApiRequest request;
  request.stream = fields.flag("stream");
  const json* const inputs = fields.find("inputs");
  if (inputs == nullptr || !inputs->is_string()) refuse("inputs", "found no string");
  PromptTokens prompt(rules);
  if (rules.vocabulary != nullptr) request.tokens = std::make_shared<TokenCall>();
  prompt.add_text(inputs->get_ref<const std::string&>(), true);
  prompt.take(request, "inputs");
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
  if (rules.vocabulary != nullptr) read_tgi_sampling(inner, rules, request);
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
  } catch (const InputError& error) {  // a text that the tokenizer cannot read
    return ApiError{.message = error.text()};
  }
}

}  // namespace plimsoll::serve
