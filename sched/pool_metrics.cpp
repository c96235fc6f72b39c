// SPDX-License-Identifier: Apache-2.0
#include "sched/pool_metrics.h"

#include <algorithm>

namespace plimsoll::sched {

namespace {
double span_s(Nanos time) { return 1e-9 * static_cast<double>(time); }
}  // namespace

// The stages follow one another without gaps, so their times sum to the latency. If a decode replica takes its blocks
// before the prefill, the request first waits for them there: this wait belongs to the decode side.
StageTimes stage_times(const Stages& s, Nanos sent, Nanos first_token, Nanos end) {
  StageTimes times;
  const Nanos decode = s.decode_start < 0 ? end : s.decode_start;
  if (s.local() || s.prefill_end < 0 || s.transfer_end < 0) {
    times.queue_decode = span_s(decode - sent);
    times.prefill = span_s(first_token - decode);
    times.decode = span_s(end - first_token);
    return times;
  }
  const Nanos offered = s.pushed ? s.prefill_arrived : sent;
  times.queue_prefill = span_s(s.prefill_start - offered);
  times.prefill = span_s(s.prefill_end - s.prefill_start);
  times.transfer = span_s(s.transfer_end - s.transfer_start);
  times.queue_decode = span_s((offered - sent) + (s.transfer_start - s.prefill_end) + (decode - s.transfer_end));
  times.decode = span_s(end - decode);
  return times;
}

void PoolSums::add(const Stages& stages, const StageTimes& times) {
  ++requests_;
  sums_.queue_prefill += times.queue_prefill;
  sums_.prefill += times.prefill;
  sums_.transfer += times.transfer;
  sums_.queue_decode += times.queue_decode;
  sums_.decode += times.decode;
  if (stages.local())
    ++local_;
  else
    transfers_.add(times.transfer, 1);
}

void PoolSums::add_replica(Role role, double busy_s, Blk staged_peak) {
  (role == Role::prefill ? prefill_busy_s_ : decode_busy_s_) += busy_s;
  staged_peak_ = std::max(staged_peak_, staged_peak);
}

PoolMetrics PoolSums::metrics(double seconds) const {
  PoolMetrics out;
  out.staging_blocks_peak = staged_peak_;
  if (seconds > 0) {
    out.prefill_busy = prefill_busy_s_ / seconds;
    out.decode_busy = decode_busy_s_ / seconds;
  }
  if (transfers_.count() > 0) {
    out.transfer_mean = transfers_.mean();
    out.transfer_p99 = transfers_.quantile(0.99);
  }
  if (requests_ == 0) return out;
  const double share = 1 / static_cast<double>(requests_);
  out.local_prefill_share = static_cast<double>(local_) * share;
  out.time_queue_prefill = sums_.queue_prefill * share;
  out.time_prefill = sums_.prefill * share;
  out.time_transfer = sums_.transfer * share;
  out.time_queue_decode = sums_.queue_decode * share;
  out.time_decode = sums_.decode * share;
  return out;
}

}  // namespace plimsoll::sched
