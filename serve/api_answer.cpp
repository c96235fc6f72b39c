// SPDX-License-Identifier: Apache-2.0
#include "serve/api_answer.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "serve/answer_text.h"

namespace plimsoll::serve {

namespace {

void append_words(std::string& out, sched::Tok from, sched::Tok to) {
  for (sched::Tok i = from; i < to; ++i) {
    if (i > 0) out += ' ';
    out += word(i);
  }
}

// Appends the text of tokens `from` to `to` as a part of a JSON string, without its quotes.
void append_text(std::string& out, const AnswerPart& part, sched::Tok from, sched::Tok to) {
  if (part.text == nullptr) return append_words(out, from, to);
  const std::string quoted = json_text(part.text->text(from, to));
  out.append(quoted, 1, quoted.size() - 2);
}

template <class... Args>
void append(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

void append_usage(std::string& out, const AnswerHead& head, const AnswerPart& part) {
  append(out, R"({{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{})", head.input, head.input + part.to,
         part.to);
  if (head.cache_usage)
    append(out, R"(,"prompt_tokens_details":{{"cached_tokens":{}}})", part.cached);
  else
    out += R"(,"prompt_tokens_details":null)";
  out += '}';
}

std::string finish_text(const AnswerPart& part) {
  return part.last ? fmt::format("\"{}\"", kFinishNames.at(static_cast<std::size_t>(part.finish))) : "null";
}

// Returns what ended the answer, in the format of vLLM: a stop token or string of the client, else null.
std::string stop_reason(const AnswerPart& part) {
  if (!part.last || part.text == nullptr) return "null";
  const auto& reason = part.text->stop_reason();
  if (const auto* const token = std::get_if<std::int32_t>(&reason)) return std::to_string(*token);
  const auto* const string = std::get_if<std::string>(&reason);
  return string != nullptr ? json_text(*string) : "null";
}

void begin_event(std::string& out, const AnswerHead& head, std::string_view object) {
  append(out, R"(data: {{"id":"{}","object":"{}","created":{},"model":{},"choices":[)", head.id, object, head.created,
         head.model);
}

void end_event(std::string& out, const AnswerHead& head, const AnswerPart& part) {
  out += ']';
  if (head.continuous_usage) {
    out += ",\"usage\":";
    append_usage(out, head, part);
  } else if (head.include_usage) {
    out += ",\"usage\":null";
  }
  out += "}\n\n";
}

void append_last_events(std::string& out, const AnswerHead& head, const AnswerPart& part, std::string_view object) {
  if (!part.last) return;
  if (head.include_usage) {
    begin_event(out, head, object);
    out += "],\"usage\":";
    append_usage(out, head, part);
    out += "}\n\n";
  }
  out += "data: [DONE]\n\n";
}

void completion_events(std::string& out, const AnswerHead& head, const AnswerPart& part) {
  constexpr std::string_view kObject = "text_completion";
  begin_event(out, head, kObject);
  out += R"({"index":0,"text":")";
  append_text(out, part, part.from, part.to);
  append(out, R"(","logprobs":null,"finish_reason":{},"stop_reason":{}}})", finish_text(part), stop_reason(part));
  end_event(out, head, part);
  append_last_events(out, head, part, kObject);
}

void chat_events(std::string& out, const AnswerHead& head, const AnswerPart& part) {
  constexpr std::string_view kObject = "chat.completion.chunk";
  // A chat stream begins with an event that has the role but no text.
  if (part.from == 0) {
    begin_event(out, head, kObject);
    out += R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null})";
    AnswerPart none = part;
    none.to = 0;
    end_event(out, head, none);
  }
  begin_event(out, head, kObject);
  out += R"({"index":0,"delta":{"content":")";
  append_text(out, part, part.from, part.to);
  append(out, R"("}},"logprobs":null,"finish_reason":{}}})", finish_text(part));
  end_event(out, head, part);
  append_last_events(out, head, part, kObject);
}

