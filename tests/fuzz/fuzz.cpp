// SPDX-License-Identifier: Apache-2.0
// Feeds the parsers of untrusted bytes with almost valid inputs: samples that are cut, joined, repeated or have changed
// bytes, in pieces of any size. Nothing may crash, and memory must stay bounded; sanitizers check that.
#include <array>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "endpoints/chunk.h"
#include "endpoints/redact.h"
#include "endpoints/server.h"
#include "model/error.h"
#include "net/http_request_reader.h"
#include "net/http_response.h"
#include "net/sse.h"
#include "net/url.h"
#include "serve/api_request.h"

namespace {

using namespace plimsoll;

/// Cuts a text into pieces of any size.
using Pieces = std::function<std::size_t()>;
using Feed = std::function<void(const std::string&, const Pieces&)>;

struct Parser {
  std::vector<std::string> samples;
  Feed feed;
};

template <class Take>
void in_pieces(const std::string& text, const Pieces& pieces, Take take) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = std::min(text.size() - at, pieces());
    if (!take(std::string_view(text).substr(at, size))) return;
    at += size;
  }
}

void feed_http(const std::string& text, const Pieces& pieces) {
  std::size_t body = 0;
  net::HttpResponseReader reader({.head = [](const net::HttpHead& head) { return head.content_type() != "stop"; },
                                  .body =
                                      [&](std::string_view bytes) {
                                        body += bytes.size();
                                        return true;
                                      }});
  in_pieces(text, pieces,
            [&](std::string_view bytes) { return reader.feed(bytes) == net::HttpResponseReader::State::reading; });
  if (reader.ended() == net::HttpResponseReader::State::reading || body > text.size()) std::abort();
}

// As in the server: bytes that the reader leaves are put in front of the next piece.
void feed_request(const std::string& text, const Pieces& pieces) {
  const net::HttpLimits limits{.header_bytes = 1024, .body_bytes = 512};
  net::HttpRequestReader reader(limits);
  std::string bytes;
  in_pieces(text, pieces, [&](std::string_view piece) {
    bytes += piece;
    for (std::size_t before = bytes.size() + 1; !bytes.empty() && bytes.size() < before;) {
      before = bytes.size();
      if (const auto state = reader.feed(bytes); state != net::HttpRequestReader::State::reading) {
        if (state == net::HttpRequestReader::State::faulty && reader.fault().empty()) std::abort();
        if (state == net::HttpRequestReader::State::done && reader.take().body.size() > limits.body_bytes) std::abort();
        return false;
      }
    }
    return true;
  });
}

void feed_api(const std::string& text, const Pieces& pieces) {
  constexpr std::array kApis{serve::Api::completions, serve::Api::chat, serve::Api::tgi};
  const serve::Api api = kApis.at(pieces() % kApis.size());
  const auto read = serve::read_request(api, text, {.chars_per_token = 4, .hash_tokens = 16});
  if (const auto* const error = std::get_if<serve::ApiError>(&read); error != nullptr && error->message.empty())
    std::abort();
}

template <class Reader>
void feed_stream(const std::string& text, const Pieces& pieces) {
  Reader reader;
  std::size_t total = 0;
  in_pieces(text, pieces, [&](std::string_view bytes) {
    return reader.feed(bytes, [&](const net::StreamMessage& message) {
      total += message.data.size() + message.event.size();
      return true;
    });
  });
  if (total > text.size()) std::abort();
}

void feed_chunk(const std::string& text, const Pieces&) {
  if (const auto chunk = endpoints::read_chunk(text); chunk && chunk->completion_tokens.value_or(0) < 0) std::abort();
}

void feed_error(const std::string& text, const Pieces&) {
  if (endpoints::shown_text(endpoints::error_message(text), {"secret"}, "what was sent").size() > 200) std::abort();
}

void feed_url(const std::string& text, const Pieces&) {
  try {
    const net::Url url = net::parse_url(text, "url");
    if (net::parse_url(url.text(), "url") != url) std::abort();
  } catch (const InputError&) {}
}

