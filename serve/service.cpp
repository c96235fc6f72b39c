// SPDX-License-Identifier: Apache-2.0
#include "serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ctime>
#include <map>
#include <utility>

namespace plimsoll::serve {

namespace {

constexpr sched::Tok kPartTokens = 256;  // most tokens in one part of a stream, because TGI has an event for each
constexpr std::string_view kEvents = "text/event-stream; charset=utf-8";

// Returns how often the rows of a trace have each priority.
std::vector<load::PriorityClass> priorities_of(const traces::Trace& trace) {
  std::map<std::int32_t, double> rows;
  for (const std::int32_t priority : trace.priorities) ++rows[priority];
  std::vector<load::PriorityClass> classes;
  for (const auto& [priority, count] : rows) classes.push_back({priority, count});
  return classes;
}

// Returns a workload of lengths and priorities only, without the study's arrival times and number of requests.
load::WorkloadSpec bodies_of(load::WorkloadSpec spec) {
  const auto* const replay = std::get_if<load::TraceReplay>(&spec.load);
  auto* const pairs = std::get_if<load::TracePairs>(&spec.lengths);
  if (replay != nullptr && pairs != nullptr) {
    if (pairs->trace == nullptr) pairs->trace = replay->trace;
    if (spec.priorities.empty()) spec.priorities = priorities_of(*replay->trace);
  }
  spec.load = load::ConstantRate{.rate = 1};
  spec.requests = 0;
  spec.duration = Seconds{0};
  spec.prefix = {};
  return spec;
}

// Compares in a time that depends only on the header's length, so that timing reveals nothing about the key.
bool equal_in_constant_time(std::string_view given, std::string_view wanted) {
  unsigned differ = given.size() == wanted.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    differ |= static_cast<unsigned>(given[i]) ^ static_cast<unsigned>(wanted[i % wanted.size()]);
  return differ == 0;
}

struct Route {
  std::string_view path;
  bool is_post = false, needs_key = true;
  Api api = Api::completions;
  bool streams = false;  // it always streams, whatever the request says
};
constexpr std::array<Route, 9> kRoutes = {{{"/v1/completions", true},
                                           {"/v1/chat/completions", true, true, Api::chat},
                                           {"/generate", true, true, Api::tgi},
                                           {"/generate_stream", true, true, Api::tgi, true},
                                           {"/v1/models"},
                                           {"/version"},
                                           {"/info"},
                                           {"/health", false, false},
                                           {"/metrics", false, false}}};
constexpr std::string_view kOneModel = "/v1/models/";

/// Returns null if there is no such path.
const Route* route_of(std::string_view path) {
  if (path.starts_with(kOneModel)) path = "/v1/models";
  const auto* const found =
      std::find_if(kRoutes.begin(), kRoutes.end(), [&](const Route& r) { return r.path == path; });
  return found == kRoutes.end() ? nullptr : found;
}

// Clients write the slash of a name like "org/model" as %2F.
std::string decoded(std::string_view part) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto digit = [&](std::size_t at) {
      return at < part.size() ? kHex.find(static_cast<char>(std::tolower(static_cast<unsigned char>(part[at]))))
                              : kHex.npos;
    };
    const std::size_t high = digit(i + 1), low = digit(i + 2);
    const bool is_code = part[i] == '%' && high != kHex.npos && low != kHex.npos;
    text += is_code ? static_cast<char>(16 * high + low) : part[i];
    if (is_code) i += 2;
  }
  return text;
}

ApiError rejection(const sched::FinishedAttempt& attempt) {
  return {.status = attempt.http,
          .message = fmt::format("the engine refused the request ({}): {} prompt tokens, up to {} output tokens",
                                 attempt.code, attempt.input, attempt.max_new),
          .param = {},
          .code = attempt.code};
}

}  // namespace

Service::Service(const load::Scenario& scenario, const ServiceSettings& settings, ModelClock& clock)
    : scenario_(scenario),
      settings_(settings),
      clock_(clock),
      bodies_(bodies_of(scenario.workload), 0),
      draws_priorities_(!bodies_of(scenario.workload).priorities.empty()),
      started_(std::time(nullptr)) {
  rules_.chars_per_token = settings.chars_per_token;
  const bool hashes = scenario.kv.prefix_caching || sched::router_info(scenario.router).compares_prefixes;
  rules_.hash_tokens = hashes ? scenario.kv.block_tokens : 0;
  rules_.vocabulary = settings_.vocabulary.get();
  rules_.filters = settings_.filters;
}

