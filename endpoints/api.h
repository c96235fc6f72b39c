// SPDX-License-Identifier: Apache-2.0
// The HTTP interfaces of the servers that can be measured: paths and bodies of requests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::endpoints {

enum class Api : std::uint8_t { openai, openai_chat, tgi, lmi };
inline constexpr std::string_view kApiNames = "openai, openai-chat, tgi, lmi";

[[nodiscard]] std::string_view name(Api api);
/// Returns the interface of this name. Throws InputError, with the option --api, if there is none.
[[nodiscard]] Api api_named(std::string_view text);
/// Returns the path for generation, relative to the server's base path.
[[nodiscard]] std::string_view path(Api api);

/// Optional features of a server, beyond the fields that every server of its interface has. Server probes them before a
/// run (server.h).
struct Features {
  bool token_ids = false;       // accepts prompts as arrays of token ids
  bool max_completion = false;  // chat: max_completion_tokens instead of max_tokens
  bool min_tokens = false, ignore_eos = false;
  bool usage = false;             // stream_options.include_usage
  bool continuous_usage = false;  // stream_options.continuous_usage_stats
  bool priority = false;          // vLLM: the lower is served sooner
  bool operator==(const Features&) const = default;
};

/// A prompt: token ids or text.
struct Prompt {
  std::vector<std::int32_t> ids;  // empty if the prompt is text
  std::string text;
  std::uint64_t session = 0;  // sent as the user, by which routers recognise a session; 0: none
  std::int32_t priority = 0;
};

/// What the requests of a run have in common. `model` may be empty.
struct RequestForm {
  Api api = Api::openai;
  Features features;
  std::string_view model;
};

/// Returns the body of a streamed request for `output` tokens.
[[nodiscard]] std::string request_body(const RequestForm& form, const Prompt& prompt, std::int32_t output);

}  // namespace plimsoll::endpoints
