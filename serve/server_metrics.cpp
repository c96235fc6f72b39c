// SPDX-License-Identifier: Apache-2.0
#include "serve/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::serve {

namespace {

using net::MetricType;

// The bounds of vLLM's histograms (vllm/v1/metrics/loggers.py at 005a810).
const std::vector<double> kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                         1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const std::vector<double> kGap = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4, 0.5,
                                  0.75, 1.0,   2.5,  5.0,   7.5, 10.0, 20.0, 40.0, 80.0};
const std::vector<double> kRequest = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                      30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const std::vector<double> kIteration = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const std::vector<double> kLateness = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01,
                                       0.02,   0.05,   0.1,    0.2,   0.5,   1,     10};

// Returns 1, 2, 5, 10 … up to `most`.
std::vector<double> one_two_five(std::int64_t most) {
  std::vector<double> bounds;
  for (std::int64_t decade = 1; decade <= most; decade *= 10)
    for (const std::int64_t digit : {1, 2, 5})
      if (digit * decade <= most) bounds.push_back(static_cast<double>(digit * decade));
  return bounds;
}

struct Family {
  std::string_view name, help;
};
constexpr std::array<Family, 8> kTimes = {{
    {"vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds."},
    {"vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds."},
    {"vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request."},
    {"vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds."},
    {"vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request."},
    {"vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request."},
    {"vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request."},
    {"vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request."},
}};
constexpr Family kOldGap = {"vllm:time_per_output_token_seconds", "The old name of vllm:inter_token_latency_seconds."};
constexpr std::array<Family, 3> kSizes = {{
    {"vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step."},
    {"vllm:request_prompt_tokens", "Number of prefill tokens processed."},
    {"vllm:request_generation_tokens", "Number of generation tokens processed."},
}};

double seconds(Nanos from, Nanos to) { return 1e-9 * static_cast<double>(to - from); }

}  // namespace

Lateness::Lateness() : counts_(kLateness) {}

void Lateness::add(double late, double step) {
  counts_.observe(late);
  all_.add(late, 1);
  if (late > std::max(1e-3, 0.02 * step)) ++late_;
}

ServerMetrics::ServerMetrics(const ServerDescription& description) : description_(description) {
  const std::vector<double> lengths = one_two_five(description.longest);
  for (std::size_t i = 0; i < description.replicas; ++i) {
    Engine& engine = engines_.emplace_back();
    engine.labels = net::PrometheusWriter::label("engine", fmt::format("{}", i)) + ',' +
                    net::PrometheusWriter::label("model_name", description.model);
    for (const auto* const bounds : {&kFirstToken, &kGap, &kGap, &kRequest, &kRequest, &kRequest, &kRequest, &kRequest})
      engine.times.emplace_back(*bounds);
    for (const auto* const bounds : {&kIteration, &lengths, &lengths}) engine.sizes.emplace_back(*bounds);
  }
}

void ServerMetrics::first_token(std::size_t replica, double since_sent, sched::Tok input) {
  engines_[replica].times[ttft].observe(since_sent / description_.speed);
  engines_[replica].prompt_tokens += static_cast<std::uint64_t>(input);
}

// Tokens that arrive together count as one gap since the last token, and gaps of length 0.
void ServerMetrics::more_tokens(std::size_t replica, double since_last, sched::Tok tokens) {
  net::BucketCounts& gaps = engines_[replica].times[gap];
  gaps.observe(since_last / description_.speed);
  for (sched::Tok i = 1; i < tokens; ++i) gaps.observe(0);
}

void ServerMetrics::tokens(std::size_t replica, sched::Tok tokens) {
  engines_[replica].generation_tokens += static_cast<std::uint64_t>(tokens);
}

void ServerMetrics::step(std::size_t replica, std::int64_t tokens) {
  engines_[replica].sizes[iteration].observe(static_cast<double>(tokens));
}

void ServerMetrics::prefix(std::size_t replica, sched::Tok asked, sched::Tok found) {
  engines_[replica].queries += static_cast<std::uint64_t>(asked);
  engines_[replica].hits += static_cast<std::uint64_t>(found);
}

void ServerMetrics::completed(const sched::FinishedAttempt& attempt, std::size_t replica, Finish finish) {
  Engine& engine = engines_[replica];
  ++engine.finished.at(static_cast<std::size_t>(finish));
  const auto observe = [&](Times which, double value) { engine.times[which].observe(value / description_.speed); };
  const double decoding = seconds(attempt.first_token, attempt.end);
  observe(e2e, seconds(attempt.sent, attempt.end));
  observe(queued, seconds(attempt.arrived, attempt.first_scheduled));
  observe(inference, seconds(attempt.first_scheduled, attempt.end));
  observe(prefill, seconds(attempt.first_scheduled, attempt.first_token));
  observe(decode, decoding);
  observe(request_tpot, attempt.generated > 1 ? decoding / (attempt.generated - 1) : 0);
  engine.sizes[prompt].observe(attempt.input);
  engine.sizes[generation].observe(attempt.generated);
}

void ServerMetrics::unfinished(std::size_t replica, Finish finish) {
  ++engines_[replica].finished.at(static_cast<std::size_t>(finish));
}

template <class Value>
void ServerMetrics::write_all(net::PrometheusWriter& out, Value value) const {
  for (std::size_t i = 0; i < engines_.size(); ++i) out.sample(engines_[i].labels, static_cast<double>(value(i)));
}

