// SPDX-License-Identifier: Apache-2.0
// A server to be measured. Before a run, it is asked for its engine, model and limits, and probed for its features.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "endpoints/api.h"
#include "endpoints/prompts.h"
#include "net/http_client.h"

namespace plimsoll::endpoints {

struct ServerSettings {
  net::HttpClientSettings http;
  std::vector<std::string> secrets;  // header values that no message may contain
  std::optional<Api> api;            // detected if empty
  std::string served_model;          // if empty, the only one in /v1/models
  bool has_priorities = false;       // the requests have priorities, so it matters whether the server takes them
};

/// What a server reports in /metrics at one time. Fields that it does not report are empty.
struct ServerState {
  std::optional<double> running, waiting, kv_use;                  // requests, requests, fraction 0 to 1
  std::optional<double> preemptions, prefix_queries, prefix_hits;  // totals since the server's start
  std::optional<double> kv_blocks, block_tokens;
  bool operator==(const ServerState&) const = default;
};
/// Understands the metrics of vLLM, SGLang, TGI and llama.cpp. Sums over a server's engines, but averages their KV use.
[[nodiscard]] ServerState read_server_state(std::string_view prometheus_text);

struct ServerFacts {
  Api api = Api::openai;
  std::string model;            // the name to use in requests; may be empty
  std::string shown_model;      // the same, redacted
  std::string engine, version;  // empty if not reported
  std::optional<std::int64_t> max_model_len;
  std::optional<std::int64_t> slots;  // llama.cpp: requests that it serves at once
  Features features;
  std::vector<std::string> refused;  // features that the server rejected
  double speed = 1;                  // of a simulated deployment: its seconds take 1/speed real seconds
  bool simulated = false;            // it is `plimsoll serve`
  bool has_metrics = false;
  bool counts_prompts = true;  // texts: how many tokens they have
  ServerState state;           // as it was before the run

  /// Returns "vLLM 0.6.1", or "server" if the server does not report what it is.
  [[nodiscard]] std::string label() const;
};

class Server {
 public:
  /// Asks the server for its engine, model and limits. Throws InputError if the user must choose (several models, no
  /// known interface), DeviceError if the server cannot be reached, cannot be trusted, or denies access.
  explicit Server(ServerSettings settings);

  [[nodiscard]] const ServerFacts& facts() const { return facts_; }
  [[nodiscard]] const ServerSettings& settings() const { return settings_; }
  [[nodiscard]] net::EventLoop& loop() { return loop_; }
  [[nodiscard]] net::HttpClient& client() { return client_; }
  /// If prompts are sent as text, sends requests to learn how many tokens a text has, until the estimate is right
  /// within 1 %. Throws as the constructor does.
  void learn_words(Prompts& prompts);
  /// Returns "SERVER: status 400: text of the server", redacted.
  [[nodiscard]] std::string complaint(const net::HttpAnswer& answer, std::string_view sent) const;

 private:
  [[nodiscard]] net::HttpAnswer get(const std::string& target, bool must_answer);
  [[nodiscard]] net::HttpAnswer post(const Features& features, const Prompt& prompt);
  void check_access(const net::HttpAnswer& answer) const;
  void find_api();
  void read_models(const net::HttpAnswer& models);
  void read_tgi(const net::HttpAnswer& info);
  void read_version();
  void read_props();
  void read_metrics();
  void probe_features();
  [[nodiscard]] bool accepts(const Features& features);
  [[nodiscard]] std::optional<sched::Tok> learn(Prompts& prompts, const std::string& text);

  ServerSettings settings_;
  net::EventLoop loop_;
  net::HttpClient client_;
  ServerFacts facts_;
  std::string silence_;  // why the first page without a complete answer has none
};

}  // namespace plimsoll::endpoints
