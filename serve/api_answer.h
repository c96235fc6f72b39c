// SPDX-License-Identifier: Apache-2.0
// Answers in the formats of the served APIs: complete, as events of a stream, and errors. The text of a simulated
// deployment consists of words without meaning, one per token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sched/types.h"
#include "serve/answer_text.h"
#include "serve/api_request.h"
#include "serve/server_metrics.h"

namespace plimsoll::serve {

/// What all parts of one answer have in common.
struct AnswerHead {
  Api api = Api::completions;
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string_view model;    // a JSON string, quotes included
  sched::Tok input = 0;
  bool include_usage = false, continuous_usage = false, details = false, cache_usage = false;
};

/// Tokens `from` to `to` of an answer. The last part also carries `finish` and the end of the stream.
struct AnswerPart {
  sched::Tok from = 0, to = 0;
  bool last = false;
  Finish finish = Finish::stop;
  sched::Tok cached = 0;             // prompt tokens found in the prefix cache
  const AnswerText* text = nullptr;  // null: words without meaning
};

/// Returns one part of a stream as server-sent events.
[[nodiscard]] std::string stream_events(const AnswerHead& head, const AnswerPart& part);
/// Returns the event that ends a stream with an error after its first part.
[[nodiscard]] std::string stream_error(Api api, const ApiError& error);
/// Returns the complete answer; part.from must be 0.
[[nodiscard]] std::string whole_answer(const AnswerHead& head, const AnswerPart& part);
[[nodiscard]] std::string error_body(Api api, const ApiError& error);
/// Returns the text as a JSON string with its quotes. Invalid UTF-8 is replaced.
[[nodiscard]] std::string json_text(std::string_view text);

}  // namespace plimsoll::serve
