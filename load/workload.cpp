// SPDX-License-Identifier: Apache-2.0
#include "load/workload.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "load/arrivals.h"
#include "load/lengths.h"
#include "load/load_kind.h"
#include "load/random.h"
#include "model/error.h"

namespace plimsoll::load {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
// Tokens per block of a shared prefix. 16 is the usual KV block, so no engine's blocks are smaller.
constexpr std::int32_t kPrefixBlock = 16;

const IndependentLengths kOneToken{};

// The samplers exist for every workload; those of traces are never drawn from.
const IndependentLengths& marginals(const LengthSpec& lengths) {
  const auto* both = std::get_if<IndependentLengths>(&lengths);
  return both != nullptr ? *both : kOneToken;
}

void check(const WorkloadSpec& spec) {
  check_load(spec.load);
  const auto* const replay = std::get_if<TraceReplay>(&spec.load);
  if (replay != nullptr && replay->after_answers && !uses_own_rows(spec))
    throw InputError("turns follow answers only in a replay with the trace's own lengths");
  if (replay != nullptr && !replay->after_answers && replay->trace->needs_answers)
    throw InputError("turns of the trace have no times of their own: they can only follow answers");
  if (spec.requests < 0) throw InputError(fmt::format("requests is {}, allowed: 0 (no limit) or more", spec.requests));
  if (!(spec.duration.count() >= 0)) throw InputError("duration must be 0 s (no limit) or more");
  for (const PriorityClass& c : spec.priorities)
    if (!(c.share > 0)) throw InputError("priorities: shares must be above 0");
  if (spec.prefix.groups < 0 || spec.prefix.tokens < 0) throw InputError("prefix: groups and tokens must be 0 or more");
  if (const auto* both = std::get_if<IndependentLengths>(&spec.lengths)) {
    check_lengths(both->input, "input");
    check_lengths(both->output, "output");
  } else if (conversation_of(spec.load) != nullptr) {
    throw InputError("sessions state the lengths of their own prompts and answers");
  } else if (!uses_own_rows(spec)) {
    const auto& pairs = std::get<TracePairs>(spec.lengths);
    if (pairs.trace == nullptr || pairs.trace->records.empty()) throw InputError("lengths: the trace is empty");
  }
}

// Half-width of a uniform distribution around `tokens` with this coefficient of variation.
double half_width(std::int32_t tokens, double cv) { return std::sqrt(3.0) * cv * tokens; }

// Returns after how many requests the load ends by itself; kUnlimited if only `requests` or `duration` ends it.
std::int64_t own_limit(const LoadSpec& load) {
  if (const auto* jump = std::get_if<JumpStart>(&load)) return 3 * std::int64_t{jump->concurrency};
  if (const auto* burst = std::get_if<Burst>(&load)) return burst->count;
  if (const auto* replay = std::get_if<TraceReplay>(&load)) return replayed_requests(*replay);
  if (const auto* script = std::get_if<Script>(&load)) return static_cast<std::int64_t>(script->requests.size());
  return kUnlimited;
}

// The JumpStart protocol and scripts fix their own number of requests.
bool fixes_requests(const LoadSpec& load) {
  return std::holds_alternative<JumpStart>(load) || std::holds_alternative<Script>(load);
}

}  // namespace

struct Workload::State {
  State(const WorkloadSpec& s, std::uint64_t replication, const OutputDrift& output_drift);

  [[nodiscard]] RequestBody scripted(std::uint64_t i) const;
  [[nodiscard]] RequestBody sampled(std::uint64_t i) const;
  [[nodiscard]] RequestBody own_row(std::uint64_t i);
  void add_prefix(std::uint64_t i, RequestBody& body);
  void let_drift(std::uint64_t i, RequestBody& body) const;
  [[nodiscard]] std::int64_t arrivals_within_duration(const TraceReplay& replay) const;

  WorkloadSpec spec;
  ArrivalClock clock;
  LengthSampler input, output;
  RandomStream pair_stream, prefix_stream, drift_stream, priority_stream;
  OutputDrift drift;
  bool own_rows = false;
  std::int64_t limit = kUnlimited;  // limit on both bodies and arrivals
  double last_ns = std::numeric_limits<double>::infinity();
  std::int64_t arrivals = 0, bodies = 0;
  bool ended = false;
  std::vector<std::uint64_t> prefix_hashes;
};

