// SPDX-License-Identifier: Apache-2.0
// Judges whether a load has a steady state on a deployment, from what its runs served. A run proves something only if
// its load lasts long compared with the life of a request: until the first requests have left, every deployment seems
// to keep up. Definitions and the reasons for the constants: docs/metrics.md, "Steady state".
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace plimsoll::sched {

/// A completed request. Times in seconds; `end` is relative to the start of the run.
struct Served {
  double latency = 0, ttft = 0, end = 0;
  std::int32_t output = 0;
};

/// A load must last this many mean latencies before its observations count as a steady state. Each client of a closed
/// loop must also have sent this many requests.
inline constexpr double kLivesNeeded = 10, kRoundsNeeded = 10;

/// The load that a run offered. `none`: it ends by itself and has no steady state (bursts, scripts, published
/// protocols).
struct OfferedLoad {
  enum class Kind : std::uint8_t { none, open, closed };
  Kind kind = Kind::none;
  double last_sent_s = 0;         // when the last request was sent, relative to the start of the run
  double rate = 0;                // requests/s of an open load; 0: as many as were sent (a replay)
  double gap_scv = 1;             // open load: variance over squared mean of the gaps between requests
  std::int64_t clients = 0;       // closed loop
  double rounds = kRoundsNeeded;  // requests that each client must have sent; more if they form sessions
  double settles_s = 0;           // time that a fleet with changing replicas needs to follow its load; 0: fixed fleet
  double timeout_s = 0;           // after which clients give up an attempt; 0: they wait
  bool tries_again = false;       // clients send again what timed out
};

/// too_short: the runs do not prove that the load has a steady state, nor that it has none.
enum class Steadiness : std::uint8_t { stable, unstable, too_short };

struct SteadyState {
  Steadiness verdict = Steadiness::stable;
  bool grows = false;                // unstable with a growing backlog: waiting times describe the run's length
  std::string reason;                // empty if the verdict is stable
  std::int64_t requests_needed = 0;  // in one run, for a verdict; 0: there is one
  bool operator==(const SteadyState&) const = default;
};

/// One replication as the judgement sees it: the requests sent in its measured window.
struct JudgedRun {
  OfferedLoad load;
  double start_s = 0;  // start of the window
  std::span<const Served> served;
  std::int64_t shed = 0;   // refused for lack of room, or timed out
  std::int64_t unfit = 0;  // refused because they are longer than the deployment allows
  double each = 1;         // requests that an entry of `served` represents: long runs keep only every n-th one
};

/// Judges all replications of a point together. `queue_mean_s`: mean wait of the served requests before their first
/// step. Time is linear in the number of requests; memory is constant except for one list of late end times.
[[nodiscard]] SteadyState judge_steady_state(std::span<const JudgedRun> runs, double queue_mean_s);

/// If time-outs may start a collapse, a run counts as evidence for runs up to this many times as long.
inline constexpr double kSpeaksFor = 20;
/// A deployment that serves less than this share of what is offered does not carry the load.
inline constexpr double kShareServed = 0.97;

}  // namespace plimsoll::sched
