// SPDX-License-Identifier: Apache-2.0
// Whether a load has a steady state on a deployment, judged from what its runs served. A run proves something only if
// its load lasts long against the life of a request: until the first requests have left, every deployment seems to keep
// up. Definitions and the reasons for the constants: docs/metrics.md, "Steady state".
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace plimsoll::sched {

/// A completed request. Times in seconds; `end` counts from the start of the run.
struct Served {
  double latency = 0, ttft = 0, end = 0;
  std::int32_t output = 0;
};

/// What a run offered. `none`: the load ends by itself and has no steady state (bursts, scripts, published protocols).
struct OfferedLoad {
  enum class Kind : std::uint8_t { none, open, closed };
  Kind kind = Kind::none;
  double last_sent_s = 0;    // when the last request was sent, from the start of the run
  double rate = 0;           // requests/s of an open load; 0: as many as it sent (a replay)
  double gap_scv = 1;        // of an open load: variance over squared mean of the gaps between requests
  std::int64_t clients = 0;  // of a closed loop
  double settles_s = 0;      // in which a fleet that comes and goes follows its load; 0: a fixed one
  double timeout_s = 0;      // after which clients give up an attempt; 0: they wait
  bool tries_again = false;  // clients send again what timed out
};

enum class Steadiness : std::uint8_t { stable, unstable, too_short };

struct SteadyState {
  Steadiness verdict = Steadiness::stable;
  bool grows = false;                // unstable, and the backlog grows: waits describe the length of the run
  std::string reason;                // empty where it is stable
  std::int64_t requests_needed = 0;  // of one run, so that it can tell; 0: it can
  bool operator==(const SteadyState&) const = default;
};

/// One replication as the judgement sees it: requests sent in its measured window.
struct JudgedRun {
  OfferedLoad load;
  double start_s = 0;  // of the window
  std::span<const Served> served;
  std::int64_t shed = 0;   // refused for want of room, or timed out
  std::int64_t unfit = 0;  // refused for what they are: longer than the deployment takes
  double each = 1;         // requests that an entry of `served` counts for: of a long run only every so many are kept
};

/// Of replications of one point together. `queue_mean_s`: mean wait of the served before their first step.
/// Time and memory are linear in the number of requests and constant.
[[nodiscard]] SteadyState judge_steady_state(std::span<const JudgedRun> runs, double queue_mean_s);

/// A load must last so many mean latencies before what it saw is a steady state, and every client of a closed loop must
/// have sent so many requests.
inline constexpr double kLivesNeeded = 10, kRoundsNeeded = 10;
/// Where time-outs may start a collapse, a run speaks for one that is so many times as long.
inline constexpr double kSpeaksFor = 20;
/// Below this share of what is offered a deployment does not carry the load.
inline constexpr double kShareServed = 0.97;

}  // namespace plimsoll::sched
