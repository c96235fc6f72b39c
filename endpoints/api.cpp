// SPDX-License-Identifier: Apache-2.0
#include "endpoints/api.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "model/error.h"

namespace plimsoll::endpoints {
namespace {

struct ApiRow {
  Api api;
  std::string_view name, path;
};
constexpr std::array<ApiRow, 4> kApis{{{Api::openai, "openai", "/v1/completions"},
                                       {Api::openai_chat, "openai-chat", "/v1/chat/completions"},
                                       {Api::tgi, "tgi", "/generate_stream"},
                                       {Api::lmi, "lmi", "/invocations"}}};

const ApiRow& row(Api api) { return kApis[static_cast<std::size_t>(api)]; }

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// Formats "12,7,99". Written by hand for speed, since prompts have thousands of ids.
std::string id_list(const std::vector<std::int32_t>& ids) {
  std::string text;
  text.reserve(ids.size() * 7);
  for (const std::int32_t id : ids) {
    if (!text.empty()) text += ',';
    text += fmt::format_int(id).c_str();
  }
  return text;
}

std::string openai_body(const RequestForm& form, const Prompt& prompt, std::int32_t output) {
  const bool chat = form.api == Api::openai_chat;
  const Features& features = form.features;
  std::string body = "{\"stream\":true";
  if (!form.model.empty()) body += ",\"model\":" + json_text(form.model);
  if (chat) {
    body += ",\"messages\":[{\"role\":\"user\",\"content\":" + json_text(prompt.text) + "}]";
  } else {
    body += ",\"prompt\":" + (prompt.ids.empty() ? json_text(prompt.text) : '[' + id_list(prompt.ids) + ']');
  }
  body += fmt::format(",\"{}\":{}", chat && features.max_completion ? "max_completion_tokens" : "max_tokens", output);
  if (prompt.session != 0) body += fmt::format(",\"user\":\"session-{:x}\"", prompt.session);
  // Also 0: a server may have another default.
  if (features.priority) body += fmt::format(",\"priority\":{}", prompt.priority);
  if (features.min_tokens) body += fmt::format(",\"min_tokens\":{}", output);
  if (features.ignore_eos) body += ",\"ignore_eos\":true";
  if (features.continuous_usage) {
    body += ",\"stream_options\":{\"include_usage\":true,\"continuous_usage_stats\":true}";
  } else if (features.usage) {
    body += ",\"stream_options\":{\"include_usage\":true}";
  }
  return body + '}';
}

}  // namespace

std::string_view name(Api api) { return row(api).name; }
std::string_view path(Api api) { return row(api).path; }

Api api_named(std::string_view text) {
  for (const ApiRow& candidate : kApis)
    if (candidate.name == text) return candidate.api;
  throw InputError(fmt::format("--api: found '{}', allowed: {}", text, kApiNames));
}

std::string request_body(const RequestForm& form, const Prompt& prompt, std::int32_t output) {
  if (form.api == Api::openai || form.api == Api::openai_chat) return openai_body(form, prompt, output);
  return fmt::format("{{\"inputs\":{},\"parameters\":{{\"max_new_tokens\":{},\"details\":true}},\"stream\":true}}",
                     json_text(prompt.text), output);
}

}  // namespace plimsoll::endpoints
