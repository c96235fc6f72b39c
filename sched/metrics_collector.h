// SPDX-License-Identifier: Apache-2.0
// Computes what a run measured from the requests that ended. The simulator and live runs share this implementation.
// Definitions: docs/metrics.md.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sched/log_histogram.h"
#include "sched/pool_metrics.h"
#include "sched/replica.h"
#include "sched/steady_state.h"

namespace plimsoll::sched {

/// Service level objective; every bound is optional. Times in seconds.
struct Slo {
  enum class Metric : std::uint8_t { latency, ttft, tpot, itl, latency_per_token };
  struct Bound {
    Metric metric = Metric::latency;
    double quantile = -1;  // 0.9 for p90_…; < 0: the mean
    double limit = 0;
    bool operator==(const Bound&) const = default;
  };
  std::vector<Bound> bounds;
  std::optional<double> min_output_tokens_per_s, min_requests_per_s, max_timeout_rate, min_goodput;
  [[nodiscard]] bool empty() const {
    return bounds.empty() && !min_output_tokens_per_s && !min_requests_per_s && !max_timeout_rate && !min_goodput;
  }
  bool operator==(const Slo&) const = default;
};

/// One logical request as its client sees it, with all its attempts (retries) combined.
struct RequestResult {
  Nanos sent = 0, first_token = -1, end = 0;  // sent: the first attempt's intended time
  Tok input = 0, output = 0, generated = 0;
  Outcome outcome = Outcome::completed;
  const char* code = "";              // why it was rejected: a code of docs/policies.md
  bool unfit = false;                 // rejected for its length, whatever the load
  double queue_s = 0, preempt_s = 0;  // queue_s includes the time before the last attempt
  model::TimeParts service = {};
  const Stages* stages = nullptr;  // with two pools; read by add() only
  bool first_wave = false;         // the first request of a closed-loop user; all users send it at once
};

/// The measured columns of a point (docs/metrics.md has units and definitions); absent values are blank.
struct PointMetrics {
  double input_tokens_mean = 0, output_tokens_mean = 0;
  std::int64_t requests_completed = 0, requests_rejected = 0, requests_timed_out = 0, preemptions = 0;
  /// Number of rejected requests by the code of their last refusal, in order of codes.
  std::map<std::string, std::int64_t> rejections;
  double duration_s = 0;
  double requests_per_s = 0, output_tokens_per_s = 0, total_tokens_per_s = 0;
  struct Quantiles {
    std::optional<double> mean, p50, p90, p95, p99;
    bool operator==(const Quantiles&) const = default;
  };
  Quantiles latency, ttft, tpot, itl, latency_per_token;
  double batch_mean = 0, kv_used_mean = 0, kv_used_peak = 0, kv_wasted_mean = 0;
  /// Fraction of logical requests that completed within the limit of every bound on latency, TTFT, TPOT and latency per
  /// token, whatever the bound's quantile; blank without such bounds. ITL is not known per request, so bounds on it are
  /// ignored.
  std::optional<double> slo_attainment;
  /// The statistic that each SLO bound limits, in the order of the bounds, over all logical requests. A rejected or
  /// timed-out request counts as infinitely late; so do all requests where the backlog grows. ITL is over the gaps of
  /// completed requests. Empty if nothing was measured.
  std::vector<double> slo_values;
  SteadyState steady;
  /// Half-widths over the replications if there are several, else over the batches of the one run; blank in short runs.
  std::optional<double> latency_mean_ci95_s, output_tokens_per_s_ci95;
  double in_system_mean = 0, queue_mean = 0;
  std::optional<double> kv_internal_mean, kv_reserved_unused_mean, kv_external_mean, kv_last_block_mean;
  // Means per completed request, seconds; with time_other_s they sum to the mean latency.
  double time_weights_s = 0, time_kv_s = 0, time_compute_s = 0, time_allreduce_s = 0, time_host_s = 0;
  double time_queue_s = 0, time_preempt_s = 0, time_other_s = 0;
  /// Usage within the window by fleets with replicas that come and go, mean per replication. Blank for fixed fleets.
  std::optional<double> replica_s, instance_s, replica_starts, replica_failures;
  // 90 % bands of a prediction (study/run/bands.h); blank: no band, or no bound on that side.
  struct Band {
    std::optional<double> low, high;
    bool operator==(const Band&) const = default;
  };
  // Closed loops: the requests that all users send at the start, and the later ones. Blank unless there are both.
  std::optional<double> ttft_first_wave_mean, ttft_steady_mean, ttft_steady_p99, latency_steady_mean;
  std::optional<PoolMetrics> pools;  // with separate pools for prefill and decode
  Band latency_mean_band, ttft_mean_band, tpot_mean_band, latency_per_token_p90_band, output_tokens_per_s_band;
  bool operator==(const PointMetrics&) const = default;
};

/// What a fleet with replicas that come and go used in one run's window; mean per run when pooled.
struct FleetUsage {
  double replica_s = 0, instance_s = 0;
  std::int64_t starts = 0, failures = 0;
};

/// The measured window of a run: its ends in seconds, and integrals over it of the number of logical requests in the
/// system, and of those whose service has not begun.
struct RunWindow {
  double start_s = 0, end_s = 0;
  double in_system = 0, queue = 0;
};

/// Collects one or several replications of a point. Memory: at most 64 bytes a completed request, or fixed after
/// bound_memory().
class MetricsCollector {
 public:
  /// Requests sent before `warmup` (from the run's start) are left out of request metrics, throughput and integrals.
  MetricsCollector(Slo slo, Seconds warmup, bool returns_at_batch_end);

