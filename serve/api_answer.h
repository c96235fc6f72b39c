// SPDX-License-Identifier: Apache-2.0
// Answers of the APIs that the server speaks: whole, as events of a stream, and errors. The text is made of words that
// mean nothing, one a token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sched/types.h"
#include "serve/api_request.h"
#include "serve/server_metrics.h"

namespace plimsoll::serve {

/// What the answers of one request have in common.
struct AnswerHead {
  Api api = Api::completions;
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string_view model;    // as a JSON string, quotes included
  sched::Tok input = 0;
  bool include_usage = false, continuous_usage = false, details = false, cache_usage = false;
};

/// Tokens `from` to `to` of an answer of `to` tokens so far; `finish` and the end of the stream if it is the last part.
struct AnswerPart {
  sched::Tok from = 0, to = 0;
  bool last = false;
  Finish finish = Finish::stop;
  sched::Tok cached = 0;  // prompt tokens found in the prefix cache
};

/// The events of one part of a stream, as server-sent events.
[[nodiscard]] std::string stream_events(const AnswerHead& head, const AnswerPart& part);
/// The event of a stream that ends with an error after its first part.
[[nodiscard]] std::string stream_error(Api api, const ApiError& error);
/// The whole answer; part.from is 0.
[[nodiscard]] std::string whole_answer(const AnswerHead& head, const AnswerPart& part);
[[nodiscard]] std::string error_body(Api api, const ApiError& error);
/// The text as a JSON string, quotes included; bytes that are no UTF-8 are replaced.
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace plimsoll::serve