Workload::State::State(const WorkloadSpec& s, std::uint64_t replication, const OutputDrift& output_drift)
    : spec(s),
      // Each purpose has its own stream, so changing the lengths does not change the arrivals.
      clock(spec.load, RandomStream(s.seed, replication, Purpose::gap)),
      input(marginals(spec.lengths).input, RandomStream(s.seed, replication, Purpose::input_length)),
      output(marginals(spec.lengths).output, RandomStream(s.seed, replication, Purpose::output_length)),
      pair_stream(s.seed, replication, Purpose::pair),
      prefix_stream(s.seed, replication, Purpose::prefix_group),
      drift_stream(s.seed, replication, Purpose::drift),
      priority_stream(s.seed, replication, Purpose::priority),
      drift(output_drift),
      own_rows(uses_own_rows(spec)),
      limit(own_limit(spec.load)) {
  if (spec.requests > 0 && !fixes_requests(spec.load)) limit = std::min(limit, spec.requests);
  if (spec.duration.count() > 0) last_ns = spec.duration.count() * 1e9;
}

RequestBody Workload::State::scripted(std::uint64_t i) const {
  const ScriptRequest& request = std::get<Script>(spec.load).requests[i];
  RequestBody body;
  body.input_tokens = request.prompt;
  body.output_tokens = std::min(request.output, request.cap);
  body.max_new_tokens = request.cap;
  body.name = request.name;
  return body;
}

// A resampled row loses its session and block ids: two draws of a row are two different requests. With equal ids they
// would share cached blocks, which real requests do not.
RequestBody Workload::State::sampled(std::uint64_t i) const {
  RequestBody body;
  if (const auto* pairs = std::get_if<TracePairs>(&spec.lengths)) {
    const auto& rows = pairs->trace->records;
    const traces::TraceRecord& row = rows[uniform_below(pair_stream.block(i)[0], rows.size())];
    body.input_tokens = row.input_tokens;
    body.output_tokens = row.output_tokens;
  } else {
    body.input_tokens = input.draw(i);
    body.output_tokens = output.draw(i);
  }
  body.max_new_tokens = body.output_tokens;
  return body;
}

RequestBody Workload::State::own_row(std::uint64_t i) {
  const traces::Trace& trace = *std::get<TraceReplay>(spec.load).trace;
  const std::size_t index = i % trace.records.size();
  const traces::TraceRecord& row = trace.records[index];
  // Beyond its end the trace is repeated as a further tile.
  const std::uint64_t tile = i / trace.records.size();
  RequestBody body;
  body.input_tokens = row.input_tokens;
  body.output_tokens = body.max_new_tokens = row.output_tokens;
  body.session = row.session == 0 ? 0 : id_of_tile(row.session, tile);
  body.priority = trace.priority_of(index);
  if (const std::span<const std::uint64_t> hashes = trace.hashes_of(index); !hashes.empty()) {
    body.prefix_hashes = hashes;
    if (tile > 0) {
      prefix_hashes.clear();
      for (const std::uint64_t hash : body.prefix_hashes) prefix_hashes.push_back(id_of_tile(hash, tile));
      body.prefix_hashes = prefix_hashes;
    }
    body.hash_block_tokens = trace.hash_block_tokens;
  }
  return body;
}

void Workload::State::add_prefix(std::uint64_t i, RequestBody& body) {
  const std::uint64_t group = uniform_below(prefix_stream.block(i)[0], static_cast<std::uint64_t>(spec.prefix.groups));
  // A prompt shorter than the prefix shares only what it has.
  const std::int32_t blocks = std::min(spec.prefix.tokens, body.input_tokens) / kPrefixBlock;
  prefix_hashes.clear();
  // The hash combines group and block number: two hashes are equal only if both numbers are.
  for (std::int32_t block = 0; block < blocks; ++block)
    prefix_hashes.push_back(group << 32U | static_cast<std::uint32_t>(block));
  body.prefix_hashes = prefix_hashes;
  body.hash_block_tokens = kPrefixBlock;
}

// Requests 2k and 2k + 1 use the same draw with opposite signs. If their number is odd, the last one does not drift.
void Workload::State::let_drift(std::uint64_t i, RequestBody& body) const {
  if (i % 2 == 0 && static_cast<std::int64_t>(i) + 1 == limit) return;
  const std::int32_t most = body.output_tokens - shortest_output(body.output_tokens, drift.cv);
  const RandomBlock bits = drift_stream.block(i / 2);
  const double real = half_width(body.output_tokens, drift.cv) * (2 * uniform01(bits[0]) - 1);
  // Stochastic rounding: short outputs drift as well.
  auto by = std::clamp(static_cast<std::int32_t>(std::floor(real + uniform01(bits[1]))), -most, most);
  if (i % 2 == 1) by = -by;
  if (drift.longest > 0) {
    const std::int64_t room = drift.longest - body.input_tokens - body.output_tokens;
    by = static_cast<std::int32_t>(std::min<std::int64_t>(by, std::max<std::int64_t>(0, room)));
  }
  body.output_tokens += by;
  body.max_new_tokens = body.output_tokens;
}

