// SPDX-License-Identifier: Apache-2.0
// Keeps requests as 32-byte records. They become columns of numbers only when the metrics are asked for: one column at
// a time, with selection instead of sorting for the quantiles.
#include "sched/metrics_collector.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>

#include "sched/statistics.h"

namespace plimsoll::sched {

namespace {

constexpr double kNano = 1e-9;
constexpr std::size_t kMostRecords = 16'384;  // with bound_memory()
constexpr std::array<double, 4> kQuantiles{0.50, 0.90, 0.95, 0.99};

double ratio(double amount, double whole) { return whole > 0 ? amount / whole : 0; }

PointMetrics::Quantiles summarise(std::vector<double>& column) {
  if (column.empty()) return {};
  double sum = 0;
  for (const double value : column) sum += value;
  std::array<double, 4> at{};
  quantiles(column, kQuantiles, at);
  return {sum / static_cast<double>(column.size()), at[0], at[1], at[2], at[3]};
}

PointMetrics::Quantiles summarise(const LogHistogram& histogram) {
  if (histogram.count() == 0) return {};
  return {histogram.mean(), histogram.quantile(0.50), histogram.quantile(0.90), histogram.quantile(0.95),
          histogram.quantile(0.99)};
}

double per_token(double latency, std::int32_t output) { return latency / std::max(output, 1); }

/// Returns the output tokens per second that completed in each of `slices` equal parts of the window. Long parts of a
/// run are nearly independent, which an interval of their means needs.
template <class Records>
std::vector<double> throughput_slices(const Records& records, double start, double end, std::size_t slices) {
  std::vector<double> rates(slices, 0);
  const double width = (end - start) / static_cast<double>(slices);
  for (const auto& record : records) {
    const double slice = std::clamp((record.end - start) / width, 0.0, static_cast<double>(slices - 1));
    rates[static_cast<std::size_t>(slice)] += record.output / width;
  }
  return rates;
}

template <class Records>
std::vector<double> latency_batches(const Records& records, std::size_t batches) {
  std::vector<double> means(batches, 0);
  for (std::size_t b = 0; b < batches; ++b) {
    const std::size_t first = b * records.size() / batches, last = (b + 1) * records.size() / batches;
    for (std::size_t i = first; i < last; ++i) means[b] += records[i].latency;
    means[b] /= static_cast<double>(last - first);
  }
  return means;
}

}  // namespace

MetricsCollector::MetricsCollector(Slo slo, Seconds warmup, bool returns_at_batch_end)
    : slo_(std::move(slo)),
      warmup_(std::chrono::round<std::chrono::nanoseconds>(warmup).count()),
      returns_at_batch_end_(returns_at_batch_end) {
  for (const Slo::Bound& bound : slo_.bounds) per_request_slo_ |= bound.metric != Slo::Metric::itl;
}

void MetricsCollector::bound_memory() {
  sketches_.emplace();
  records_.resize(kMostRecords);  // written once, so that its pages count from the start and memory stays constant
  records_.clear();
}

void MetricsCollector::sketch(const Record& record, bool first_wave) {
  Sketches& all = *sketches_;
  all.latency.add(record.latency, 1);
  all.ttft.add(record.ttft, 1);
  all.per_token.add(per_token(record.latency, record.output), 1);
  if (const auto tpot = value_of(record, Slo::Metric::tpot)) all.tpot.add(*tpot, 1);
  if (first_wave) {
    all.first_ttft += record.ttft;
    ++all.first;
  } else {
    all.steady_ttft.add(record.ttft, 1);
    all.steady_latency += record.latency;
  }
}

// Keeps every second record of each run.
void MetricsCollector::thin_out() {
  each_ *= 2;
  std::size_t kept = 0, from = 0;
  const auto keep = [&](std::size_t until) {
    for (std::size_t i = from + 1; i < until; i += 2) records_[kept++] = records_[i];
    from = until;
    return kept;
  };
  for (Run& run : runs_) run.records_end = keep(run.records_end);
  records_.resize(keep(records_.size()));
  first_wave_.clear();
}

void MetricsCollector::reserve(std::size_t requests) {
  if (!sketches_) records_.reserve(requests);  // bound_memory() has reserved all that is needed
}

// A request sent during the warm-up does not count, even if it ends later: it met a fleet that was filling up.
void MetricsCollector::add(const RequestResult& result) {
  if (result.sent < warmup_) return;
  ++slo_total_;
  switch (result.outcome) {
    case Outcome::completed: add_completed(result); break;
    case Outcome::rejected:
      ++rejected_;
      ++(result.unfit ? unfit_ : shed_);
      ++rejections_[result.code];
      break;
    case Outcome::timed_out:
      ++timed_out_;
      ++shed_;
      break;
    case Outcome::cancelled: break;
  }
}

void MetricsCollector::add_completed(const RequestResult& result) {
  const double latency = static_cast<double>(result.end - result.sent) * kNano;
  const bool whole = returns_at_batch_end_ || result.first_token < 0;
  const double ttft = whole ? latency : static_cast<double>(result.first_token - result.sent) * kNano;
  const Record record{latency, ttft, static_cast<double>(result.end) * kNano, result.output};
  ++completed_;
  if (sketches_) sketch(record, result.first_wave);
  if (++skipped_ >= each_) {
    skipped_ = 0;
    records_.push_back(record);
    if (result.first_wave) first_wave_.push_back(records_.size() - 1);
  }
  if (sketches_ && records_.size() >= kMostRecords) thin_out();
  input_tokens_ += result.input;
  output_tokens_ += result.output;
  service_ += result.service;
  queue_s_ += result.queue_s;
  preempt_s_ += result.preempt_s;
  if (result.stages != nullptr) {
    if (!pools_) pools_.emplace();
    pools_->add(*result.stages, stage_times(*result.stages, result.sent, result.first_token, result.end));
  }
  if (per_request_slo_ && meets_slo(record)) ++slo_met_;
}

// Returns nullopt for a value that the request does not have: the TPOT of a single token or of a batch that returns as
// a whole, and the ITL.
std::optional<double> MetricsCollector::value_of(const Record& record, Slo::Metric metric) const {
  switch (metric) {
    case Slo::Metric::latency: return record.latency;
    case Slo::Metric::ttft: return record.ttft;
    case Slo::Metric::tpot:
      if (record.output <= 1 || returns_at_batch_end_) return {};
      return (record.latency - record.ttft) / (record.output - 1);
    case Slo::Metric::itl: return {};
    case Slo::Metric::latency_per_token: return per_token(record.latency, record.output);
  }
  return {};
}

// A bound on a value that the request does not have counts as met.
bool MetricsCollector::meets_slo(const Record& record) const {
  return std::all_of(slo_.bounds.begin(), slo_.bounds.end(), [&](const Slo::Bound& bound) {
    return value_of(record, bound.metric).value_or(0) <= bound.limit;
  });
}

void MetricsCollector::add_itl(const LogHistogram& itl) { itl_.merge(itl); }
void MetricsCollector::add_itl_sum(double seconds) { itl_.add_sum(seconds); }

void MetricsCollector::add_replica(const Integrals& integrals, double peak_used_tokens, double pool_tokens,
                                   std::int64_t preemptions) {
  sums_.busy_s += integrals.busy_s;
  sums_.batch += integrals.batch;
  sums_.used_tokens += integrals.used_tokens;
  sums_.held_tokens += integrals.held_tokens;
  sums_.internal += integrals.internal;
  sums_.reserved_unused += integrals.reserved_unused;
  sums_.external += integrals.external;
  sums_.last_block += integrals.last_block;
  peak_fraction_ = std::max(peak_fraction_, ratio(peak_used_tokens, pool_tokens));
  pool_tokens_ += pool_tokens;
  one_pool_tokens_ = pool_tokens;
  preemptions_ += preemptions;
}

void MetricsCollector::add_pool_replica(Role role, double busy_s, Blk staged_peak, std::int64_t preemptions) {
  if (!pools_) pools_.emplace();
  pools_->add_replica(role, busy_s, staged_peak);
  preemptions_ += preemptions;
}

namespace {
void add_use(FleetUsage& sum, const FleetUsage& usage) {
  sum.replica_s += usage.replica_s;
  sum.instance_s += usage.instance_s;
  sum.starts += usage.starts;
  sum.failures += usage.failures;
}
}  // namespace

void MetricsCollector::add_fleet(const FleetUsage& usage) {
  if (!fleet_) fleet_.emplace();
  add_use(*fleet_, usage);
}

void MetricsCollector::add_prefill_fleet(const FleetUsage& usage) { add_use(prefill_fleet_, usage); }

void MetricsCollector::end_run(const RunWindow& window, const OfferedLoad& load) {
  runs_.push_back({records_.size(), window.start_s, window.end_s, load, shed_, unfit_});
  in_system_ += window.in_system;
  queue_ += window.queue;
}

double MetricsCollector::window_s() const {
  double window = 0;
  for (const Run& run : runs_) window += run.end_s - run.start_s;
  return window;
}

PointMetrics MetricsCollector::metrics() const {
  PointMetrics point;
  fill_rates(point);
  fill_request_metrics(point);
  fill_steady(point);
  fill_slo_values(point);
  fill_kv(point);
  fill_fleet(point);
  fill_time_parts(point);
  fill_intervals(point);
  blank_growing(point);
  return point;
}

void MetricsCollector::fill_rates(PointMetrics& point) const {
  const auto completed = static_cast<double>(completed_);
  point.duration_s = window_s();
  point.requests_completed = completed_;
  point.requests_rejected = rejected_;
  point.rejections = rejections_;
  point.requests_timed_out = timed_out_;
  point.preemptions = preemptions_;
  point.input_tokens_mean = ratio(static_cast<double>(input_tokens_), completed);
  point.output_tokens_mean = ratio(static_cast<double>(output_tokens_), completed);
  point.requests_per_s = ratio(completed, point.duration_s);
  point.output_tokens_per_s = ratio(static_cast<double>(output_tokens_), point.duration_s);
  point.total_tokens_per_s = ratio(static_cast<double>(input_tokens_ + output_tokens_), point.duration_s);
  point.in_system_mean = ratio(in_system_, point.duration_s);
  point.queue_mean = ratio(queue_, point.duration_s);
  point.steady = steady_state();
  if (per_request_slo_ && slo_total_ > 0)
    point.slo_attainment = static_cast<double>(slo_met_) / static_cast<double>(slo_total_);
}

SteadyState MetricsCollector::steady_state() const {
  std::vector<JudgedRun> judged;
  std::size_t first = 0;
  std::int64_t shed = 0, unfit = 0;
  for (const Run& run : runs_) {
    judged.push_back({run.load, run.start_s, std::span(records_).subspan(first, run.records_end - first),
                      run.shed_end - shed, run.unfit_end - unfit, static_cast<double>(each_)});
    first = run.records_end;
    shed = run.shed_end;
    unfit = run.unfit_end;
  }
  return judge_steady_state(judged, ratio(queue_s_, static_cast<double>(completed_)));
}

void MetricsCollector::fill_request_metrics(PointMetrics& point) const {
  if (is_thinned()) {
    point.latency = summarise(sketches_->latency);
    point.latency_per_token = summarise(sketches_->per_token);
    point.ttft = returns_at_batch_end_ ? point.latency : summarise(sketches_->ttft);
    point.tpot = summarise(sketches_->tpot);
    if (!returns_at_batch_end_) point.itl = summarise(itl_);
    return;
  }
  std::vector<double> column(records_.size());
  // One column at a time: quantiles reorder it, and a copy of every metric would double the memory of a run.
  const auto fill = [&](auto value_of) {
    column.resize(records_.size());
    std::transform(records_.begin(), records_.end(), column.begin(), value_of);
    return summarise(column);
  };
  point.latency = fill([](const Record& r) { return r.latency; });
  point.latency_per_token = fill([](const Record& r) { return per_token(r.latency, r.output); });
  // All rows return together, so the first token arrives with the last one.
  if (returns_at_batch_end_) {
    point.ttft = point.latency;
    return;
  }
  point.ttft = fill([](const Record& r) { return r.ttft; });
  column.clear();
  for (const Record& r : records_)
    if (r.output > 1) column.push_back((r.latency - r.ttft) / (r.output - 1));
  point.tpot = summarise(column);
  point.itl = summarise(itl_);
}

// In a closed loop all users send their first request at once, which real load seldom does. These first requests are
// therefore reported apart.
void MetricsCollector::fill_steady(PointMetrics& point) const {
  if (is_thinned()) {
    const Sketches& all = *sketches_;
    const std::int64_t steady_count = all.steady_ttft.count();
    if (all.first == 0 || steady_count == 0) return;
    point.ttft_first_wave_mean = all.first_ttft / static_cast<double>(all.first);
    point.latency_steady_mean = all.steady_latency / static_cast<double>(steady_count);
    point.ttft_steady_mean = all.steady_ttft.mean();
    point.ttft_steady_p99 = all.steady_ttft.quantile(0.99);
    return;
  }
  if (first_wave_.empty() || first_wave_.size() == records_.size()) return;
  std::vector<double> steady;
  steady.reserve(records_.size() - first_wave_.size());
  double first = 0, latency = 0;
  auto next = first_wave_.begin();
  for (std::size_t i = 0; i < records_.size(); ++i) {
    if (next != first_wave_.end() && *next == i) {
      first += records_[i].ttft;
      ++next;
    } else {
      steady.push_back(records_[i].ttft);
      latency += records_[i].latency;
    }
  }
  point.ttft_first_wave_mean = first / static_cast<double>(first_wave_.size());
  point.latency_steady_mean = latency / static_cast<double>(steady.size());
  const PointMetrics::Quantiles ttft = summarise(steady);
  point.ttft_steady_mean = ttft.mean;
  point.ttft_steady_p99 = ttft.p99;
}

void MetricsCollector::fill_slo_values(PointMetrics& point) const {
  if (slo_total_ == 0) return;
  for (const Slo::Bound& bound : slo_.bounds) point.slo_values.push_back(slo_value(bound, point.steady.grows));
}

double MetricsCollector::slo_value(const Slo::Bound& bound, bool grows) const {
  constexpr double kNever_s = std::numeric_limits<double>::infinity();
  if (bound.metric == Slo::Metric::itl) {
    if (itl_.count() == 0) return completed_ == 0 && rejected_ + timed_out_ > 0 ? kNever_s : 0;
    return bound.quantile < 0 ? itl_.mean() : itl_.quantile(bound.quantile);
  }
  // If the queue grows without end, every limit on a wait is missed, however the run began.
  if (grows) return kNever_s;
  if (is_thinned()) return thinned_slo_value(bound);
  std::vector<double> values;
  values.reserve(records_.size());
  for (const Record& record : records_) {
    if (const auto value = value_of(record, bound.metric)) values.push_back(*value);
  }
  const std::int64_t failed = rejected_ + timed_out_;
  // Requests that failed count as infinitely late, or refusing them would improve a percentile.
  if (values.empty()) return failed > 0 ? kNever_s : 0;
  if (bound.quantile < 0) {
    double sum = 0;
    for (const double value : values) sum += value;
    return failed > 0 ? kNever_s : sum / static_cast<double>(values.size());
  }
  // Type-7 quantile of the values followed by `failed` infinities.
  const double at = bound.quantile * static_cast<double>(static_cast<std::int64_t>(values.size()) + failed - 1);
  const auto last = static_cast<double>(values.size() - 1);
  if (std::ceil(at) > last) return kNever_s;
  return quantile(values, last > 0 ? at / last : 0);
}

// As slo_value(), from the histograms.
double MetricsCollector::thinned_slo_value(const Slo::Bound& bound) const {
  constexpr double kNever_s = std::numeric_limits<double>::infinity();
  const LogHistogram& values = bound.metric == Slo::Metric::latency ? sketches_->latency
                               : bound.metric == Slo::Metric::ttft  ? sketches_->ttft
                               : bound.metric == Slo::Metric::tpot  ? sketches_->tpot
                                                                    : sketches_->per_token;
  const std::int64_t failed = rejected_ + timed_out_;
  if (values.count() == 0) return failed > 0 ? kNever_s : 0;
  if (bound.quantile < 0) return failed > 0 ? kNever_s : values.mean();
  const double at = bound.quantile * static_cast<double>(values.count() + failed - 1);
  const auto last = static_cast<double>(values.count() - 1);
  return std::ceil(at) > last ? kNever_s : values.quantile(last > 0 ? at / last : 0);
}

void MetricsCollector::fill_kv(PointMetrics& point) const {
  // A batch exists only while a step runs, so its mean size is an average over the time in steps.
  point.batch_mean = ratio(sums_.batch, sums_.busy_s);
  // With a fleet that changes, only the time for which replicas were there counts.
  double pool_seconds = runs_.empty() ? 0 : pool_tokens_ / static_cast<double>(runs_.size()) * point.duration_s;
  if (fleet_) pool_seconds = one_pool_tokens_ * fleet_->replica_s;
  point.kv_used_mean = ratio(sums_.used_tokens, pool_seconds);
  point.kv_used_peak = peak_fraction_;
  // Several requests use a shared prefix that is held once. The waste is then zero, not negative.
  point.kv_wasted_mean = ratio(std::max(0.0, sums_.held_tokens - sums_.used_tokens), pool_seconds);
  if (!(sums_.held_tokens > 0)) return;
  // The rounding error left when large sums cancel is not waste.
  const auto of_held = [this](double integral) {
    constexpr double kRounding = 1e-9;
    const double fraction = integral / sums_.held_tokens;
    return fraction > kRounding ? fraction : 0;
  };
  point.kv_internal_mean = of_held(sums_.internal);
  point.kv_reserved_unused_mean = of_held(sums_.reserved_unused);
  point.kv_external_mean = of_held(sums_.external);
  point.kv_last_block_mean = of_held(sums_.last_block);
}

void MetricsCollector::fill_fleet(PointMetrics& point) const {
  if (!fleet_ || runs_.empty()) return;
  const auto runs = static_cast<double>(runs_.size());
  FleetUsage all = *fleet_;
  add_use(all, prefill_fleet_);
  point.replica_s = all.replica_s / runs;
  point.instance_s = all.instance_s / runs;
  point.replica_starts = static_cast<double>(all.starts) / runs;
  point.replica_failures = static_cast<double>(all.failures) / runs;
}

void MetricsCollector::fill_time_parts(PointMetrics& point) const {
  if (pools_) point.pools = pools_->metrics(point.duration_s);
  if (point.pools && point.instance_s)
    point.pools->prefill_instance_s = prefill_fleet_.instance_s / static_cast<double>(runs_.size());
  if (completed_ == 0) return;
  const double share = 1 / static_cast<double>(completed_);
  point.time_weights_s = service_.weights * share;
  point.time_kv_s = service_.kv * share;
  point.time_compute_s = service_.compute * share;
  point.time_allreduce_s = service_.allreduce * share;
  point.time_host_s = service_.host * share;
  point.time_queue_s = queue_s_ * share;
  point.time_preempt_s = preempt_s_ * share;
  // The rest of the latency is due to none of the named causes.
  point.time_other_s = *point.latency.mean -
                       (point.time_weights_s + point.time_kv_s + point.time_compute_s + point.time_allreduce_s +
                        point.time_host_s + point.time_queue_s + point.time_preempt_s) -
                       (point.pools ? point.pools->time_transfer : 0);
}

// Replications are independent, so the interval of their means is valid even if values within a run are correlated.
// Only the mean of each run is used, so few replications give wide intervals, as they should.
void MetricsCollector::fill_intervals(PointMetrics& point) const {
  if (runs_.size() == 1) fill_run_intervals(point);
  if (runs_.size() < 2) return;
  std::vector<double> latencies, rates;
  std::size_t first = 0;
  for (const Run& run : runs_) {
    double latency = 0, tokens = 0;
    for (std::size_t i = first; i < run.records_end; ++i) {
      latency += records_[i].latency;
      tokens += records_[i].output;
    }
    if (run.records_end > first) latencies.push_back(latency / static_cast<double>(run.records_end - first));
    rates.push_back(ratio(static_cast<double>(each_) * tokens, run.end_s - run.start_s));
    first = run.records_end;
  }
  point.latency_mean_ci95_s = replication_interval(latencies);
  point.output_tokens_per_s_ci95 = replication_interval(rates);
}

// With one run, batch means are used; they allow for waits that depend on each other.
void MetricsCollector::fill_run_intervals(PointMetrics& point) const {
  const std::size_t batches = batch_count(records_.size());
  if (batches == 0) return;
  point.latency_mean_ci95_s = batch_means_interval(latency_batches(records_, batches));
  const Run& run = runs_.front();
  if (!(run.end_s > run.start_s)) return;
  std::vector<double> rates = throughput_slices(records_, run.start_s, run.end_s, batches);
  for (double& rate : rates) rate *= static_cast<double>(each_);
  point.output_tokens_per_s_ci95 = batch_means_interval(rates);
}

// Beyond capacity the queue grows throughout the run: the waiting times describe the run's length, not the system.
void MetricsCollector::blank_growing(PointMetrics& point) {
  if (!point.steady.grows) return;
  point.latency = point.ttft = point.latency_per_token = {};
  point.slo_attainment.reset();
  point.latency_mean_ci95_s.reset();
}

double quantile(std::vector<double>& values, double q) {
  double out = 0;
  quantiles(values, std::span(&q, 1), std::span(&out, 1));
  return out;
}

}  // namespace plimsoll::sched