const std::map<std::string, Parser> kParsers{
    {"http_response",
     {{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\nhello",
       "HTTP/1.0 503 Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n",
       "FFFFFFFFFFFFFFFF\r\n", "1;ext=\"q\"\r\na\r\n", "A: b\r\n c\r\n"},
      feed_http}},
    {"http_request",
     {{"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
       "GET /metrics?x HTTP/1.0\r\nAuthorization: Bearer k\r\nConnection: keep-alive\r\n\r\n",
       "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: "
       "100-continue\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: x\r\n\r\n",
       "Content-Encoding: gzip\r\n", "FFFFFFFFFFFFFFFF\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      feed_request}},
    {"api_request",
     {{R"({"prompt":[1,2,3],"max_tokens":4,"stream":true,"stream_options":{"include_usage":true},"stop":["a"]})",
       R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_completion_tokens":9,"user":"u"})",
       R"({"inputs":"text","parameters":{"max_new_tokens":5,"details":true,"best_of":1}})", R"("priority":-1)",
       R"({"prompt":[["a"]],"n":1,"temperature":0.5,"tools":[],"logit_bias":{"1":1e9}})", "\"\\ud83d\\ude00\"",
       "[[[[[["},
      feed_api}},
    {"sse",
     {{"data: {\"a\":1}\n\n", "event: error\r\ndata: x\r\ndata: y\r\n\r\n", ": ping\r\r", "\xEF\xBB\xBFid: 1\n",
       "data:[DONE]\n\n"},
      feed_stream<net::SseReader>}},
    {"json_lines", {{"{\"a\":1}\n", "{\"b\":[1,2]}\r\n", "\n \n"}, feed_stream<net::JsonLinesReader>}},
    {"chunk",
     {{R"({"choices":[{"text":"a","finish_reason":null,"token_ids":[1,2]}],"usage":{"completion_tokens":3}})",
       R"({"choices":[{"delta":{"role":"assistant","content":"b"},"logprobs":{"content":[{"token":"x"}]}}]})",
       R"({"token":{"id":1,"text":"a","special":false},"generated_text":null,"details":{"generated_tokens":1e9}})",
       R"({"error":{"message":"no","type":"x"}})", "\"\\ud83d\\ude00\"", "[[[[[[", "-0.1e-308"},
      feed_chunk}},
    {"error_message",
     {{R"({"error":{"message":"the secret, what was sent"}})", R"({"detail":[1,2,3]})", "1, 2, 3, 4", "<html>"},
      feed_error}},
    {"prometheus",
     {{"vllm:x{a=\"b\",c=\"\\\"\"} 1.5\n", "# HELP x\n", "x +Inf 17\n", "y{} NaN\r\n", "z 1e-400\n",
       "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"99999\"} 1\n", "vllm:kv_cache_usage_perc 0.5\n"},
      [](const std::string& text, const Pieces&) { (void)endpoints::read_server_state(text); }}},
    {"url",
     {{"http://host:80/path", "https://[::1]:443/", "http://127.0.0.1", "user:pass@", "/a/b/", "?q#f"}, feed_url}}};

class Mutator {
 public:
  Mutator(const std::vector<std::string>& samples, std::uint64_t seed) : samples_(samples), random_(seed) {}

  std::string next() {
    std::string text = pick();
    for (std::size_t changes = below(8); changes > 0; --changes) change(text);
    return text.substr(0, kLongest);
  }
  std::size_t below(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }

 private:
  static constexpr std::size_t kLongest = 4096;

  const std::string& pick() { return samples_[below(samples_.size())]; }

  void change(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0: text.insert(at, pick()); break;
      case 1: text.insert(at, 1, static_cast<char>(below(256))); break;
      case 2: text.erase(at, below(8)); break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ static_cast<char>(1U << below(8)));
        break;
      case 4: text.insert(at, std::string(below(300), "\r\n0{[ \"\xFF"[below(8)])); break;
      default: text += text.substr(at, 200); break;
    }
  }

  const std::vector<std::string>& samples_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int count, char** words) {
  const auto found = count >= 3 ? kParsers.find(words[1]) : kParsers.end();
  if (found == kParsers.end()) {
    std::cerr << "usage: plimsoll_fuzz PARSER COUNT [SEED]; parsers:";
    for (const auto& [name, parser] : kParsers) std::cerr << ' ' << name;
    std::cerr << '\n';
    return 2;
  }
  Mutator mutator(found->second.samples, count > 3 ? std::strtoull(words[3], nullptr, 10) : 1);
  const Pieces pieces = [&] { return 1 + mutator.below(40); };
  for (std::uint64_t left = std::strtoull(words[2], nullptr, 10); left > 0; --left)
    found->second.feed(mutator.next(), pieces);
  std::cout << "done\n";
  return 0;
}
