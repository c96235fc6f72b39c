// SPDX-License-Identifier: Apache-2.0
// The content of /metrics: the counters, gauges and histograms of vLLM under its names, with one engine per replica,
// and the server's own lateness. Times are those that clients see: with --speed k, 1/k of the model's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "net/prometheus_writer.h"
#include "sched/log_histogram.h"
#include "sched/replica.h"
#include "sched/run_result.h"

namespace plimsoll::serve {

enum class Finish : std::uint8_t { stop, length, abort, error };
inline constexpr std::array<std::string_view, 4> kFinishNames = {"stop", "length", "abort", "error"};

struct ServerDescription {
  std::string model;         // the name in /v1/models
  std::int64_t longest = 1;  // tokens of the longest request, prompt and output
  double speed = 1;
  std::size_t replicas = 1;
  std::string cache_dtype;
  sched::Blk unusable_blocks = 0;  // of each pool, beyond those of the ledger
  std::string backend = {};        // what runs a real model, such as cpu; empty: it is simulated
};

/// How late steps were: the time from the end of a step in the model until its tokens were sent.
class Lateness {
 public:
  Lateness();
  /// Adds a step; both in seconds of real time.
  void add(double late, double step);
  [[nodiscard]] const net::BucketCounts& counts() const { return counts_; }
  /// Returns whether more than 1 % of the steps were late by more than 1 ms and by more than 2 % of their length.
  [[nodiscard]] bool is_flagged() const { return late_ * 100 > all_.count(); }
  /// Returns how many steps that were.
  [[nodiscard]] std::int64_t late_steps() const { return late_; }
  [[nodiscard]] const sched::LogHistogram& all() const { return all_; }

 private:
  net::BucketCounts counts_;
  sched::LogHistogram all_;
  std::int64_t late_ = 0;
};

class ServerMetrics {
 public:
  explicit ServerMetrics(const ServerDescription& description);

  // Times are in seconds of the model.
  void first_token(std::size_t replica, double since_sent, sched::Tok input);
  void more_tokens(std::size_t replica, double since_last, sched::Tok tokens);
  void tokens(std::size_t replica, sched::Tok tokens);
  void step(std::size_t replica, std::int64_t tokens);
  void prefix(std::size_t replica, sched::Tok asked, sched::Tok found);
  void completed(const sched::FinishedAttempt& attempt, std::size_t replica, Finish finish);
  void unfinished(std::size_t replica, Finish finish);

  /// Returns the page. A replica that has failed is null.
  [[nodiscard]] std::string text(std::span<sched::Replica* const> replicas, const Lateness& lateness) const;

 private:
  enum Times : std::uint8_t { ttft, gap, request_tpot, e2e, queued, inference, prefill, decode, times };
  enum Sizes : std::uint8_t { iteration, prompt, generation, sizes };
  struct Engine {
    std::string labels;
    std::uint64_t prompt_tokens = 0, generation_tokens = 0, queries = 0, hits = 0;
    std::array<std::uint64_t, kFinishNames.size()> finished{};
    std::vector<net::BucketCounts> times, sizes;
  };
  template <class Value>
  void write_all(net::PrometheusWriter& out, Value value) const;
  void write_gauges(net::PrometheusWriter& out, std::span<sched::Replica* const> replicas) const;
  void write_counters(net::PrometheusWriter& out, std::span<sched::Replica* const> replicas) const;
  void write_histograms(net::PrometheusWriter& out) const;

  ServerDescription description_;
  std::vector<Engine> engines_;
};

}  // namespace plimsoll::serve
