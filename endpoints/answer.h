// SPDX-License-Identifier: Apache-2.0
// Follows one streamed answer: when its tokens came, how it ended, and what was wrong with it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "endpoints/api.h"
#include "endpoints/chunk.h"
#include "net/http_client.h"
#include "net/sse.h"
#include "sched/types.h"

namespace plimsoll::endpoints {

/// How the tokens of an answer were counted; the best that its server gives.
enum class TokenCount : std::uint8_t { chunks, ids, usage_at_end, usage_in_chunks };
inline constexpr std::size_t kTokenCounts = 4;
[[nodiscard]] std::string_view name(TokenCount count);

/// Why an answer counts as rejected; text is a code of docs/endpoints.md that never changes.
struct Refusal {
  std::uint16_t http = 0;  // 0: none came
  const char* code = "";
};

struct AnswerResult {
  net::Deadline sent{}, first_token{}, last_token{}, end{};  // first_token is sent's default: none came
  std::chrono::nanoseconds connecting{0};
  bool reopened = false;
  std::int32_t tokens = 0;
  TokenCount count = TokenCount::chunks;
  std::optional<std::int32_t> prompt_tokens, cached_tokens;
  std::optional<Refusal> refusal;   // none: a complete answer
  std::string words;                // of the server about the refusal, at most 4096 bytes, not fit to be shown
  std::string retry_after;          // seconds, or "date"; empty: none
  bool connection_refused = false;  // nothing listens
};

class Answer final : public net::HttpCall {
 public:
  /// Called with the time of a piece and how many tokens it brought, and once with the result. That is as soon as the
  /// answer says that it is complete; the connection may end it later.
  struct Events {
    std::function<void(net::Deadline at, std::int32_t tokens)> tokens;
    std::function<void(const AnswerResult&)> ended;
  };
  /// An answer with more than `most_tokens` is cut off.
  Answer(Api api, std::int32_t most_tokens, Events events);

  bool head(const net::HttpHead& head) override;
  bool body(std::string_view bytes) override;
  void sent(const net::HttpEnd& so_far) override;
  void ended(const net::HttpEnd& end) override;

  /// When a token came last; the request's start before. Bytes without tokens keep no answer alive.
  [[nodiscard]] net::Deadline last_token() const { return last_token_; }
  [[nodiscard]] bool has_tokens() const { return result_.tokens > 0; }
  /// A reason to finish has come, though nothing has ended the answer.
  [[nodiscard]] bool is_complete() const { return finished_ && !result_.refusal; }
  /// As if the connection had ended now.
  void finish();

 private:
  [[nodiscard]] bool message(const net::StreamMessage& message);
  void count(const Chunk& chunk);
  void emit(std::int32_t tokens);
  bool refuse(std::uint16_t http, const char* code);
  void refuse_status(const net::HttpHead& head);

  Api api_;
  std::int32_t most_tokens_;
  Events events_;
  AnswerResult result_;
  std::variant<std::monostate, net::SseReader, net::JsonLinesReader> reader_;
  std::string error_body_;
  net::Deadline now_, last_token_;
  bool finished_ = false, done_ = false, over_ = false;
};

}  // namespace plimsoll::endpoints
