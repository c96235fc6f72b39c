// SPDX-License-Identifier: Apache-2.0
#include "study/run/bands.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "sim/simulate.h"

namespace plimsoll::study {
namespace {

using model::TimeUncertainty;
using sched::PointMetrics;

// The number of requests that represents a long run, and the waves of a closed loop in it.
constexpr std::int64_t kSample = 600, kWaves = 3;

std::int64_t sample_size(const load::Scenario& s) {
  const bool closed = load::is_closed_loop(s.workload.load);
  return std::max(kSample, closed ? kWaves * static_cast<std::int64_t>(load::load_value(s.workload.load)) : 0);
}

// A run with a warm-up or a script cannot be shortened.
bool can_be_shortened(const load::Scenario& s, const PointMetrics& metrics) {
  if (s.warmup.count() > 0 || std::holds_alternative<load::Script>(s.workload.load)) return false;
  return s.replications > 1 || metrics.requests_completed > 2 * sample_size(s);
}

load::Scenario beginning_of(const load::Scenario& scenario) {
  load::Scenario s = scenario;
  s.replications = 1;
  const std::int64_t sample = sample_size(s);
  if (s.workload.requests == 0 || s.workload.requests > sample) s.workload.requests = sample;
  return s;
}

// Makes the engine faster or slower by the error of its profile; the requests stay the same. Waits grow more than step
// times do, which factors on the result would miss.
void scale(load::Scenario& s, double decode, double prefill) {
  auto engine = std::make_shared<model::EngineProfile>(*s.engine);
  engine->decode_time_scale *= decode;
  engine->prefill_time_scale *= prefill;
  // The times of the front end are uncertain too. They are scaled like prefills, and its time per token like decode
  // steps.
  engine->front_end = engine->front_end * prefill;
  engine->intake = engine->intake * prefill;
  engine->host_stream = engine->host_stream * decode;
  for (auto& [kind, time] : engine->front_ends) {
    time.delay = time.delay * prefill;
    time.intake = time.intake * prefill;
    time.stream = time.stream * decode;
  }
  s.engine = std::move(engine);
}

PointMetrics at_end(const load::Scenario& scenario, double decode, double prefill, const std::stop_token& stop) {
  load::Scenario s = scenario;
  scale(s, decode, prefill);
  if (s.pools) {
    load::Pools pools = *s.pools;
    load::Scenario first = *pools.prefill;
    scale(first, decode, prefill);
    pools.prefill = std::make_shared<const load::Scenario>(std::move(first));
    s.pools = std::make_shared<const load::Pools>(std::move(pools));
  }
  sim::RunOptions options;
  options.stop = stop;
  return sim::simulate(s, options).metrics;
}

struct Ends {
  const PointMetrics &middle, &fast, &slow;
  bool bounded_above = true;  // whether times at the slow end are bounded
};

// The value at one end, relative to the middle's.
std::optional<double> scaled(const std::optional<double>& value, const std::optional<double>& middle,
                             const std::optional<double>& end) {
  if (!value || !middle || !end || !(*middle > 0)) return {};
  return *value * (*end / *middle);
}

template <class Get>
PointMetrics::Band time_band(const Ends& ends, const PointMetrics& metrics, Get&& get) {
  const std::optional<double> value = get(metrics), middle = get(ends.middle);
  if (!value) return {};
  PointMetrics::Band band;
  // A band always contains the value, even if the two ends of a short run are swapped by chance.
  if (const auto low = scaled(value, middle, get(ends.fast))) band.low = std::min(*value, *low);
  if (const auto high = scaled(value, middle, get(ends.slow)); high && ends.bounded_above)
    band.high = std::max(*value, *high);
  return band;
}

// Combines two independent errors: on each side, the squares of their logarithms add up.
TimeUncertainty both(const TimeUncertainty& a, const TimeUncertainty& b) {
  const auto add = [](double x, double y) {
    const double log = std::hypot(std::log(x), std::log(y));
    return std::exp(x < 1 || y < 1 ? -log : log);
  };
  return {.decode_low = add(a.decode_low, b.decode_low),
          .decode_high = add(a.decode_high, b.decode_high),
          .prefill_low = add(a.prefill_low, b.prefill_low),
          .prefill_high = add(a.prefill_high, b.prefill_high)};
}

// One end of a mean over steps of both kinds. `together` is its factor if both errors reach their ends at once. It is
// assumed to be (decode factor)^(1 - b) (prefill factor)^b, as in a closed loop. The two errors are independent.
double independent(double together, double decode, double prefill) {
  constexpr double kAlike = 0.01;  // too alike to tell the share of each
  const double all = std::log(together), d = std::log(decode), p = std::log(prefill);
  if (std::abs(p - d) < kAlike) return together;
  const double share = (all - d) / (p - d);
  if (share < 0 || share > 1) return together;  // queues make it grow beyond either factor
  const double log = std::hypot((1 - share) * d, share * p);
  return std::exp(together < 1 ? -log : log);
}

// Factors for profiles that state no errors.
constexpr TimeUncertainty kUnknown{.decode_low = 0.7, .decode_high = 1.5, .prefill_low = 0.6, .prefill_high = 1.8};

TimeUncertainty wider(const TimeUncertainty& a, const TimeUncertainty& b) {
  return {.decode_low = std::min(a.decode_low, b.decode_low),
          .decode_high = std::max(a.decode_high, b.decode_high),
          .prefill_low = std::min(a.prefill_low, b.prefill_low),
          .prefill_high = std::max(a.prefill_high, b.prefill_high)};
}

TimeUncertainty widest(const model::EngineProfile& engine) {
  if (engine.uncertainty_beyond.empty()) return kUnknown;
  TimeUncertainty out;
  for (const auto& [kind, u] : engine.uncertainty_beyond) out = wider(out, u);
  return out;
}

// Leaving out a model also leaves out its type. A version whose runs were not compared counts as another model.
TimeUncertainty beyond(const model::EngineProfile& engine, model::Beyond kind) {
  auto found = engine.uncertainty_beyond.find(kind);
  const bool like_a_model = kind == model::Beyond::type || kind == model::Beyond::version;
  if (found == engine.uncertainty_beyond.end() && like_a_model)
    found = engine.uncertainty_beyond.find(model::Beyond::model);
  return found != engine.uncertainty_beyond.end() ? found->second : widest(engine);
}

}  // namespace

TimeUncertainty band_factors(const model::EngineProfile& engine, const std::set<model::Beyond>& kinds) {
  if (!engine.uncertainty) return kUnknown;
  if (kinds.empty()) return *engine.uncertainty;
  TimeUncertainty u;
  for (const model::Beyond kind : kinds) u = both(u, beyond(engine, kind));
  return wider(u, *engine.uncertainty);  // never narrower than within the fitted range
}

void add_bands(const load::Scenario& scenario, bool beyond_measured, PointMetrics& metrics, std::stop_token stop) {
  if (scenario.engine->constant || metrics.requests_completed == 0) return;
  TimeUncertainty u = scenario.uncertainty;
  // The run had batches that no measurement covers. This error comes on top of the others.
  if (beyond_measured && scenario.engine->uncertainty) u = both(u, beyond(*scenario.engine, model::Beyond::batch));
  const bool shortened = can_be_shortened(scenario, metrics);
  const load::Scenario s = shortened ? beginning_of(scenario) : scenario;
  // A long run is represented by its beginning, at unchanged times too. The band is relative to that run.
  const PointMetrics middle = shortened ? at_end(s, 1, 1, stop) : metrics;
  const PointMetrics fast = at_end(s, u.decode_low, u.prefill_low, stop),
                     slow = at_end(s, u.decode_high, u.prefill_high, stop);
  if (stop.stop_requested()) return;
  const Ends ends{middle, fast, slow, !slow.steady.grows};
  metrics.latency_mean_band = time_band(ends, metrics, [](const PointMetrics& m) { return m.latency.mean; });
  metrics.ttft_mean_band = time_band(ends, metrics, [](const PointMetrics& m) { return m.ttft.mean; });
  metrics.latency_per_token_p90_band =
      time_band(ends, metrics, [](const PointMetrics& m) { return m.latency_per_token.p90; });
  // The time between tokens does not depend on the queue.
  metrics.tpot_mean_band =
      time_band({middle, fast, slow, true}, metrics, [](const PointMetrics& m) { return m.tpot.mean; });
  if (PointMetrics::Band& band = metrics.tpot_mean_band; metrics.tpot.mean && band.low && band.high) {
    const double mean = *metrics.tpot.mean;
    band.low = mean * independent(*band.low / mean, u.decode_low, u.prefill_low);
    band.high = mean * independent(*band.high / mean, u.decode_high, u.prefill_high);
  }
  const auto rate = [](const PointMetrics& m) { return std::optional(m.output_tokens_per_s); };
  if (const auto low = scaled(rate(metrics), rate(middle), rate(slow)))
    metrics.output_tokens_per_s_band.low = std::min(metrics.output_tokens_per_s, *low);
  if (const auto high = scaled(rate(metrics), rate(middle), rate(fast)))
    metrics.output_tokens_per_s_band.high = std::max(metrics.output_tokens_per_s, *high);
}

sim::RunResult simulate_with_bands(const load::Scenario& scenario, const sim::RunOptions& options) {
  sim::RunResult run = sim::simulate(scenario, options);
  if (!run.stopped) add_bands(scenario, !run.beyond_measured.empty(), run.metrics, options.stop);
  return run;
}

}  // namespace plimsoll::study