void Service::connect(net::HttpServer& server, Arrivals& arrivals, ServerMetrics& metrics, const Lateness& lateness) {
  server_ = &server;
  arrivals_ = &arrivals;
  metrics_ = &metrics;
  lateness_ = &lateness;
}

// ---- requests -----------------------------------------------------------------------------------------------

void Service::request(net::ExchangeId id, net::ServerRequest&& request) {
  const Route* const route = route_of(request.path);
  if (route == nullptr) return fail(id, Api::completions, {.status = 404, .message = "there is no such path"});
  const bool is_get = request.method == "GET" || request.method == "HEAD";
  if (route->is_post ? request.method != "POST" : !is_get) {
    const ApiError error{.status = 405, .message = "the method is not allowed here"};
    ++refused_;
    return server_->answer(id, {.status = error.status,
                                .body = serve::error_body(route->api, error),
                                .headers = route->is_post ? "Allow: POST\r\n" : "Allow: GET, HEAD\r\n"});
  }
  if (route->needs_key && !is_authorized(request.authorization))
    return fail(id, route->api,
                {.status = 401,
                 .message = "the header Authorization has no valid key",
                 .param = {},
                 .code = "invalid_api_key"});
  if (route->is_post)
    post({id, route->api, route->streams, clock_.time_of(request.received)}, std::move(request.body));
  else
    get(id, request.path);
}

bool Service::is_authorized(const std::string& header) const {
  return settings_.api_key.empty() || equal_in_constant_time(header, "Bearer " + settings_.api_key);
}

bool Service::is_served(const std::string& model) const {
  const std::vector<std::string>& names = settings_.served_names;
  return model.empty() || names.empty() || std::find(names.begin(), names.end(), model) != names.end();
}

void Service::post(const Posted& posted, std::string&& body) {
  const net::ExchangeId id = posted.id;
  const Api api = posted.api;
  if (draining_)
    return fail(id, api,
                {.status = 503, .message = "the server is shutting down", .param = {}, .code = "shutting_down"});
  if (open() >= settings_.open_requests)
    return fail(id, api,
                {.status = 503, .message = "too many requests are open here", .param = {}, .code = "overloaded"});
  if (body.size() <= BodyReader::kShort) return take(posted, read_request(api, body, rules_));
  const auto done = [this, posted](BodyReader::Result&& result) {
    server_->post([this, posted, read = std::move(result)]() mutable {
      if (reading_.erase(posted.id) > 0) take(posted, std::move(read));
    });
  };
  if (!reader_->read(api, std::move(body), done))
    return fail(id, api, {.status = 503, .message = "too many long requests wait to be read", .code = "overloaded"});
  reading_.insert(id);
}

void Service::take(const Posted& posted, BodyReader::Result&& read) {
  if (const auto* const error = std::get_if<ApiError>(&read)) return fail(posted.id, posted.api, *error);
  auto& request = std::get<ApiRequest>(read);
  if (!is_served(request.model))
    return fail(posted.id, posted.api,
                {.status = 404,
                 .message = fmt::format("The model `{}` does not exist.", request.model),
                 .param = "model",
                 .code = "model_not_found"});
  request.stream = request.stream || posted.stream;
  if (const auto error = beyond_context(posted.api, request)) return fail(posted.id, posted.api, *error);
  open(posted, std::move(request));
}

// A client's cap cuts off an answer for which the workload draws a greater length. Without a cap the answer is as long
// as drawn, within the model's context. A priority that the client states counts, not the drawn one.
NewCall Service::call_of(ApiRequest& request) {
  NewCall call;
  call.input = static_cast<sched::Tok>(request.input);
  call.session = request.session;
  call.hashes = std::move(request.hashes);
  call.hash_tokens = rules_.hash_tokens;
  const bool is_exact = request.max_tokens > 0 && request.ignore_eos;
  std::optional<load::RequestBody> drawn;
  if (!is_exact || (draws_priorities_ && !request.priority)) drawn = bodies_.next_body();
  call.priority = request.priority.value_or(drawn ? drawn->priority : 0);
  if (is_exact) {
    call.output = call.cap = request.max_tokens;
    return call;
  }
  call.output = std::max(drawn->output_tokens, request.min_tokens);
  if (request.max_tokens > 0) {
    call.cap = request.max_tokens;
  } else {
    const std::int64_t room = std::max<std::int64_t>(settings_.longest - call.input, 1);
    call.cap = static_cast<sched::Tok>(std::min<std::int64_t>(std::max(drawn->max_new_tokens, call.output), room));
  }
  call.output = std::min(call.output, call.cap);
  return call;
}