void ServerMetrics::write_gauges(net::PrometheusWriter& out, std::span<sched::Replica* const> replicas) const {
  out.family("vllm:num_requests_running", MetricType::gauge, "Number of requests in model execution batches.");
  write_all(out, [&](std::size_t i) { return replicas[i] ? replicas[i]->policy().batch_order().size() : 0; });
  out.family("vllm:num_requests_waiting", MetricType::gauge, "Number of requests waiting to be processed.");
  write_all(out, [&](std::size_t i) { return replicas[i] ? replicas[i]->policy().queued() : 0; });
  const auto usage = [&](std::size_t i) {
    if (replicas[i] == nullptr) return 0.0;
    const sched::KvLedger& kv = replicas[i]->kv();
    return kv.total() > 0 ? static_cast<double>(kv.in_use()) / static_cast<double>(kv.total()) : 0.0;
  };
  out.family("vllm:kv_cache_usage_perc", MetricType::gauge, "KV-cache usage. 1 means 100 percent usage.");
  write_all(out, usage);
  out.family("vllm:gpu_cache_usage_perc", MetricType::gauge, "The old name of vllm:kv_cache_usage_perc.");
  write_all(out, usage);
  out.family("vllm:cache_config_info", MetricType::gauge, "Information of the LLMEngine CacheConfig");
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    if (replicas[i] == nullptr) continue;
    const sched::KvLedger& kv = replicas[i]->kv();
    out.sample(fmt::format("{},block_size=\"{}\",num_gpu_blocks=\"{}\",enable_prefix_caching=\"{}\",cache_dtype=\"{}\"",
                           engines_[i].labels, kv.block_tokens(), kv.total() + description_.unusable_blocks,
                           kv.prefix_caching() ? "True" : "False", description_.cache_dtype),
               1);
  }
}

void ServerMetrics::write_counters(net::PrometheusWriter& out, std::span<sched::Replica* const> replicas) const {
  out.family("vllm:num_preemptions_total", MetricType::counter, "Cumulative number of preemption from the engine.");
  write_all(out, [&](std::size_t i) { return replicas[i] ? replicas[i]->preemptions() : 0; });
  out.family("vllm:prompt_tokens_total", MetricType::counter, "Number of prefill tokens processed.");
  write_all(out, [&](std::size_t i) { return engines_[i].prompt_tokens; });
  out.family("vllm:generation_tokens_total", MetricType::counter, "Number of generation tokens processed.");
  write_all(out, [&](std::size_t i) { return engines_[i].generation_tokens; });
  out.family("vllm:prefix_cache_queries_total", MetricType::counter,
             "Prefix cache queries, in terms of number of queried tokens.");
  write_all(out, [&](std::size_t i) { return engines_[i].queries; });
  out.family("vllm:prefix_cache_hits_total", MetricType::counter,
             "Prefix cache hits, in terms of number of cached tokens.");
  write_all(out, [&](std::size_t i) { return engines_[i].hits; });
  out.family("vllm:request_success_total", MetricType::counter, "Count of successfully processed requests.");
  for (const Engine& engine : engines_)
    for (std::size_t reason = 0; reason < kFinishNames.size(); ++reason)
      out.sample(engine.labels + ',' + net::PrometheusWriter::label("finished_reason", kFinishNames.at(reason)),
                 static_cast<double>(engine.finished.at(reason)));
}

void ServerMetrics::write_histograms(net::PrometheusWriter& out) const {
  for (std::size_t which = 0; which < kTimes.size(); ++which) {
    out.family(kTimes.at(which).name, MetricType::histogram, kTimes.at(which).help);
    for (const Engine& engine : engines_) out.histogram(engine.labels, engine.times[which]);
  }
  out.family(kOldGap.name, MetricType::histogram, kOldGap.help);
  for (const Engine& engine : engines_) out.histogram(engine.labels, engine.times[gap]);
  for (std::size_t which = 0; which < kSizes.size(); ++which) {
    out.family(kSizes.at(which).name, MetricType::histogram, kSizes.at(which).help);
    for (const Engine& engine : engines_) out.histogram(engine.labels, engine.sizes[which]);
  }
}

std::string ServerMetrics::text(std::span<sched::Replica* const> replicas, const Lateness& lateness) const {
  net::PrometheusWriter out;
  write_gauges(out, replicas);
  write_counters(out, replicas);
  write_histograms(out);
  const std::string label = net::PrometheusWriter::label("model_name", description_.model);
  if (!description_.backend.empty()) {
    out.family("plimsoll:backend_info", MetricType::gauge, "What runs the model of this server.");
    out.sample(label + ',' + net::PrometheusWriter::label("backend", description_.backend), 1);
    return out.take();
  }
  out.family("plimsoll:step_lateness_seconds", MetricType::histogram,
             "Delay of a step's tokens after the simulated end of the step.");
  out.histogram(label, lateness.counts());
  out.family("plimsoll:late", MetricType::gauge, "1 if too many steps are late, so the timing is not the model's.");
  out.sample(label, lateness.is_flagged() ? 1 : 0);
  out.family("plimsoll:speed", MetricType::gauge, "How many times faster than the model the server runs.");
  out.sample(label, description_.speed);
  return out.take();
}

}  // namespace plimsoll::serve
