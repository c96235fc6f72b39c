// SPDX-License-Identifier: Apache-2.0
// Follows one streamed answer: when its tokens arrived, how it ended, and what was wrong with it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "endpoints/api.h"
#include "endpoints/chunk.h"
#include "net/http_client.h"
#include "net/sse.h"
#include "sched/types.h"

namespace plimsoll::endpoints {

/// How the tokens of an answer were counted, from the least to the most reliable way.
enum class TokenCount : std::uint8_t { chunks, ids, usage_at_end, usage_in_chunks };
inline constexpr std::size_t kTokenCounts = 4;
[[nodiscard]] std::string_view name(TokenCount count);

/// Why an answer counts as rejected. `code` is one of the codes of docs/endpoints.md, which never change.
struct Refusal {
  std::uint16_t http = 0;  // the HTTP status; 0 if none arrived
  const char* code = "";
};

struct AnswerResult {
  net::Deadline sent{}, first_token{}, last_token{}, end{};  // first_token is default-initialized if no token arrived
  std::chrono::nanoseconds connecting{0};
  bool reopened = false;
  std::int32_t tokens = 0;
  TokenCount count = TokenCount::chunks;
  std::optional<std::int32_t> prompt_tokens, cached_tokens;
  std::optional<Refusal> refusal;   // empty for a complete answer
  std::string words;                // the server's text on the refusal, at most 4096 bytes, not redacted
  std::string retry_after;          // seconds, or "date"; empty if not given
  bool connection_refused = false;  // nothing listens at the address
};

class Answer final : public net::HttpCall {
 public:
  /// Called with the time of each piece and its number of tokens, and once with the result. The result comes as soon as
  /// the answer says that it is complete; the connection may end later.
  struct Events {
    std::function<void(net::Deadline at, std::int32_t tokens)> tokens;
    std::function<void(const AnswerResult&)> ended;
  };
  /// Cuts off an answer that has more than `most_tokens` tokens.
  Answer(Api api, std::int32_t most_tokens, Events events);

  bool head(const net::HttpHead& head) override;
  bool body(std::string_view bytes) override;
  void sent(const net::HttpEnd& so_far) override;
  void ended(const net::HttpEnd& end) override;

  /// Returns when the last token arrived, or when the request started if none has. Bytes without tokens do not count.
  [[nodiscard]] net::Deadline last_token() const { return last_token_; }
  [[nodiscard]] bool has_tokens() const { return result_.tokens > 0; }
  /// Returns whether a finish reason has arrived, although nothing may have ended the answer yet.
  [[nodiscard]] bool is_complete() const { return finished_ && !result_.refusal; }
  /// Ends the answer as if the connection had been closed now.
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