// A real model cannot compute positions beyond its context.
std::optional<ApiError> Service::beyond_context(Api api, const ApiRequest& request) const {
  if (!request.tokens || request.input + std::max<sched::Tok>(request.max_tokens, 1) <= settings_.longest) return {};
  const bool prompt = request.input >= settings_.longest;
  const char* const name = prompt ? (api == Api::chat  ? "messages"
                                     : api == Api::tgi ? "inputs"
                                                       : "prompt")
                                  : (api == Api::tgi ? "parameters.max_new_tokens" : "max_tokens");
  return ApiError{
      .message = fmt::format("{}: {} tokens of the prompt and {} of the answer exceed the context of {}", name,
                             request.input, std::max<sched::Tok>(request.max_tokens, 1), settings_.longest),
      .param = name,
      .code = "context_length_exceeded"};
}

// The end of an answer is known only when its last token is produced; until then its length is its cap. Without a cap,
// a chat may fill the context, a completion has 16 tokens as at OpenAI, and an answer of TGI has 100.
NewCall Service::real_call_of(Api api, ApiRequest& request) {
  constexpr std::int64_t kCompletion = 16, kTgi = 100;
  const std::int64_t room = settings_.longest - request.input;
  const std::int64_t unstated = api == Api::chat ? room : std::min(room, api == Api::tgi ? kTgi : kCompletion);
  NewCall call;
  call.input = static_cast<sched::Tok>(request.input);
  call.cap =
      request.max_tokens > 0
          ? request.max_tokens
          : static_cast<sched::Tok>(std::min<std::int64_t>(std::max<std::int64_t>(unstated, request.min_tokens), room));
  call.output = call.cap;
  call.session = request.session;
  call.hashes = std::move(request.hashes);
  call.hash_tokens = rules_.hash_tokens;
  call.priority = request.priority ? *request.priority : draws_priorities_ ? bodies_.next_body()->priority : 0;
  // Drawn seeds differ from each other, and repeat in every run of the same requests.
  request.tokens->seed = request.seed.value_or((settings_.seed << 32U) + ids_);
  call.tokens = std::move(request.tokens);
  return call;
}

// A request arrives when it is received: the time to parse it here is not the engine's.
void Service::open(const Posted& posted, ApiRequest&& request) {
  const Api api = posted.api;
  Answer answer;
  answer.capped = request.max_tokens > 0;
  const bool real = request.tokens != nullptr;
  if (real) answer.text = std::make_unique<AnswerText>(*settings_.vocabulary, std::move(request.stops));
  NewCall call = real ? real_call_of(api, request) : call_of(request);
  answer.cap = call.cap;
  const std::string& fallback = settings_.served_names.empty() ? settings_.model : settings_.served_names.front();
  answer.model = json_text(request.model.empty() ? fallback : request.model);
  answer.head = {.api = api,
                 .id = fmt::format("{}-{:x}{:08x}", api == Api::chat ? "chatcmpl" : "cmpl", started_, ids_++),
                 .created = std::time(nullptr),
                 .model = {},
                 .input = call.input,
                 .include_usage = request.include_usage,
                 .continuous_usage = request.continuous_usage,
                 .details = request.details,
                 .cache_usage = scenario_.kv.prefix_caching};
  answer.stream = request.stream;
  answer.client = arrivals_->add(std::move(call), posted.received);
  answer.sent = arrivals_->sent(answer.client);
  if (answer.client >= exchanges_.size()) exchanges_.resize(answer.client + 1);
  exchanges_[answer.client] = posted.id;
  Answer& kept = answers_[posted.id] = std::move(answer);
  // head.model is a view, so it must refer to the string that was moved into the map.
  kept.head.model = kept.model;
  server_->wake();
}

