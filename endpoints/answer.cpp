// SPDX-License-Identifier: Apache-2.0
#include "endpoints/answer.h"

#include <algorithm>
#include <array>

namespace plimsoll::endpoints {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kErrorBody = 4096, kRetryAfter = 6;
constexpr std::string_view kDone = "[DONE]";

struct StatusCode {
  int status;
  const char* code;
};
// The codes of docs/endpoints.md. "failed" is an error of the server; the other codes are legitimate answers.
constexpr std::array<StatusCode, 8> kStatusCodes{{{400, "bad_request"},
                                                  {422, "unprocessable"},
                                                  {429, "too_many_requests"},
                                                  {503, "unavailable"},
                                                  {424, "failed: dependency"},
                                                  {500, "failed: server_error"},
                                                  {502, "failed: bad_gateway"},
                                                  {504, "failed: gateway_timeout"}}};

const char* code_of(int status) {
  for (const StatusCode& row : kStatusCodes)
    if (row.status == status) return row.code;
  if (status >= 300 && status < 400) return "failed: redirect";
  return status >= 500 ? "failed: server_error" : "failed: status";
}

}  // namespace

std::string_view name(TokenCount count) {
  switch (count) {
    case TokenCount::chunks: return "chunks";
    case TokenCount::ids: return "token ids";
    case TokenCount::usage_at_end: return "usage at the end";
    case TokenCount::usage_in_chunks: return "usage in every chunk";
  }
  return "";
}

Answer::Answer(Api api, std::int32_t most_tokens, Events events)
    : api_(api), most_tokens_(most_tokens), events_(std::move(events)), now_(Clock::now()), last_token_(now_) {}

bool Answer::refuse(std::uint16_t http, const char* code) {
  if (!result_.refusal) result_.refusal = Refusal{http, code};
  return false;
}

void Answer::refuse_status(const net::HttpHead& head) {
  (void)refuse(static_cast<std::uint16_t>(std::clamp(head.status, 0, 999)), code_of(head.status));
  const std::string_view wait = head.field("retry-after").substr(0, kRetryAfter);
  const bool seconds = wait.find_first_not_of("0123456789") == std::string_view::npos;
  result_.retry_after = seconds ? std::string(wait) : "date";
}

bool Answer::head(const net::HttpHead& head) {
  now_ = Clock::now();
  if (head.status != 200) {
    refuse_status(head);
    return true;
  }
  const std::string_view encoding = head.field("content-encoding");
  if (!encoding.empty() && encoding != "identity") return refuse(200, "failed: compressed");
  const std::string type = head.content_type();
  if (type == "text/event-stream") {
    reader_ = net::SseReader();
  } else if (type == "application/jsonlines" || type == "application/x-ndjson" || type == "application/jsonl") {
    reader_ = net::JsonLinesReader();
  } else {
    return refuse(200, "failed: content_type");
  }
  return true;
}

bool Answer::body(std::string_view bytes) {
  if (over_) return true;  // what follows the end of the stream
  now_ = Clock::now();
  if (result_.refusal) {
    error_body_ += bytes.substr(0, kErrorBody - error_body_.size());
    return error_body_.size() < kErrorBody;
  }
  const net::OnMessage on_message = [this](const net::StreamMessage& text) { return message(text); };
  const bool goes_on = std::visit(
      [&](auto& reader) {
        if constexpr (std::is_same_v<std::decay_t<decltype(reader)>, std::monostate>) {
          return false;
        } else {
          return reader.feed(bytes, on_message);
        }
      },
      reader_);
  return goes_on || refuse(200, "failed: malformed_stream");
}

bool Answer::message(const net::StreamMessage& text) {
  if (done_) return true;  // messages after the end are ignored
  if (text.data == kDone) {
    done_ = true;
    finish();
    return true;
  }
  const std::optional<Chunk> chunk = read_chunk(text.data);
  if (!chunk) return refuse(200, "failed: malformed_stream");
  if (chunk->error || text.event == "error") {
    result_.words = chunk->error_text;
    return refuse(200, "failed: error_event");
  }
  count(*chunk);
  finished_ = finished_ || chunk->finished;
  if (result_.tokens > most_tokens_) return refuse(200, "failed: too_many_tokens");
  return true;
}

// A cumulative count in every chunk is the best; else the ids of the chunk; else a chunk with content is a token. A
// count that comes only with the end is the total, which corrects or confirms the others.
void Answer::count(const Chunk& chunk) {
  if (chunk.prompt_tokens.value_or(0) > 0) result_.prompt_tokens = chunk.prompt_tokens;  // 0: the server does not count
  if (chunk.cached_tokens) result_.cached_tokens = chunk.cached_tokens;
  const bool ends = chunk.finished || finished_;
  if (chunk.completion_tokens && (!ends || result_.count == TokenCount::usage_in_chunks)) {
    result_.count = TokenCount::usage_in_chunks;
    emit(*chunk.completion_tokens - result_.tokens);
    return;
  }
  if (result_.count == TokenCount::usage_in_chunks) return;
  if (chunk.ids > 0) result_.count = TokenCount::ids;
  emit(chunk.ids > 0 ? chunk.ids : chunk.text ? 1 : 0);
  if (!chunk.completion_tokens) return;
  if (*chunk.completion_tokens == result_.tokens && result_.count == TokenCount::ids) return;
  result_.count = TokenCount::usage_at_end;
  if (result_.tokens == 0) return emit(*chunk.completion_tokens);
  // The stated total is right, but the tokens that it adds have no times of their own.
  result_.tokens = *chunk.completion_tokens;
}

void Answer::emit(std::int32_t tokens) {
  if (tokens <= 0) return;
  if (result_.tokens == 0) result_.first_token = now_;
  result_.last_token = last_token_ = now_;
  result_.tokens += tokens;
  events_.tokens(now_, tokens);
}

void Answer::sent(const net::HttpEnd& so_far) {
  result_.sent = so_far.sent;
  result_.connecting = so_far.connecting;
  result_.reopened = so_far.reopened;
}

void Answer::ended(const net::HttpEnd& end) {
  if (over_) return;
  over_ = true;
  sent(end);
  now_ = Clock::now();
  if (end.failure) {
    switch (*end.failure) {
      case net::HttpFailure::refused:
        result_.connection_refused = true;
        (void)refuse(0, "failed: connection");
        result_.words = end.text;
        break;
      case net::HttpFailure::tls: (void)refuse(0, "failed: tls"); break;
      case net::HttpFailure::closed:
        (void)refuse(0, result_.tokens > 0 ? "failed: cut_stream" : "failed: connection_closed");
        break;
      case net::HttpFailure::malformed: (void)refuse(0, "failed: malformed_http"); break;
      case net::HttpFailure::stopped: break;  // refuse() has said why
    }
  }
  finish();
}

void Answer::finish() {
  over_ = true;
  if (auto* const lines = std::get_if<net::JsonLinesReader>(&reader_); lines != nullptr && !result_.refusal)
    if (!lines->finish([this](const net::StreamMessage& text) { return message(text); }))
      (void)refuse(200, "failed: malformed_stream");
  if (!result_.refusal && !done_ && !finished_) (void)refuse(200, "failed: cut_stream");
  if (!result_.refusal && result_.tokens == 0) (void)refuse(200, "failed: empty_answer");
  if (result_.words.empty()) result_.words = error_body_.empty() ? std::string() : error_message(error_body_);
  result_.end = result_.refusal ? now_ : std::max(result_.last_token, result_.first_token);
  events_.ended(result_);
}

}  // namespace plimsoll::endpoints