std::int64_t Workload::State::arrivals_within_duration(const TraceReplay& replay) const {
  const auto& rows = replay.trace->records;
  const double period = static_cast<double>(tile_length(*replay.trace)) / replay.rate_scale;
  if (replay.tiles > 1 && last_ns >= period) return limit;
  const auto late = [&](double end, const traces::TraceRecord& row) {
    return static_cast<double>(
               std::llround(static_cast<double>(row.arrival - rows.front().arrival) / replay.rate_scale)) > end;
  };
  return std::upper_bound(rows.begin(), rows.end(), last_ns, late) - rows.begin();
}

std::int32_t shortest_output(std::int32_t tokens, double drift_cv) {
  return std::max(1, tokens - static_cast<std::int32_t>(std::ceil(half_width(tokens, drift_cv))));
}

double length_mean(const LengthMarginal& lengths) {
  if (const auto* fixed = std::get_if<FixedLength>(&lengths)) return fixed->tokens;
  const auto& d = std::get<LengthDistribution>(lengths);
  return d.family == LengthFamily::uniform ? (d.min + d.max) / 2.0 : d.mean;
}

double length_cv(const LengthMarginal& lengths) {
  if (std::holds_alternative<FixedLength>(lengths)) return 0;
  const auto& d = std::get<LengthDistribution>(lengths);
  switch (d.family) {
    case LengthFamily::uniform: return (d.max - d.min) / std::sqrt(3.0) / (d.max + d.min);
    case LengthFamily::lognormal: return d.cv;
    case LengthFamily::geometric: return std::sqrt(1 - 1 / d.mean);
  }
  return 0;
}

Workload::Workload(const WorkloadSpec& spec, std::uint64_t replication, const OutputDrift& drift) {
  check(spec);
  state_ = std::make_unique<State>(spec, replication, drift);
}
Workload::~Workload() = default;
Workload::Workload(Workload&&) noexcept = default;
Workload& Workload::operator=(Workload&&) noexcept = default;

std::optional<Nanos> Workload::next_arrival() {
  State& s = *state_;
  if (s.ended || s.arrivals >= s.limit) return std::nullopt;
  const std::optional<Nanos> time = s.clock.next();
  s.ended = !time.has_value() || static_cast<double>(*time) > s.last_ns;
  if (s.ended) return std::nullopt;
  ++s.arrivals;
  return time;
}

std::optional<RequestBody> Workload::next_body() {
  State& s = *state_;
  if (s.bodies >= s.limit) return std::nullopt;
  // Bodies are numbered by their own count, not by arrivals: retries and users that send again draw the next one.
  const auto i = static_cast<std::uint64_t>(s.bodies++);
  if (std::holds_alternative<Script>(s.spec.load)) return s.scripted(i);
  // The JumpStart protocol sends the same request every time.
  const std::uint64_t drawn = std::holds_alternative<JumpStart>(s.spec.load) ? 0 : i;
  RequestBody body = s.own_rows ? s.own_row(i) : s.sampled(drawn);
  if (s.drift.cv > 0) s.let_drift(i, body);
  if (s.spec.prefix.groups > 0) s.add_prefix(drawn, body);
  if (!s.spec.priorities.empty()) body.priority = draw_priority(s.spec.priorities, s.priority_stream.block(i)[0]);
  return body;
}

bool Workload::count_turn() {
  if (exhausted()) return false;
  ++state_->bodies;
  return true;
}

bool Workload::exhausted() const { return state_->bodies >= state_->limit; }

// Used only to report progress and to reserve memory; 0 if the number is not known before the run.
std::int64_t Workload::planned_requests() const {
  const State& s = *state_;
  if (const Conversation* const talk = conversation_of(s.spec.load)) {
    const auto* const turns = std::get_if<FixedLength>(&talk->turns);
    if (s.spec.duration.count() > 0 || talk->longest > 0) return 0;
    if (turns == nullptr || talk->count == 0) return s.limit == kUnlimited ? 0 : s.limit;
    return std::min(s.limit, talk->count * turns->tokens);
  }
  if (s.limit == kUnlimited) return 0;
  if (s.spec.duration.count() == 0 || fixes_requests(s.spec.load)) return s.limit;
  if (std::holds_alternative<Burst>(s.spec.load)) return s.limit;
  if (const auto* replay = std::get_if<TraceReplay>(&s.spec.load))
    return std::min(s.limit, s.arrivals_within_duration(*replay));
  return 0;
}

}  // namespace plimsoll::load