void Service::fail(net::ExchangeId id, Api api, const ApiError& error) {
  ++refused_;
  std::string headers;
  if (error.status == 429 || error.status == 503) headers = "Retry-After: 1\r\n";
  if (error.status == 401) headers = "WWW-Authenticate: Bearer\r\n";
  server_->answer(id, {.status = error.status, .body = serve::error_body(api, error), .headers = std::move(headers)});
}

std::string Service::error_body(int status, std::string_view text) {
  return serve::error_body(Api::completions, {.status = status, .message = std::string(text)});
}

// ---- the server about itself ---------------------------------------------------------------------------------

void Service::get(net::ExchangeId id, const std::string& path) {
  if (path == "/health")
    server_->answer(id, {.status = draining_ ? 503 : 200, .content_type = "text/plain; charset=utf-8"});
  else if (path == "/metrics")
    server_->answer(id, {.content_type = net::PrometheusWriter::kContentType, .body = metrics_text()});
  else if (path == "/version")
    server_->answer(id, {.body = fmt::format(R"({{"version":{},"engine":"plimsoll","speed":{}{}}})",
                                             json_text(settings_.version), clock_.speed(), backend_text())});
  else if (path == "/info")
    server_->answer(id, {.body = info_text()});
  else if (path == "/v1/models")
    server_->answer(id, {.body = models_text()});
  else if (const std::string name = decoded(path.substr(kOneModel.size())); !name.empty() && is_served(name))
    server_->answer(id, {.body = model_text(name)});
  else
    fail(id, Api::completions,
         {.status = 404,
          .message = fmt::format("The model `{}` does not exist.", name),
          .param = "model",
          .code = "model_not_found"});
}

std::string Service::metrics_text() const {
  std::vector<sched::Replica*> replicas;
  for (std::size_t i = 0; i < static_cast<std::size_t>(scenario_.replicas); ++i)
    replicas.push_back(run_->is_dead(i) ? nullptr : &run_->runner().replica(i));
  return metrics_->text(replicas, *lateness_);
}

std::string Service::model_text(const std::string& name) const {
  return fmt::format(R"({{"id":{0},"object":"model","created":{1},"owned_by":"plimsoll","root":{0},"parent":null,)"
                     R"("max_model_len":{2}}})",
                     json_text(name), started_, settings_.longest);
}

std::string Service::models_text() const {
  std::string models;
  if (settings_.served_names.empty()) models = model_text(settings_.model);
  for (const std::string& name : settings_.served_names) models += (models.empty() ? "" : ",") + model_text(name);
  return fmt::format(R"({{"object":"list","data":[{}]}})", models);
}

std::string Service::info_text() const {
  return fmt::format(
      R"({{"model_id":{},"version":{},"engine":{},"hardware":{},"max_total_tokens":{},"max_input_tokens":{},)"
      R"("replicas":{},"simulated":{},"speed":{}{}}})",
      json_text(settings_.model), json_text(settings_.version), json_text(settings_.engine),
      json_text(settings_.hardware), settings_.longest, std::max<std::int64_t>(settings_.longest - 1, 1),
      scenario_.replicas, settings_.backend.empty(), clock_.speed(), backend_text());
}

std::string Service::backend_text() const {
  return settings_.backend.empty() ? std::string() : fmt::format(R"(,"backend":{})", json_text(settings_.backend));
}

// ---- answers ------------------------------------------------------------------------------------------------

std::size_t Service::replica_of(ClientId client) const {
  return static_cast<std::size_t>(std::max(arrivals_->replica(client), 0));
}

void Service::note_tokens(Answer& answer, sched::Tok generated, Nanos now) {
  const sched::Tok fresh = generated - answer.produced;
  if (fresh <= 0) return;
  const std::size_t replica = replica_of(answer.client);
  sched::Tok gaps = fresh;
  if (answer.last < 0) {
    answer.cached = run_->cached(answer.client);
    metrics_->first_token(replica, 1e-9 * static_cast<double>(now - answer.sent), answer.head.input);
    if (answer.head.cache_usage) metrics_->prefix(replica, answer.head.input, answer.cached);
    --gaps;
    answer.last = now;
  }
  if (gaps > 0) metrics_->more_tokens(replica, 1e-9 * static_cast<double>(now - answer.last), gaps);
  metrics_->tokens(replica, fresh);
  output_tokens_ += fresh;
  answer.last = now;
  answer.produced = generated;
}

