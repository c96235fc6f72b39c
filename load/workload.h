// SPDX-License-Identifier: Apache-2.0
// A workload: when requests are sent (load) and how long they are (lengths). Both backends draw from the same
// generators, so a simulated and a measured run see the same requests at the same times.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/units.h"
#include "traces/reader.h"

namespace plimsoll::load {

// ---- lengths: how long requests are -----------------------------------------------------------------------
struct FixedLength {
  std::int32_t tokens = 1;
  bool operator==(const FixedLength&) const = default;
};
enum class LengthFamily : std::uint8_t { uniform, lognormal, geometric };
/// Drawn lengths are rounded to whole tokens and clamped to [min, max]; max 0: no upper limit. Uniform uses only min
/// and max.
struct LengthDistribution {
  LengthFamily family = LengthFamily::lognormal;
  double mean = 0, cv = 1;
  std::int32_t min = 1, max = 0;
  bool operator==(const LengthDistribution&) const = default;
};
using LengthMarginal = std::variant<FixedLength, LengthDistribution>;

// ---- load: when requests are sent -------------------------------------------------------------------------
struct ClosedLoop {
  std::int32_t concurrency = 1;
  Seconds think{0};
  double drift = 0;  // coefficient of variation that spreads equal output lengths (OutputDrift); 0: none
  bool operator==(const ClosedLoop&) const = default;
};
struct Poisson {
  double rate = 0;
  bool operator==(const Poisson&) const = default;
};  // requests per second
/// Gaps of a gamma distribution with this coefficient of variation: 1 is Poisson, above 1 is bursty.
struct GammaArrivals {
  double rate = 0, cv = 1;
  bool operator==(const GammaArrivals&) const = default;
};
/// Equal gaps.
struct ConstantRate {
  double rate = 0;
  bool operator==(const ConstantRate&) const = default;
};
struct Burst {
  std::int64_t count = 1;
  bool operator==(const Burst&) const = default;
};  // all at t = 0
/// Replays the trace `tiles` times, one mean gap apart; each repetition has its own sessions and prefixes.
struct TraceReplay {
  std::shared_ptr<const traces::Trace> trace;
  double rate_scale = 1;
  std::int32_t tiles = 1;
  /// A further turn of a session follows the answer to the turn before: after the pause that its row states, else at
  /// its own time but not before that answer. False: every row is sent at its own time.
  bool after_answers = false;
  bool operator==(const TraceReplay&) const = default;
};
/// The number of requests of a whole replay, and the time from one tile's start to the next one's, at rate scale 1.
[[nodiscard]] std::int64_t replayed_requests(const TraceReplay& replay);
/// The time from the first row of a trace to that of its repetition: its length and a mean gap.
[[nodiscard]] Nanos tile_length(const traces::Trace& trace);
/// 3 x concurrency identical requests in a closed loop, the first wave at t = 0. Ignores WorkloadSpec::requests.
struct JumpStart {
  std::int32_t concurrency = 1;
  bool operator==(const JumpStart&) const = default;
};
/// The conformance mini-language: "A:6+3@1 B:5+4/8@2", name:prompt+output[/cap][@k]. `output` is as written; the true
/// output of the request is min(output, cap), and its max_new_tokens is cap. Ignores WorkloadSpec::requests and
/// lengths.
struct ScriptRequest {
  std::string name;
  std::int32_t prompt = 0, output = 0, cap = 0;
  std::int64_t visible_before_step = 1;
  bool operator==(const ScriptRequest&) const = default;
};
struct Script {
  std::vector<ScriptRequest> requests;
  Nanos step = 1'000'000;
  bool operator==(const Script&) const = default;
};

/// A time in seconds, fixed or drawn. Drawn times are clamped to [min, max]; max 0: no upper limit.
enum class PauseFamily : std::uint8_t { fixed, uniform, lognormal, exponential };
struct Pause {
  PauseFamily family = PauseFamily::fixed;
  double mean = 0, cv = 1, min = 0, max = 0;  // uniform uses only min and max
  bool operator==(const Pause&) const = default;
};
/// How conversations proceed. A prompt contains the whole history: each further prompt is the last prompt, its answer
/// and new tokens. WorkloadSpec::lengths gives the lengths of the first prompt and of the answers.
struct Conversation {
  LengthMarginal turns = FixedLength{}, added = FixedLength{};
  Pause think;                            // from an answer to the user's next turn
  double tool_share = 0;                  // fraction of the further turns that return the result of a tool
  Pause tool;                             // time from an answer to a turn that returns a tool's result
  LengthMarginal result = FixedLength{};  // new tokens of such a turn
  std::int64_t longest = 0;               // a session ends before a turn of more tokens, answer included; 0: no limit
  std::int64_t count = 0;                 // no session begins after this many; 0: no limit
  bool operator==(const Conversation&) const = default;
};
/// A closed population: each user begins a new session when the last one has ended.
struct Sessions {
  Conversation talk;
  std::int32_t concurrency = 1;
  bool operator==(const Sessions&) const = default;
};
/// An open population: sessions arrive, with gaps of a gamma distribution (cv 1: Poisson; 0: equal gaps).
struct SessionArrivals {
  Conversation talk;
  double rate = 0, cv = 1;  // sessions per second
  bool operator==(const SessionArrivals&) const = default;
};
using LoadSpec = std::variant<ClosedLoop, Poisson, GammaArrivals, ConstantRate, Burst, TraceReplay, JumpStart, Script,
                              Sessions, SessionArrivals>;

/// Parses a script. Throws InputError with the byte column in `text`, from 1, in where().column (without file and line)
/// and in the message.
[[nodiscard]] std::vector<ScriptRequest> parse_script(std::string_view text);
/// Sorts requests by the step before which they appear; equal ones keep their order.
void sort_script(std::vector<ScriptRequest>& requests);

/// The load's name in studies and in the column load_kind (load/load_kind.cpp).
[[nodiscard]] std::string_view load_kind(const LoadSpec& load);
/// The number that a sweep varies: concurrency, rate (requests/s or sessions/s), count or rate_scale; 0 for a script.
[[nodiscard]] double load_value(const LoadSpec& load);
/// Requests/s of an open loop with a constant rate; nullopt for other loads.
[[nodiscard]] std::optional<double> stationary_rate(const LoadSpec& load);
/// Variance over squared mean of the gaps of such a load; 0 for other loads.
[[nodiscard]] double gap_scv(const LoadSpec& load);
/// Returns whether clients wait for an answer before they send again.
[[nodiscard]] bool is_closed_loop(const LoadSpec& load);
/// Returns the conversations of a load of generated sessions; null for other loads.
[[nodiscard]] const Conversation* conversation_of(const LoadSpec& load);
[[nodiscard]] Conversation* conversation_of(LoadSpec& load);
/// Returns whether requests are the turns of sessions, each sent after the answer to the one before.
[[nodiscard]] bool has_turns(const LoadSpec& load);

// ---- lengths of prompts and answers together --------------------------------------------------------------
/// Prompts and outputs drawn independently of each other.
struct IndependentLengths {
  LengthMarginal input = FixedLength{}, output = FixedLength{};
  bool operator==(const IndependentLengths&) const = default;
};
/// (input, output) pairs, resampled with replacement from a trace. With TraceReplay of the same trace or file, or with
/// a null trace here, requests use the lengths, sessions and prefixes of the replayed rows, in order.
struct TracePairs {
  std::shared_ptr<const traces::Trace> trace;
  bool operator==(const TracePairs&) const = default;
};
using LengthSpec = std::variant<IndependentLengths, TracePairs>;

/// Shared beginnings of prompts: each request belongs to one of `groups`, and its first `tokens` prompt tokens are the
/// same as in the rest of the group.
struct PrefixSpec {
  std::int32_t groups = 0;
  std::int32_t tokens = 0;
  bool operator==(const PrefixSpec&) const = default;
};

/// A class of requests. Policies that serve by priority serve the lower one sooner.
struct PriorityClass {
  std::int32_t priority = 0;
  double share = 1;  // of the requests; shares need not sum to 1
  bool operator==(const PriorityClass&) const = default;
};

/// The whole workload: when requests are sent, their lengths, and when to stop.
struct WorkloadSpec {
  LoadSpec load = ClosedLoop{};
  LengthSpec lengths = IndependentLengths{};
  PrefixSpec prefix{};
  std::vector<PriorityClass> priorities = {};  // drawn for each request; empty: those of the replayed rows, else 0
  std::int64_t requests = 0;                   // stop after this many; 0: no limit (duration or the load ends it)
  Seconds duration{0};                         // no request is sent after this; 0: no limit
  std::uint64_t seed = 1;
};
/// Returns the script that is the load; null for other loads.
[[nodiscard]] inline const Script* script_of(const WorkloadSpec& workload) {
  return std::get_if<Script>(&workload.load);
}

/// A spread of output lengths, so that equal requests of a closed loop do not stay in step. Lengths are drawn uniformly
/// within about 1.7 cv of the stated one, in antithetic pairs: one is longer by as much as the other is shorter, so the
/// total number of tokens stays the same.
struct OutputDrift {
  double cv = 0;             // 0: none
  std::int64_t longest = 0;  // limit on input + output of a lengthened request, tokens; 0: no limit
};
/// Returns the shortest output that the drift can draw for `tokens`.
[[nodiscard]] std::int32_t shortest_output(std::int32_t tokens, double drift_cv);
/// Returns the mean of drawn lengths, before clamping to `min` and `max`.
[[nodiscard]] double length_mean(const LengthMarginal& lengths);
/// Returns the coefficient of variation of drawn lengths, before clamping to `min` and `max`.
[[nodiscard]] double length_cv(const LengthMarginal& lengths);
/// Returns the mean prompt length of all turns, and the mean of their new tokens beyond the history, if no session is
/// cut short.
struct MeanPrompt {
  double tokens = 0, added = 0;
};
[[nodiscard]] MeanPrompt mean_prompt(const Conversation& talk, const IndependentLengths& lengths);

/// One request's content. `output_tokens` is the true length, which no policy sees; `max_new_tokens` is the user's cap.
struct RequestBody {
  std::int32_t input_tokens = 0, output_tokens = 0, max_new_tokens = 0;
  std::uint64_t session = 0;
  std::span<const std::uint64_t> prefix_hashes;  // valid until the next body is drawn
  std::int32_t hash_block_tokens = 0;
  std::int32_t content_tokens = 0;  // tokens of prompt and answer that the hashes describe; 0: those of the prompt
  bool hashes_chain = false;        // each hash stands for all content up to the end of its block
  std::int32_t priority = 0;
  std::string_view name;  // name of a script's request; empty otherwise
};

/// Draws a workload. Deterministic: the i-th body and the i-th gap depend only on (seed, replication, i), with one
/// counter-based stream per purpose. Runs that differ in load or deployment therefore share their random numbers. Not
/// thread-safe.
class Workload {
 public:
  /// Throws InputError if the spec describes no workload (rate 0, an empty trace, a mean below 1 …).
  Workload(const WorkloadSpec& spec, std::uint64_t replication, const OutputDrift& drift = {});
  ~Workload();
  Workload(Workload&&) noexcept;
  Workload& operator=(Workload&&) noexcept;

  /// Open loops: returns the time of the next arrival, nondecreasing; nullopt when the workload has ended. Scripts and
  /// closed loops have no arrivals of their own and return nullopt. The first gap precedes the first arrival (bursts
  /// and traces start at 0).
  [[nodiscard]] std::optional<Nanos> next_arrival();
  /// Returns the next request, in order of sending; nullopt once `requests` have been drawn.
  [[nodiscard]] std::optional<RequestBody> next_body();
  /// Returns whether next_body() has returned its last request.
  [[nodiscard]] bool exhausted() const;
  /// Returns the number of requests that this workload will send, if known in advance (JumpStart: 3 x concurrency);
  /// else 0.
  [[nodiscard]] std::int64_t planned_requests() const;
  /// Counts a request whose content comes from sessions (sessions.h). Returns false once `requests` have been drawn.
  [[nodiscard]] bool count_turn();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll::load
