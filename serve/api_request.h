// SPDX-License-Identifier: Apache-2.0
// Requests of the APIs that the server speaks: OpenAI's completions and chat completions, and TGI's. What cannot be
// simulated is refused by the name of its field; fields that change no timing are checked and left; unknown ones are
// ignored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sched/types.h"

namespace plimsoll::serve {

enum class Api : std::uint8_t { completions, chat, tgi };

/// An error as OpenAI's API reports it.
struct ApiError {
  int status = 400;
  std::string message = {};
  std::string param = {};  // the field; empty: none
  std::string code = {};   // empty: none
};

struct ApiRequest {
  std::string model;  // empty: not stated
  bool stream = false, include_usage = false, continuous_usage = false;
  bool details = false;  // TGI
  std::int64_t input = 0;
  std::vector<std::uint64_t> hashes;  // of the prompt's blocks
  sched::Tok max_tokens = 0;          // 0: not stated
  sched::Tok min_tokens = 0;
  bool ignore_eos = false;
  std::uint64_t session = 0;  // of the field user; 0: none
};

struct PromptRules {
  double chars_per_token = 4;
  sched::Tok hash_tokens = 0;  // of a block; 0: no hashes
};

[[nodiscard]] std::variant<ApiRequest, ApiError> read_request(Api api, std::string_view body, const PromptRules& rules);

}  // namespace plimsoll::serve
