// SPDX-License-Identifier: Apache-2.0
// Parses requests of the served APIs: OpenAI's completions and chat completions, and TGI's. Fields that cannot be
// simulated, or that the executor of a real model does not implement, are refused by name. Simulated deployments check
// and drop the fields that do not affect timing. Unknown fields are ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "sched/types.h"
#include "serve/answer_text.h"
#include "serve/arrivals.h"

namespace plimsoll::serve {

enum class Api : std::uint8_t { completions, chat, tgi };

/// An error in the form of OpenAI's API.
struct ApiError {
  int status = 400;
  std::string message = {};
  std::string param = {};  // the name of the field; empty if none
  std::string code = {};   // empty if none
};

struct ApiRequest {
  std::string model;  // empty if not stated
  bool stream = false, include_usage = false, continuous_usage = false;
  bool details = false;  // TGI only
  std::int64_t input = 0;
  std::vector<std::uint64_t> hashes;  // of the blocks of the prompt
  sched::Tok max_tokens = 0;          // 0 if not stated
  sched::Tok min_tokens = 0;
  bool ignore_eos = false;
  std::uint64_t session = 0;  // from the field `user`; 0 if none
  std::optional<std::int32_t> priority;
  // With a vocabulary:
  std::shared_ptr<TokenCall> tokens = {};
  std::optional<std::uint64_t> seed = {};  // none: the server draws one
  StopRules stops = {};
};

struct PromptRules {
  double chars_per_token = 4;
  sched::Tok hash_tokens = 0;  // tokens per hashed block; 0 for no hashes
  /// That of a real model; null for a simulated deployment. It must outlive its readers.
  const Vocabulary* vocabulary = nullptr;
  bool filters = true;  // the model obeys top_k, top_p and min_p
};

[[nodiscard]] std::variant<ApiRequest, ApiError> read_request(Api api, std::string_view body, const PromptRules& rules);

}  // namespace plimsoll::serve
