// SPDX-License-Identifier: Apache-2.0
#include "study/run/estimate.h"

#include <algorithm>
#include <cmath>

#include "model/forward_cost.h"
#include "sim/sim_replica.h"

namespace plimsoll::study {

std::optional<MeanLengths> mean_lengths(const load::WorkloadSpec& workload) {
  const load::LengthSpec& spec = workload.lengths;
  if (const load::Conversation* const talk = load::conversation_of(workload.load)) {
    const auto& lengths = std::get<load::IndependentLengths>(spec);
    return MeanLengths{load::mean_prompt(*talk, lengths).tokens, load::length_mean(lengths.output)};
  }
  if (const auto* independent = std::get_if<load::IndependentLengths>(&spec)) {
    return MeanLengths{load::length_mean(independent->input), load::length_mean(independent->output)};
  }
  const auto& trace = std::get<load::TracePairs>(spec).trace;
  if (!trace || trace->records.empty()) return {};
  constexpr std::size_t kSeen = 1000;  // enough for a first estimate
  MeanLengths sum{0, 0};
  const std::size_t n = std::min(kSeen, trace->records.size());
  for (std::size_t i = 0; i < n; ++i) {
    const traces::TraceRecord& record = trace->records[i * trace->records.size() / n];
    sum.input += record.input_tokens;
    sum.output += record.output_tokens;
  }
  return MeanLengths{std::max(1.0, sum.input / static_cast<double>(n)),
                     std::max(1.0, sum.output / static_cast<double>(n))};
}

namespace {

std::optional<double> arrival_rate(const load::LoadSpec& load) {
  if (const auto* poisson = std::get_if<load::Poisson>(&load)) return poisson->rate;
  if (const auto* gamma = std::get_if<load::GammaArrivals>(&load)) return gamma->rate;
  if (const auto* constant = std::get_if<load::ConstantRate>(&load)) return constant->rate;
  return {};
}

class Replica {
 public:
  Replica(const load::Scenario& s, MeanLengths lengths) : lengths_(lengths), cost_(sim::cost_inputs(s)) {
    const model::PrefillSpan span{static_cast<std::int64_t>(std::llround(lengths.input)), 0};
    model::ForwardWork work;
    work.prefill = {&span, 1};
    work.sampled = 1;
    prefill_ = cost_.forward(work).total();
    const double pool = static_cast<double>(s.kv.blocks) * static_cast<double>(s.kv.block_tokens);
    constexpr std::int64_t kMaxRows = 65536;  // in case the pool is unbounded
    const auto most = static_cast<double>(std::min(sched::resolve_limits(s.policy).max_running, kMaxRows));
    largest_ = std::max(1.0, std::min(most, std::floor(pool / (lengths.input + lengths.output))));
    window_ = s.shape->sliding_window;
  }
  [[nodiscard]] double largest_batch() const { return largest_; }
  [[nodiscard]] double prefill() const { return prefill_; }
  /// Returns the seconds in service in a batch of b; b may be fractional.
  [[nodiscard]] double service(double b) {
    const double context = lengths_.input + lengths_.output / 2;
    const double windowed = window_ > 0 ? std::min(context, static_cast<double>(window_)) : context;
    const auto rows = static_cast<std::int64_t>(std::max(1.0, std::ceil(b)));
    const double n = static_cast<double>(rows);
    return lengths_.output * cost_.decode_curve(rows).time(n * context, n * windowed) + b * prefill_;
  }

 private:
  MeanLengths lengths_;
  model::ForwardCost cost_;
  double prefill_ = 0, largest_ = 1;
  std::int64_t window_ = 0;
};

// Returns the batch that an open loop of `rate` keeps busy; nullopt beyond capacity.
std::optional<double> open_batch(Replica& replica, double rate) {
  double low = 0, high = replica.largest_batch();
  if (rate * replica.service(high) > high) return {};
  for (int i = 0; i < 24; ++i) {
    const double middle = (low + high) / 2;
    (rate * replica.service(middle) > middle ? low : high) = middle;
  }
  return high;
}

sched::PointMetrics::Quantiles all(double value) { return {value, value, value, value, value}; }

// What all replicas serve, and the mean times of a request.
struct Service {
  double requests_per_s = 0, latency = 0, ttft = 0;
  double batch = 0;  // of one replica
};

sched::PointMetrics metrics_of(MeanLengths lengths, const Service& service) {
  const auto& [requests_per_s, latency, ttft, batch] = service;
  sched::PointMetrics m;
  m.input_tokens_mean = lengths.input;
  m.output_tokens_mean = lengths.output;
  m.requests_completed = 1;
  m.requests_per_s = requests_per_s;
  m.output_tokens_per_s = requests_per_s * lengths.output;
  m.total_tokens_per_s = requests_per_s * (lengths.input + lengths.output);
  m.latency = all(latency);
  m.latency_per_token = all(latency / lengths.output);
  m.ttft = all(ttft);
  if (lengths.output > 1) m.tpot = m.itl = all((latency - ttft) / (lengths.output - 1));
  m.batch_mean = batch;
  m.in_system_mean = requests_per_s * latency;
  return m;
}

}  // namespace

std::optional<sched::PointMetrics> estimate_point(const load::Scenario& scenario) {
  const auto lengths = mean_lengths(scenario.workload);
  if (!lengths) return {};
  Replica replica(scenario, *lengths);
  const double replicas = scenario.replicas;
  if (load::is_closed_loop(scenario.workload.load)) {
    const double clients = load::load_value(scenario.workload.load) / replicas;
    const double batch = std::min(std::max(clients, 1.0), replica.largest_batch());
    const double service = replica.service(batch);
    const double rate = std::min(batch, std::max(clients, 1 / replicas)) / service;
    const double wait = std::max(0.0, clients - batch) / rate;
    return metrics_of(*lengths, {.requests_per_s = rate * replicas,
                                 .latency = service + wait,
                                 .ttft = replica.prefill() + wait,
                                 .batch = batch});
  }
  const auto rate = arrival_rate(scenario.workload.load);
  if (!rate) return {};
  const auto batch = open_batch(replica, *rate / replicas);
  if (!batch) return {};
  return metrics_of(
      *lengths,
      {.requests_per_s = *rate, .latency = replica.service(*batch), .ttft = replica.prefill(), .batch = *batch});
}

}  // namespace plimsoll::study
