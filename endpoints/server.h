// SPDX-License-Identifier: Apache-2.0
// A server that is measured: what it says of itself and what it understands, asked before a run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "endpoints/api.h"
#include "endpoints/prompts.h"
#include "net/http_client.h"

namespace plimsoll::endpoints {

struct ServerSettings {
  net::HttpClientSettings http;
  std::vector<std::string> secrets;  // values of headers: no text shows them
  std::optional<Api> api;            // none: detected
  std::string served_model;          // empty: the only one of /v1/models
};

/// What a server says in /metrics at one time. Absent: it does not say.
struct ServerState {
  std::optional<double> running, waiting, kv_use;                  // requests, requests, 0 to 1
  std::optional<double> preemptions, prefix_queries, prefix_hits;  // totals since the server's start
  std::optional<double> kv_blocks, block_tokens;
  bool operator==(const ServerState&) const = default;
};
/// Names of vLLM, SGLang, TGI and llama.cpp. Sums over a server's engines, KV use is their mean.
[[nodiscard]] ServerState read_server_state(std::string_view prometheus_text);

struct ServerFacts {
  Api api = Api::openai;
  std::string model;            // as requests name it; may be empty
  std::string shown_model;      // fit to be shown
  std::string engine, version;  // empty: it does not say
  std::optional<std::int64_t> max_model_len;
  Features features;
  std::vector<std::string> refused;  // features that it refuses
  double speed = 1;                  // of a simulated deployment: its seconds are 1/speed long
  bool simulated = false;            // by plimsoll serve
  bool has_metrics = false;
  bool counts_prompts = true;  // texts: how many tokens they have
  ServerState state;           // before the run

  /// "vLLM 0.6.1", or "server" where it does not say.
  [[nodiscard]] std::string label() const;
};

class Server {
 public:
  /// Asks the server. Throws InputError for a choice that is the user's (several models, no known interface),
  /// DeviceError if there is no server, it cannot be trusted, or it refuses access.
  explicit Server(ServerSettings settings);

  [[nodiscard]] const ServerFacts& facts() const { return facts_; }
  [[nodiscard]] const ServerSettings& settings() const { return settings_; }
  [[nodiscard]] net::EventLoop& loop() { return loop_; }
  [[nodiscard]] net::HttpClient& client() { return client_; }
  /// Learns from some requests how many tokens texts have, if prompts are texts, until it is right within 1 %. Throws
  /// as the constructor.
  void learn_words(Prompts& prompts);
  /// "SERVER: status 400: words of the server", fit to be shown.
  [[nodiscard]] std::string complaint(const net::HttpAnswer& answer, std::string_view sent) const;

 private:
  [[nodiscard]] net::HttpAnswer get(const std::string& target, bool must_answer);
  [[nodiscard]] net::HttpAnswer post(const Features& features, const Prompt& prompt);
  void check_access(const net::HttpAnswer& answer) const;
  void find_api();
  void read_models(const net::HttpAnswer& models);
  void read_tgi(const net::HttpAnswer& info);
  void read_version();
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