std::string_view tgi_finish(const AnswerPart& part) {
  if (part.finish == Finish::length) return "length";
  const bool named = part.text != nullptr && !std::holds_alternative<std::monostate>(part.text->stop_reason());
  return named ? "stop_sequence" : "eos_token";
}

// Probabilities are not computed. They are null for a real model, and a number without meaning for a simulated
// deployment.
void append_tgi_token(std::string& out, const AnswerPart& part, sched::Tok i) {
  if (part.text == nullptr) {
    append(out, R"({{"id":{},"text":"{}{}","logprob":-1.0,"special":false}})",
           static_cast<std::size_t>(i) % kWords.size(), i > 0 ? " " : "", word(i));
    return;
  }
  append(out, R"({{"id":{},"text":{},"logprob":null,"special":{}}})", part.text->id(i),
         json_text(part.text->text(i, i + 1)), part.text->is_special(i));
}

// TGI's stream has one event per token and no closing event.
void tgi_events(std::string& out, const AnswerHead& head, const AnswerPart& part) {
  for (sched::Tok i = part.from; i < part.to; ++i) {
    const bool last = part.last && i + 1 == part.to;
    append(out, R"(data:{{"index":{},"token":)", i + 1);
    append_tgi_token(out, part, i);
    out += R"(,"generated_text":)";
    if (!last) {
      out += R"(null,"details":null})";
    } else {
      out += '"';
      append_text(out, part, 0, part.to);
      append(out, R"(","details":{{"finish_reason":"{}","generated_tokens":{},"seed":null,"input_length":{}}}}})",
             tgi_finish(part), part.to, head.input);
    }
    out += "\n\n";
  }
}

std::string tgi_answer(const AnswerHead& head, const AnswerPart& part) {
  std::string out = R"({"generated_text":")";
  append_text(out, part, 0, part.to);
  out += '"';
  if (head.details) {
    append(out, R"(,"details":{{"finish_reason":"{}","generated_tokens":{},"seed":null,"prefill":[],"tokens":[)",
           tgi_finish(part), part.to);
    for (sched::Tok i = 0; part.text != nullptr && i < part.to; ++i) {
      if (i > 0) out += ',';
      append_tgi_token(out, part, i);
    }
    out += "]}";
  }
  return out + '}';
}

std::string_view error_type(int status) {
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

std::string_view tgi_error_type(int status) {
  if (status == 429) return "overloaded";
  return status >= 500 ? "generation" : "validation";
}

}  // namespace

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string stream_events(const AnswerHead& head, const AnswerPart& part) {
  std::string out;
  switch (head.api) {
    case Api::completions: completion_events(out, head, part); break;
    case Api::chat: chat_events(out, head, part); break;
    case Api::tgi: tgi_events(out, head, part); break;
  }
  return out;
}

std::string stream_error(Api api, const ApiError& error) {
  return (api == Api::tgi ? "data:" : "data: ") + error_body(api, error) + "\n\n";
}

std::string whole_answer(const AnswerHead& head, const AnswerPart& part) {
  if (head.api == Api::tgi) return tgi_answer(head, part);
  const bool chat = head.api == Api::chat;
  std::string out = fmt::format(R"({{"id":"{}","object":"{}","created":{},"model":{},"choices":[{{"index":0,)", head.id,
                                chat ? "chat.completion" : "text_completion", head.created, head.model);
  out += chat ? R"("message":{"role":"assistant","content":")" : R"("text":")";
  append_text(out, part, 0, part.to);
  out += chat ? R"(","refusal":null})" : "\"";
  append(out, R"(,"logprobs":null,"finish_reason":{},"stop_reason":{}}}],"usage":)", finish_text(part),
         stop_reason(part));
  append_usage(out, head, part);
  return out + '}';
}

std::string error_body(Api api, const ApiError& error) {
  if (api == Api::tgi)
    return fmt::format(R"({{"error":{},"error_type":"{}"}})", json_text(error.message), tgi_error_type(error.status));
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})", json_text(error.message),
                     error_type(error.status), error.param.empty() ? "null" : json_text(error.param),
                     error.code.empty() ? "null" : json_text(error.code));
}

}  // namespace plimsoll::serve