// produced() or ended() writes the token, once the scheduler knows it too.
bool Service::took(ClientId client, std::int32_t token) { return answers_.at(exchanges_[client]).text->push(token); }

void Service::produced(ClientId client, sched::Tok generated, Nanos now) {
  const net::ExchangeId id = exchanges_[client];
  Answer& answer = answers_.at(id);
  if (generated <= answer.produced) return;
  note_tokens(answer, generated, now);
  if (answer.stream) flush(id);
}

void Service::ended(ClientId client, const sched::FinishedAttempt& attempt) {
  const net::ExchangeId id = exchanges_[client];
  Answer& answer = answers_.at(id);
  if (attempt.outcome != sched::Outcome::completed) {
    const ApiError error = rejection(attempt);
    metrics_->unfinished(replica_of(client), Finish::error);
    const Api api = answer.head.api;
    const bool began = answer.began;
    answers_.erase(id);
    // Once the stream has begun, its status is already sent: the error can only be its last event.
    if (!began) return fail(id, api, error);
    ++refused_;
    return server_->write(id, stream_error(api, error), true);
  }
  note_tokens(answer, attempt.generated, attempt.end);
  answer.finished = true;
  if (answer.text != nullptr) {
    answer.text->finish();
    answer.finish = answer.text->stopped() ? Finish::stop : Finish::length;
  } else {
    answer.finish = answer.capped && attempt.generated >= answer.cap ? Finish::length : Finish::stop;
  }
  metrics_->completed(attempt, replica_of(client), answer.finish);
  ++completed_;
  if (answer.stream) return flush(id);
  const std::string body = whole_answer(answer.head, {.from = 0,
                                                      .to = answer.produced,
                                                      .last = true,
                                                      .finish = answer.finish,
                                                      .cached = answer.cached,
                                                      .text = answer.text.get()});
  answers_.erase(id);
  server_->answer(id, {.body = body});
}

void Service::failed(ClientId client, const char* code, Nanos /*now*/) {
  const net::ExchangeId id = exchanges_[client];
  const auto found = answers_.find(id);
  const Api api = found->second.head.api;
  const bool began = found->second.began;
  metrics_->unfinished(replica_of(client), Finish::error);
  answers_.erase(found);
  const ApiError error{.status = 503, .message = code, .param = {}, .code = "unavailable"};
  if (!began) return fail(id, api, error);
  ++refused_;
  server_->write(id, stream_error(api, error), true);
}

// Writing may detect that the client has left, which erases the answer: look it up again each time.
void Service::flush(net::ExchangeId id) {
  while (server_->is_writable(id)) {
    const auto found = answers_.find(id);
    if (found == answers_.end() || !write_part(id, found->second)) return;
  }
}

bool Service::write_part(net::ExchangeId id, Answer& answer) {
  AnswerPart part{.from = answer.written,
                  .to = std::min(answer.produced, answer.written + kPartTokens),
                  .last = false,
                  .finish = answer.finish,
                  .cached = answer.cached,
                  .text = answer.text.get()};
  part.last = answer.finished && part.to == answer.produced;
  if (part.from == part.to && !part.last) return false;
  if (!answer.began) server_->begin_stream(id, kEvents);
  answer.began = true;
  answer.written = part.to;
  const std::string events = stream_events(answer.head, part);
  if (part.last) answers_.erase(id);
  server_->write(id, events, part.last);
  return true;
}

void Service::writable(net::ExchangeId id) { flush(id); }

void Service::gone(net::ExchangeId id) {
  reading_.erase(id);
  const auto found = answers_.find(id);
  if (found == answers_.end()) return;
  if (!found->second.finished) {
    ++left_;
    metrics_->unfinished(replica_of(found->second.client), Finish::abort);
    arrivals_->leave(found->second.client, clock_.now());
    server_->wake();
  }
  answers_.erase(found);
}

void Service::note_stop(std::chrono::steady_clock::time_point now) {
  constexpr std::chrono::milliseconds kRepeated{200};
  if (stops_wanted_ == 0 || now - last_stop_ >= kRepeated) ++stops_wanted_;
  last_stop_ = now;
}

void Service::cut_all() {
  std::vector<net::ExchangeId> open(reading_.begin(), reading_.end());
  for (const auto& [id, answer] : answers_) open.push_back(id);
  for (const net::ExchangeId id : open) server_->cut(id);
}

}  // namespace plimsoll::serve
