// SPDX-License-Identifier: Apache-2.0
// A small OpenAI-compatible server in this process: immediately answers with the requested number of tokens. Tests
// replace the answer to completions.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/net/canned_server.h"

namespace plimsoll::endpoints {

inline std::string with_length(int status, const std::string& type, const std::string& body) {
  return fmt::format("HTTP/1.1 {} X\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}", status, type, body.size(),
                     body);
}
inline std::string chunked(const std::string& bytes) { return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes); }
inline std::string stream_head() {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
}

class OpenAiStub {
 public:
  /// Answers a request for completions, given as JSON, after the probes.
  using Answer = std::function<void(net::CannedPeer& peer, const nlohmann::json& request)>;
  explicit OpenAiStub(Answer answer = {})
      : answer_(std::move(answer)), server_([this](net::CannedPeer& peer) { serve(peer); }) {}

  [[nodiscard]] std::string url() const { return server_.url(); }
  [[nodiscard]] std::vector<nlohmann::json> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// Returns the header of the last request of any kind.
  [[nodiscard]] std::string last_header() const {
    const std::lock_guard lock(mutex_);
    return header_;
  }
  std::string models = R"({"data":[{"id":"stub","owned_by":"vllm","max_model_len":4096}]})";
  std::string props;                             // of llama.cpp; empty: there are none
  std::vector<std::string> refused_fields = {};  // with 400
  std::vector<std::string> ignored_fields = {};  // as if they were not there

  std::string stated_prompt_tokens;                // in the usage of probes, in place of the right number
  std::vector<std::string> refused_together = {};  // with 400 if a request has them all

  /// Streams the tokens of a request, one event each, with usage; `stated`: its prompt tokens, unless they are right.
  static void stream(net::CannedPeer& peer, const nlohmann::json& request, const std::string& stated = {}) {
    const int tokens = tokens_of(request);
    const auto prompt = request.contains("prompt") && request["prompt"].is_array() ? request["prompt"].size() : 4;
    std::string text = stream_head();
    for (int i = 1; i <= tokens; ++i) {
      const std::string usage = fmt::format(R"("usage":{{"prompt_tokens":{},"completion_tokens":{}}})",
                                            stated.empty() ? std::to_string(prompt) : stated, i);
      text += chunked(fmt::format("data: {{\"choices\":[{{\"text\":\"a\",\"finish_reason\":{}}}],{}}}\n\n",
                                  i == tokens ? "\"length\"" : "null", usage));
    }
    peer.send(text + chunked("data: [DONE]\n\n") + "0\r\n\r\n");
  }

 private:
  void serve(net::CannedPeer& peer) {
    for (std::string text = peer.request(); !text.empty(); text = peer.request()) {
      {
        const std::lock_guard lock(mutex_);
        header_ = text.substr(0, text.find("\r\n\r\n"));
      }
      if (text.starts_with("GET /v1/models")) {
        peer.send(with_length(200, "application/json", models));
      } else if (text.starts_with("GET /version")) {
        peer.send(with_length(200, "application/json", R"({"version":"0.9"})"));
      } else if (text.starts_with("GET /props") && !props.empty()) {
        peer.send(with_length(200, "application/json", props));
      } else if (text.starts_with("POST /v1/completions") || text.starts_with("POST /v1/chat/completions")) {
        complete(peer, nlohmann::json::parse(text.substr(text.find("\r\n\r\n") + 4)));
      } else {
        peer.send(with_length(404, "application/json", R"({"error":{"message":"no such page"}})"));
      }
    }
  }

  // Many tokens if the request has no limit.
  static int tokens_of(const nlohmann::json& request) {
    return request.value("max_completion_tokens", request.value("max_tokens", 50));
  }

  void complete(net::CannedPeer& peer, nlohmann::json request) {
    const bool probe = tokens_of(request) == kProbeTokens;
    for (const std::string& field : ignored_fields) request.erase(field);
    for (const std::string& field : refused_fields)
      if (request.contains(field) || (field == "token ids" && request.at("prompt").is_array()))
        return void(peer.send(with_length(400, "application/json", R"({"error":{"message":"unknown field"}})")));
    const bool all = std::all_of(refused_together.begin(), refused_together.end(),
                                 [&](const std::string& field) { return request.contains(field); });
    if (all && !refused_together.empty())
      return void(peer.send(with_length(400, "application/json", R"({"error":{"message":"not both"}})")));
    if (!probe) {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    if (probe || !answer_)
      stream(peer, request, stated_prompt_tokens);
    else
      answer_(peer, request);
  }

  static constexpr int kProbeTokens = 2;  // tokens that the client requests before a run
  Answer answer_;
  mutable std::mutex mutex_;
  std::vector<nlohmann::json> requests_;
  std::string header_;
  net::CannedServer server_;
};

}  // namespace plimsoll::endpoints
