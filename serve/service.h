// SPDX-License-Identifier: Apache-2.0
// Answers the HTTP requests of a served run: with the tokens that the scheduler produces, or with facts about the
// server. A stream whose client reads slowly gets several tokens in one event, so that no text has to be buffered.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "load/workload.h"
#include "net/http_server.h"
#include "serve/api_answer.h"
#include "serve/api_request.h"
#include "serve/arrivals.h"
#include "serve/body_reader.h"
#include "serve/real_time_run.h"
#include "serve/server_metrics.h"

namespace plimsoll::serve {

struct ServiceSettings {
  std::string model;                      // the study's model, used if a request names none
  std::vector<std::string> served_names;  // names of models that are accepted; empty for any
  std::string api_key;                    // empty if no key is required
  std::string version;                    // the version of this program
  std::string engine, hardware;           // those of the study
  double chars_per_token = 4;
  std::size_t open_requests = 65'536;
  std::int64_t longest = 1;  // most tokens of a request, prompt and output
  std::string backend = {};  // what runs the model, such as cpu; empty: it is simulated
  std::uint64_t seed = 1;    // of requests to a real model that state none
  /// That of a real model; null: it is simulated.
  std::shared_ptr<const Vocabulary> vocabulary = {};
  bool filters = true;  // PromptRules::filters
};

class Service final : public net::HttpHandler, public CallListener {
 public:
  /// All arguments must outlive the service. `clock` is that of the run.
  Service(const load::Scenario& scenario, const ServiceSettings& settings, ModelClock& clock);
  /// Connects the parts that are constructed later. Call both before the first request.
  void connect(net::HttpServer& server, Arrivals& arrivals, ServerMetrics& metrics, const Lateness& lateness);
  void connect(ServedRun& run, BodyReader& reader) {
    run_ = &run;
    reader_ = &reader;
  }
  [[nodiscard]] const PromptRules& prompt_rules() const { return rules_; }

  /// Refuses new requests from now on.
  void drain() { draining_ = true; }
  /// Closes the connections of all open requests.
  void cut_all();
  [[nodiscard]] bool is_idle() const { return open() == 0; }
  [[nodiscard]] std::size_t open() const { return answers_.size() + reading_.size(); }
  /// How many signals to stop have come, not counting repetitions.
  [[nodiscard]] int stops_wanted() const { return stops_wanted_; }
  /// A signal to stop has come at `now`. One that follows another within 200 ms repeats it: a shell and a wrapper both
  /// pass on the same Ctrl-C.
  void note_stop(std::chrono::steady_clock::time_point now);
  [[nodiscard]] std::int64_t completed() const { return completed_; }
  [[nodiscard]] std::int64_t refused() const { return refused_; }
  [[nodiscard]] std::int64_t left() const { return left_; }
  [[nodiscard]] std::int64_t output_tokens() const { return output_tokens_; }

  // ---- net::HttpHandler -------------------------------------------------------------------------------------
  void request(net::ExchangeId id, net::ServerRequest&& request) override;
  void writable(net::ExchangeId id) override;
  void gone(net::ExchangeId id) override;
  std::string error_body(int status, std::string_view text) override;
  void stop_requested() override { note_stop(std::chrono::steady_clock::now()); }

  // ---- CallListener -----------------------------------------------------------------------------------------
  bool took(ClientId client, std::int32_t token) override;
  void produced(ClientId client, sched::Tok generated, Nanos now) override;
  void ended(ClientId client, const sched::FinishedAttempt& attempt) override;
  void failed(ClientId client, const char* code, Nanos now) override;

 private:
  struct Answer {
    AnswerHead head;
    std::string model;  // a JSON string
    ClientId client = 0;
    Nanos sent = 0, last = -1;  // when the request was sent, and when the last token was produced
    sched::Tok produced = 0, written = 0, cap = 0, cached = 0;
    bool stream = false, began = false, finished = false, capped = false;  // capped: the client stated a cap
    Finish finish = Finish::stop;
    std::unique_ptr<AnswerText> text = {};  // of a real model; else null
  };

  /// A request of an API: `received` in the model's time.
  struct Posted {
    net::ExchangeId id = 0;
    Api api = Api::completions;
    bool stream = false;
    Nanos received = 0;
  };
  void post(const Posted& posted, std::string&& body);
  void take(const Posted& posted, BodyReader::Result&& read);
  void get(net::ExchangeId id, const std::string& path);
  void open(const Posted& posted, ApiRequest&& request);
  [[nodiscard]] bool is_authorized(const std::string& header) const;
  [[nodiscard]] bool is_served(const std::string& model) const;
  [[nodiscard]] NewCall call_of(ApiRequest& request);
  [[nodiscard]] NewCall real_call_of(Api api, ApiRequest& request);
  [[nodiscard]] std::optional<ApiError> beyond_context(Api api, const ApiRequest& request) const;
  void fail(net::ExchangeId id, Api api, const ApiError& error);
  void flush(net::ExchangeId id);
  bool write_part(net::ExchangeId id, Answer& answer);
  void note_tokens(Answer& answer, sched::Tok generated, Nanos now);
  [[nodiscard]] std::string metrics_text() const;
  [[nodiscard]] std::string models_text() const;
  [[nodiscard]] std::string model_text(const std::string& name) const;
  [[nodiscard]] std::string info_text() const;
  [[nodiscard]] std::string backend_text() const;
  [[nodiscard]] std::size_t replica_of(ClientId client) const;

  const load::Scenario& scenario_;
  ServiceSettings settings_;
  ModelClock& clock_;
  net::HttpServer* server_ = nullptr;
  Arrivals* arrivals_ = nullptr;
  ServerMetrics* metrics_ = nullptr;
  const Lateness* lateness_ = nullptr;
  ServedRun* run_ = nullptr;
  BodyReader* reader_ = nullptr;
  load::Workload bodies_;  // lengths and priorities that the client leaves open
  bool draws_priorities_;
  PromptRules rules_;
  std::unordered_map<net::ExchangeId, Answer> answers_;
  std::unordered_set<net::ExchangeId> reading_;  // requests whose bodies are being parsed
  std::vector<net::ExchangeId> exchanges_;       // indexed by client
  std::int64_t started_ = 0;                     // seconds since 1970
  std::uint64_t ids_ = 0;
  std::int64_t completed_ = 0, refused_ = 0, left_ = 0, output_tokens_ = 0;
  bool draining_ = false;
  int stops_wanted_ = 0;
  std::chrono::steady_clock::time_point last_stop_{};
};

}  // namespace plimsoll::serve
