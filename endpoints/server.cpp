// SPDX-License-Identifier: Apache-2.0
#include "endpoints/server.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "endpoints/chunk.h"
#include "endpoints/redact.h"
#include "model/error.h"
#include "net/json_shape.h"
#include "net/prometheus_text.h"
#include "net/sse.h"

namespace plimsoll::endpoints {
namespace {

using nlohmann::json;
constexpr std::chrono::milliseconds kAskWithin{10'000}, kMayAnswerWithin{3000}, kProbeWithin{120'000};
constexpr sched::Tok kProbeTokens = 2;
constexpr std::size_t kMostModels = 20, kLongestName = 256, kMostProbeBytes = std::size_t{1} << 15U;
constexpr double kLeastSpeed = 1e-6, kMostSpeed = 1e6;

json parsed(const net::HttpAnswer& answer) {
  if (!answer.is_complete() || answer.head.status != 200) return {};
  if (!net::fault_of_json_shape(answer.body).empty()) return {};
  return json::parse(answer.body, nullptr, false);
}

std::string text_of(const json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>().substr(0, kLongestName) : "";
}

std::optional<std::int64_t> whole_of(const json& object, const char* field) {
  const auto found = object.find(field);
  constexpr std::int64_t kMost = std::int64_t{1} << 40U;
  if (found == object.end() || !found->is_number_integer() || *found < 1 || *found > kMost) return {};
  return found->get<std::int64_t>();
}

constexpr const char* kLlamaCpp = "llama.cpp";

std::string engine_of(const std::string& owner) {
  if (owner == "vllm") return "vLLM";
  if (owner == "sglang") return "SGLang";
  if (owner == "llamacpp") return kLlamaCpp;
  if (owner == "tensorrt_llm") return "TensorRT-LLM";
  return owner == "plimsoll" ? "plimsoll serve" : "";
}

// Returns the last count of prompt tokens in a complete stream. A server that states 0 does not count them.
std::optional<std::int32_t> prompt_tokens(const std::string& stream) {
  std::optional<std::int32_t> tokens;
  net::SseReader reader;
  (void)reader.feed(stream, [&](const net::StreamMessage& message) {
    const auto chunk = read_chunk(message.data);
    if (chunk && chunk->prompt_tokens.value_or(0) > 0) tokens = chunk->prompt_tokens;
    return true;
  });
  return tokens;
}

// Returns how many tokens the answer has: a server may ignore the field that limits them.
std::int32_t answer_tokens(const std::string& stream) {
  std::int32_t events = 0, stated = 0;
  net::SseReader reader;
  (void)reader.feed(stream, [&](const net::StreamMessage& message) {
    const auto chunk = read_chunk(message.data);
    if (!chunk) return true;
    events += chunk->text ? 1 : 0;
    stated = std::max(stated, chunk->completion_tokens.value_or(0));
    return true;
  });
  return std::max(events, stated);
}

void add(std::optional<double>& sum, double value) { sum = sum.value_or(0) + value; }

struct StateName {
  std::string_view name;
  std::optional<double> ServerState::*field;
};
constexpr std::array<StateName, 19> kStateNames{{
    {"vllm:num_requests_running", &ServerState::running},
    {"vllm:num_requests_waiting", &ServerState::waiting},
    {"vllm:num_preemptions", &ServerState::preemptions},
    {"vllm:num_preemptions_total", &ServerState::preemptions},
    {"vllm:prefix_cache_queries", &ServerState::prefix_queries},
    {"vllm:prefix_cache_queries_total", &ServerState::prefix_queries},
    {"vllm:prefix_cache_hits", &ServerState::prefix_hits},
    {"vllm:prefix_cache_hits_total", &ServerState::prefix_hits},
    {"vllm:kv_cache_usage_perc", &ServerState::kv_use},
    {"vllm:gpu_cache_usage_perc", &ServerState::kv_use},
    {"sglang:num_running_reqs", &ServerState::running},
    {"sglang:num_queue_reqs", &ServerState::waiting},
    {"sglang:token_usage", &ServerState::kv_use},
    {"tgi_batch_current_size", &ServerState::running},
    {"tgi_queue_size", &ServerState::waiting},
    {"llamacpp:requests_processing", &ServerState::running},
    {"llamacpp:requests_deferred", &ServerState::waiting},
    {"llamacpp:kv_cache_usage_ratio", &ServerState::kv_use},
    {"trtllm_kv_cache_utilization", &ServerState::kv_use},
}};

// Returns a label that states a size; an impossible size counts as missing.
std::optional<double> number_label(const net::PrometheusSample& sample, std::string_view name) {
  constexpr double kMost = 1e12;
  const std::string* const text = sample.label(name);
  if (text == nullptr || text->empty() || text->find_first_not_of("0123456789") != std::string::npos) return {};
  const double value = std::strtod(text->c_str(), nullptr);
  return value >= 1 && value <= kMost ? std::optional(value) : std::nullopt;
}

}  // namespace

ServerState read_server_state(std::string_view text) {
  ServerState state;
  std::int64_t kv_samples = 0;
  for (const net::PrometheusSample& sample : net::parse_prometheus(text)) {
    if (sample.name == "vllm:cache_config_info") {
      if (const auto blocks = number_label(sample, "num_gpu_blocks")) add(state.kv_blocks, *blocks);
      state.block_tokens = number_label(sample, "block_size");
    }
    const auto* const row = std::find_if(kStateNames.begin(), kStateNames.end(),
                                         [&](const StateName& known) { return known.name == sample.name; });
    if (row == kStateNames.end() || !(sample.value >= 0 && sample.value < 1e18)) continue;
    add(state.*(row->field), sample.value);
    if (row->field == &ServerState::kv_use) ++kv_samples;
  }
  // KV use is a share, so the mean over the engines is taken; counts are added up.
  if (kv_samples > 1) *state.kv_use /= static_cast<double>(kv_samples);
  return state;
}

std::string ServerFacts::label() const {
  if (engine.empty()) return version.empty() ? "server" : "server " + version;
  return version.empty() ? engine : engine + ' ' + version;
}

Server::Server(ServerSettings settings) : settings_(std::move(settings)), client_(loop_, settings_.http) {
  find_api();
  facts_.shown_model = shown_text(facts_.model, settings_.secrets, {});
  read_version();
  probe_features();
  read_metrics();
  if (facts_.engine == kLlamaCpp) read_props();
}

// ---- requests ---------------------------------------------------------------------------------------------------

net::HttpAnswer Server::get(const std::string& target, bool must_answer) {
  net::HttpAnswer answer = net::fetch(loop_, client_, {.target = target, .content_type = {}, .body = {}},
                                      {must_answer ? kAskWithin : kMayAnswerWithin, net::kMaxPrometheusBytes});
  const std::string server = settings_.http.server.text();
  if (answer.timed_out && must_answer)
    throw DeviceError(fmt::format("{}: no answer to {} within 10 s", server, target));
  if (answer.end.failure == net::HttpFailure::refused || answer.end.failure == net::HttpFailure::tls)
    throw DeviceError(fmt::format("{}: {}", server, answer.end.text));
  if (silence_.empty()) silence_ = answer.end.text;
  return answer;
}

net::HttpAnswer Server::post(const Features& features, const Prompt& prompt) {
  net::HttpAnswer answer =
      net::fetch(loop_, client_,
                 {.method = "POST",
                  .target = std::string(path(facts_.api)),
                  .content_type = "application/json",
                  .body = request_body({facts_.api, features, facts_.model}, prompt, kProbeTokens)},
                 {kProbeWithin, kMostProbeBytes});
  if (answer.timed_out)
    throw DeviceError(
        fmt::format("{}: no answer to a request for 2 tokens within 120 s", settings_.http.server.text()));
  if (answer.end.failure) throw DeviceError(fmt::format("{}: {}", settings_.http.server.text(), answer.end.text));
  return answer;
}

std::string Server::complaint(const net::HttpAnswer& answer, std::string_view sent) const {
  const std::string words = shown_text(error_message(answer.body), settings_.secrets, sent);
  return fmt::format("{}: status {}{}{}", settings_.http.server.text(), answer.head.status, words.empty() ? "" : ": ",
                     words);
}

void Server::check_access(const net::HttpAnswer& answer) const {
  const int status = answer.head.status;
  if (status == 401 || status == 403)
    throw DeviceError(complaint(answer, {}) + "; --api-key-env names the variable with a key");
  if (status >= 300 && status < 400)
    throw DeviceError(fmt::format("{}: status {}: redirects are not followed; state the final URL",
                                  settings_.http.server.text(), status));
}

// ---- identification -----------------------------------------------------------------------------------------------

void Server::find_api() {
  const bool asked = settings_.api.has_value();
  facts_.api = settings_.api.value_or(Api::openai);
  facts_.model = settings_.served_model;
  if (!asked || facts_.api == Api::openai || facts_.api == Api::openai_chat) {
    const net::HttpAnswer models = get("/v1/models", !asked);
    check_access(models);
    if (parsed(models).is_object()) return read_models(models);
    if (asked) return;
  }
  if (!asked || facts_.api == Api::tgi) {
    const net::HttpAnswer info = get("/info", !asked);
    check_access(info);
    if (parsed(info).is_object() && parsed(info).contains("model_id")) return read_tgi(info);
    if (asked) return;
  }
  if (asked) return;
  for (const char* const target : {"/health", "/ping"})
    if (get(target, false).head.status == 200) facts_.api = Api::lmi;
  if (facts_.api != Api::lmi)
    throw DeviceError(fmt::format("{}: neither /v1/models nor /info answers{}; state the interface with --api: {}",
                                  settings_.http.server.text(), silence_.empty() ? "" : " (" + silence_ + ')',
                                  kApiNames));
}

void Server::read_models(const net::HttpAnswer& models) {
  const json list = parsed(models);
  const auto data = list.find("data");
  if (data == list.end() || !data->is_array() || data->empty()) return;
  std::string names;
  const json* chosen = data->size() == 1 && facts_.model.empty() ? &data->front() : nullptr;
  for (const json& entry : *data) {
    if (!entry.is_object()) continue;
    if (!facts_.model.empty() && text_of(entry, "id") == facts_.model) chosen = &entry;
    if (&entry - &data->front() < static_cast<std::ptrdiff_t>(kMostModels))
      names += (names.empty() ? "" : ", ") + shown_text(text_of(entry, "id"), settings_.secrets, {});
  }
  if (chosen == nullptr || !chosen->is_object())
    throw InputError(fmt::format("--served-model: {}, expected one of the server's models: {}",
                                 facts_.model.empty() ? "not stated" : "found another name", names));
  facts_.model = text_of(*chosen, "id");
  facts_.engine = engine_of(text_of(*chosen, "owned_by"));
  facts_.max_model_len = whole_of(*chosen, "max_model_len");
  if (const auto meta = chosen->find("meta"); meta != chosen->end() && meta->is_object() && !facts_.max_model_len)
    facts_.max_model_len = whole_of(*meta, "n_ctx");
}

void Server::read_tgi(const net::HttpAnswer& info) {
  const json facts = parsed(info);
  facts_.api = Api::tgi;
  facts_.engine = "TGI";
  facts_.version = shown_text(text_of(facts, "version"), settings_.secrets, {});
  facts_.max_model_len = whole_of(facts, "max_total_tokens");
}

void Server::read_version() {
  const net::HttpAnswer answer = get("/version", false);
  const json version = parsed(answer);
  if (!version.is_object()) return;
  if (facts_.version.empty()) facts_.version = shown_text(text_of(version, "version"), settings_.secrets, {});
  facts_.simulated = text_of(version, "engine") == "plimsoll";
  if (!facts_.simulated) return;  // another server's field `speed` has another meaning
  if (const auto speed = version.find("speed"); speed != version.end() && speed->is_number()) {
    const double value = speed->get<double>();
    if (value >= kLeastSpeed && value <= kMostSpeed) facts_.speed = value;
  }
}

// llama.cpp states its slots and the KV cells of each, and has no /version. If all slots share one pool, `n_ctx` is the
// size of that pool, and the product is too large by the number of slots.
void Server::read_props() {
  const json props = parsed(get("/props", false));
  if (!props.is_object()) return;
  if (facts_.version.empty()) facts_.version = shown_text(text_of(props, "build_info"), settings_.secrets, {});
  facts_.slots = whole_of(props, "total_slots");
  const auto defaults = props.find("default_generation_settings");
  if (!facts_.slots || defaults == props.end() || !defaults->is_object()) return;
  const std::optional<std::int64_t> cells = whole_of(*defaults, "n_ctx");
  if (!cells) return;
  facts_.state.kv_blocks = static_cast<double>(*facts_.slots) * static_cast<double>(*cells);
  facts_.state.block_tokens = 1;
}

void Server::read_metrics() {
  const net::HttpAnswer metrics = get("/metrics", false);
  facts_.has_metrics = metrics.is_complete() && metrics.head.status == 200;
  if (facts_.has_metrics) facts_.state = read_server_state(metrics.body);
}

// ---- features -----------------------------------------------------------------------------------------------------

bool Server::accepts(const Features& features) {
  Prompt prompt = features.token_ids ? Prompt{{11, 12, 13, 14}, {}} : Prompt{{}, "time year people way"};
  prompt.priority = 1;  // sent only if `features` has it
  const net::HttpAnswer answer = post(features, prompt);
  check_access(answer);
  const int status = answer.head.status;
  if (status == 404) throw DeviceError(complaint(answer, {}) + " for " + std::string(path(facts_.api)));
  if (status != 200) {
    if (features == Features{}) throw DeviceError(complaint(answer, prompt.text) + "; to a request for 2 tokens");
    return false;
  }
  constexpr std::int32_t kTolerance = 2;  // a character may come in parts
  if (features.max_completion && answer_tokens(answer.body) > kProbeTokens + kTolerance) return false;
  // A server may accept the field and ignore it, so the usage must be in the answer.
  if (features.continuous_usage || features.usage) return prompt_tokens(answer.body).has_value();
  return true;
}

void Server::probe_features() {
  const bool chat = facts_.api == Api::openai_chat;
  if (facts_.api != Api::openai && !chat) return;
  const Features all{.token_ids = !chat,
                     .max_completion = chat,
                     .min_tokens = true,
                     .ignore_eos = true,
                     .usage = true,
                     .continuous_usage = true,
                     .priority = settings_.has_priorities};
  // Most servers understand everything, so one request usually suffices.
  if (accepts(all)) {
    facts_.features = all;
    return;
  }
  struct One {
    const char* name;
    bool Features::*field;
    bool asked;
  };
  const One ones[] = {{"token-id prompts", &Features::token_ids, !chat},
                      {"max_completion_tokens", &Features::max_completion, chat},
                      {"min_tokens", &Features::min_tokens, true},
                      {"ignore_eos", &Features::ignore_eos, true},
                      {"stream_options.include_usage", &Features::usage, true},
                      {"stream_options.continuous_usage_stats", &Features::continuous_usage, true},
                      {"priority", &Features::priority, settings_.has_priorities}};
  // Throws if the server refuses even the plain request, since there is then nothing to probe.
  (void)accepts({});
  for (const One& one : ones) {  // each with the earlier ones: a server may refuse a combination
    if (!one.asked) continue;
    Features more = facts_.features;
    more.*one.field = true;
    if (accepts(more)) {
      facts_.features = more;
    } else {
      facts_.refused.emplace_back(one.name);
    }
  }
}

std::optional<sched::Tok> Server::learn(Prompts& prompts, const std::string& text) {
  const net::HttpAnswer answer = post(facts_.features, {{}, text});
  if (answer.head.status != 200) throw DeviceError(complaint(answer, text));
  const std::optional<sched::Tok> tokens = prompt_tokens(answer.body);
  if (tokens) prompts.learn(text, *tokens);
  return tokens;
}

void Server::learn_words(Prompts& prompts) {
  if (facts_.features.token_ids) return;
  constexpr std::int64_t kFewWords = 8, kWords = 48, kTokensOfAWord = 4, kInput = 512;
  constexpr std::uint64_t kTries = 6;
  const std::int64_t most = facts_.max_model_len.value_or(kTokensOfAWord * kInput);
  for (const std::int64_t words : {kFewWords, kWords}) {
    if (words * kTokensOfAWord > most) continue;
    for (const bool are_long : {false, true}) {
      facts_.counts_prompts = learn(prompts, Prompts::sample(words, are_long)).has_value();
      if (!facts_.counts_prompts) return;
    }
  }
  const auto input = static_cast<sched::Tok>(std::min(kInput, std::max<std::int64_t>(1, most / 2)));
  for (std::uint64_t i = 0; i < kTries; ++i) {
    const auto tokens = learn(prompts, prompts.text({.serial = i, .input = input, .hashes = {}}));
    if (!tokens || std::abs(std::int64_t{*tokens} - input) * 100 <= input) return;
  }
}

}  // namespace plimsoll::endpoints