  /// Reserves memory for this many completed requests. No effect after bound_memory().
  void reserve(std::size_t requests);
  /// For runs without end. From the 16384th completed request on, quantiles are those of histograms, within 0.1 %, and
  /// the steady state and the intervals rest on every k-th request. Before the first add().
  void bound_memory();
  /// Adds a request that ended. Call in order of end within a run.
  void add(const RequestResult& result);
  /// Adds the counts of the times between tokens of one replica; their sum comes by add_itl_sum().
  void add_itl(const LogHistogram& itl);
  void add_itl_sum(double seconds);
  /// Adds the integrals of one replica over one run's window. `pool_tokens` is the capacity of its KV pool. Every run
  /// must have the same pools.
  void add_replica(const Integrals& integrals, double peak_used_tokens, double pool_tokens, std::int64_t preemptions);
  /// Adds a replica of a prefill or decode pool, busy for that many seconds of the run's window.
  void add_pool_replica(Role role, double busy_s, Blk staged_peak, std::int64_t preemptions);
  /// Closes one replication. `load` is the load that the run offered.
  void end_run(const RunWindow& window, const OfferedLoad& load);
  /// Adds the usage of a run with replicas that come and go; call before its end_run().
  void add_fleet(const FleetUsage& usage);
  /// The same for the prefill pool of such a run.
  void add_prefill_fleet(const FleetUsage& usage);
  /// Computes the metrics of all runs added so far.
  [[nodiscard]] PointMetrics metrics() const;

 private:
  using Record = Served;  // a completed request after warm-up: 32 bytes, twice that while the vector grows
  struct Run {
    std::size_t records_end = 0;  // end index of the run's records
    double start_s = 0, end_s = 0;
    OfferedLoad load;
    std::int64_t shed_end = 0, unfit_end = 0;  // cumulative over all runs up to this one
  };
  [[nodiscard]] std::optional<double> value_of(const Record& record, Slo::Metric metric) const;
  [[nodiscard]] bool meets_slo(const Record& record) const;
  void add_completed(const RequestResult& result);
  void sketch(const Record& record, bool first_wave);
  void thin_out();
  [[nodiscard]] double window_s() const;
  void fill_request_metrics(PointMetrics& point) const;
  void fill_rates(PointMetrics& point) const;
  void fill_steady(PointMetrics& point) const;
  void fill_slo_values(PointMetrics& point) const;
  [[nodiscard]] double slo_value(const Slo::Bound& bound, bool grows) const;
  [[nodiscard]] double thinned_slo_value(const Slo::Bound& bound) const;
  [[nodiscard]] bool is_thinned() const { return each_ > 1; }
  [[nodiscard]] SteadyState steady_state() const;
  void fill_kv(PointMetrics& point) const;
  void fill_fleet(PointMetrics& point) const;
  void fill_time_parts(PointMetrics& point) const;
  void fill_intervals(PointMetrics& point) const;
  void fill_run_intervals(PointMetrics& point) const;
  static void blank_growing(PointMetrics& point);

  Slo slo_;
  Nanos warmup_ = 0;
  bool returns_at_batch_end_ = false;
  std::vector<Record> records_;  // of all replications, in order of end within each; every each_-th one
  std::size_t each_ = 1, skipped_ = 0;
  std::int64_t completed_ = 0;
  struct Sketches {  // of all completed requests
    LogHistogram latency, ttft, tpot, per_token;
    LogHistogram steady_ttft;  // without the first wave
    double first_ttft = 0, steady_latency = 0;
    std::int64_t first = 0;
  };
  std::optional<Sketches> sketches_;  // with bound_memory()
  std::vector<Run> runs_;
  LogHistogram itl_;
  std::optional<FleetUsage> fleet_;
  FleetUsage prefill_fleet_;
  std::optional<PoolSums> pools_;
  Integrals sums_;
  double peak_fraction_ = 0, pool_tokens_ = 0;  // sums over the pools of all replicas of all runs
  double one_pool_tokens_ = 0;                  // the pool of one replica
  double in_system_ = 0, queue_ = 0;
  model::TimeParts service_;
  double queue_s_ = 0, preempt_s_ = 0;
  std::int64_t input_tokens_ = 0, output_tokens_ = 0;
  std::map<std::string, std::int64_t> rejections_;
  std::vector<std::size_t> first_wave_;  // indices into records_, ascending
  std::int64_t rejected_ = 0, timed_out_ = 0, preemptions_ = 0, slo_met_ = 0, slo_total_ = 0;
  std::int64_t shed_ = 0, unfit_ = 0;
  bool per_request_slo_ = false;
};

/// Returns the q-quantile by linear interpolation between order statistics (type 7). `values` must not be empty and is
/// partially reordered.
[[nodiscard]] double quantile(std::vector<double>& values, double q);

}  // namespace plimsoll::sched
