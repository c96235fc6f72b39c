// SPDX-License-Identifier: Apache-2.0
#include "study/file/read_point.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "configs/quantity.h"
#include "configs/text_file.h"
#include "load/load_kind.h"
#include "study/file/not_modelled.h"

namespace plimsoll::study {
namespace {

using configs::Node;
using Keys = std::vector<std::string_view>;

constexpr std::int64_t kMaxClients = 10'000'000;
constexpr std::int64_t kDefaultRequests = 1000;

std::int32_t to_int32(std::int64_t value) { return static_cast<std::int32_t>(value); }

// Reads one factor for prompts and answers, or {input: …, output: …}.
std::shared_ptr<const traces::Trace> with_scaled_lengths(const Section& section,
                                                         std::shared_ptr<const traces::Trace> trace,
                                                         TraceStore& store) {
  constexpr double kMaxScale = 1e4;
  const auto node = section.find("lengths_scale");
  if (!node) return trace;
  if (!node->is_map()) return store.scaled(trace, read_positive(*node, kMaxScale), read_positive(*node, kMaxScale));
  const Section parts(*node, Keys{"input", "output"});
  const auto part = [&](const char* key) { return parts.has(key) ? read_positive(*parts.find(key), kMaxScale) : 1; };
  return store.scaled(trace, part("input"), part("output"));
}

// If rows state no times of their own, turns must follow answers.
bool turns_follow_answers(const Section& load, const traces::Trace& trace) {
  constexpr std::array<std::string_view, 2> kWhen = {"recorded", "after_answers"};
  const auto node = load.find("turns");
  const bool follow = node ? node->as_one_of(kWhen) == 1 : trace.needs_answers;
  if (!follow && trace.needs_answers)
    node->fail("found 'recorded', but turns of this trace have no time of their own; allowed: after_answers");
  const auto& rows = trace.records;
  if (follow && trace.hash_block_tokens == 0 &&
      std::none_of(rows.begin(), rows.end(), [](const auto& row) { return row.session != 0; }))
    throw InputError(load.where("turns"),
                     fmt::format("{} has neither sessions nor blocks, so no row follows another", trace.file));
  return follow;
}

load::LoadSpec read_trace_load(const Node& node, TraceStore& store) {
  const Section load(node, Keys{"file", "format", "rate_scale", "lengths_scale", "turns"});
  const std::string file = load.need("file", "conversation.csv").as_string();
  load::TraceReplay replay;
  replay.trace =
      with_scaled_lengths(load, store.get(file, load.text("format").value_or(""), load.where("file")), store);
  replay.rate_scale = load.has("rate_scale") ? read_positive(*load.find("rate_scale"), 1e6) : 1;
  if (!replay.trace->has_arrivals()) {
    throw InputError(load.where("file"), fmt::format("'{}' has lengths but no arrival times; use it as "
                                                     "lengths: {{trace: FILE}} with another load",
                                                     file));
  }
  replay.after_answers = turns_follow_answers(load, *replay.trace);
  return replay;
}

// An error in a script names the place in the study first, then the position in the script.
load::LoadSpec read_script(const Node& node, Seconds step) {
  const std::string text = node.as_string();
  try {
    std::vector<load::ScriptRequest> requests = load::parse_script(text);
    load::sort_script(requests);
    return load::Script{.requests = std::move(requests), .step = static_cast<Nanos>(step.count() * 1e9 + 0.5)};
  } catch (const InputError& error) {
    throw InputError(node.where(), fmt::format("script: {}{}", to_string(error.where()), error.text()));
  }
}

// Reads a number, or `off`; nullopt if the load states no drift.
std::optional<double> stated_drift(const Section& load) {
  const auto node = load.find("drift");
  if (!node) return {};
  if (node->is_scalar() && node->as_string() == "off") return 0;
  constexpr double kMaxDrift = 0.5;
  return node->as_number(0, kMaxDrift);
}

// Returns the key of the load and its value.
configs::Item stated_load(const Node& node) {
  const std::span<const std::string_view> names = load::load_kind_names();
  const Section choice(node, Keys(names.begin(), names.end()));
  const auto entries = node.items();
  if (entries.size() != 1) {
    throw InputError(node.where(), fmt::format("found {} loads, allowed: exactly one of {}", entries.size(),
                                               fmt::join(load::load_kind_names(), ", ")));
  }
  return entries.front();
}

load::LoadSpec read_load(const configs::Item& stated, Seconds script_step, TraceStore& store) {
  const std::string& kind = stated.key;
  const Node& body = stated.value;
  if (kind == "script") return read_script(body, script_step);
  if (kind == "trace") return read_trace_load(body, store);
  if (kind == "closed_loop") {
    const Section load(body, Keys{"concurrency", "think", "drift"});
    return load::ClosedLoop{read_concurrency(load), load.time("think").value_or(Seconds(0)),
                            stated_drift(load).value_or(-1)};
  }
  if (kind == "jumpstart") return load::JumpStart{read_concurrency(Section(body, Keys{"concurrency"}))};
  if (kind == "burst") {
    const Section load(body, Keys{"count"});
    return load::Burst{load.need("count", "100").as_integer(1, kMaxClients)};
  }
  if (kind == "gamma") {
    const Section load(body, Keys{"rate", "cv"});
    return load::GammaArrivals{read_rate(load), load.has("cv") ? load.find("cv")->as_number(0, 1e3) : 1};
  }
  const double rate = read_rate(Section(body, Keys{"rate"}));
  if (kind == "poisson") return load::Poisson{rate};
  return load::ConstantRate{rate};
}

load::LengthMarginal read_distribution(const Node& node, load::LengthFamily family) {
  using load::LengthFamily;
  const Section part(node, family == LengthFamily::uniform     ? Keys{"min", "max"}
                           : family == LengthFamily::geometric ? Keys{"mean", "min", "max"}
                                                               : Keys{"mean", "cv", "min", "max"});
  load::LengthDistribution lengths{.family = family};
  lengths.min = to_int32(part.whole("min", 1, kMaxTokens).value_or(1));
  lengths.max = to_int32(part.whole("max", 1, kMaxTokens).value_or(0));
  if (family == LengthFamily::uniform) {
    static_cast<void>(part.need("max", "512"));
  } else {
    lengths.mean = part.need("mean", "256").as_number(1, 1e9);
    lengths.cv = part.has("cv") ? part.find("cv")->as_number(0, 100) : 1;
  }
  if (lengths.max > 0 && lengths.max < lengths.min) {
    throw InputError(part.where("max"), fmt::format("max {} is below min {}", lengths.max, lengths.min));
  }
  return lengths;
}

load::LengthSpec read_lengths(const Node& node, TraceStore& store) {
  const Section part(node, Keys{"input", "output", "trace", "format", "lengths_scale"});
  if (part.has("trace")) {
    if (part.has("input") || part.has("output")) {
      throw InputError(part.where("trace"), "trace gives both lengths; it excludes input and output");
    }
    return load::TracePairs{with_scaled_lengths(
        part, store.get(*part.text("trace"), part.text("format").value_or(""), part.where("trace")), store)};
  }
  if (part.has("lengths_scale"))
    throw InputError(part.where("lengths_scale"), "lengths_scale applies to traces: state the lengths themselves");
  load::IndependentLengths lengths;
  lengths.input = read_length(part.need("input", "256"));
  lengths.output = read_length(part.need("output", "256"));
  return lengths;
}

void refuse_beside_script(const Section& section) {
  for (const char* const key : {"requests", "lengths", "warmup", "duration", "prefix", "priorities"}) {
    if (section.has(key)) {
      throw InputError(section.where(key), fmt::format("a script states its requests: it excludes '{}'", key));
    }
  }
}

// Traces, bursts and scripts end by themselves.
bool is_endless(const load::LoadSpec& load) {
  if (const load::Conversation* const talk = load::conversation_of(load)) return talk->count == 0;
  return std::holds_alternative<load::ClosedLoop>(load) || std::holds_alternative<load::Poisson>(load) ||
         std::holds_alternative<load::GammaArrivals>(load) || std::holds_alternative<load::ConstantRate>(load);
}

// Reads the number of requests and the duration. If neither is stated, endless loads stop after kDefaultRequests; other
// loads end by themselves.
void read_extent(const Section& section, PointSpec& spec) {
  load::WorkloadSpec& workload = spec.workload;
  const auto requests = section.whole("requests", 1, load::kMaxAttempts);
  workload.requests = requests.value_or(0);
  if (const auto duration = section.find("duration")) workload.duration = read_positive_time(*duration);
  spec.warmup = section.time("warmup").value_or(Seconds(0));
  if (std::holds_alternative<load::JumpStart>(workload.load) && requests) {
    spec.load_notes.emplace_back("the jumpstart load sends 3 x concurrency requests; 'requests' has no effect");
    workload.requests = 0;
  }
  if (is_endless(workload.load) && workload.requests == 0 && workload.duration <= Seconds(0)) {
    workload.requests = kDefaultRequests;
  }
}

void read_prefix(const Section& section, PointSpec& spec) {
  const auto node = section.find("prefix");
  if (!node) return;
  const Section prefix(*node, Keys{"groups", "tokens"});
  spec.workload.prefix.groups = to_int32(prefix.need("groups", "8").as_integer(1, kMaxClients));
  spec.workload.prefix.tokens = to_int32(prefix.need("tokens", "512").as_integer(1, kMaxTokens));
}

// Returns the trace of the load or of the lengths whose rows have priorities; null: neither.
const traces::Trace* trace_with_priorities(const load::WorkloadSpec& workload) {
  const auto* const replay = std::get_if<load::TraceReplay>(&workload.load);
  if (replay != nullptr && !replay->trace->priorities.empty()) return replay->trace.get();
  const auto* const pairs = std::get_if<load::TracePairs>(&workload.lengths);
  return pairs != nullptr && !pairs->trace->priorities.empty() ? pairs->trace.get() : nullptr;
}

// `{0: 0.9, 5: 0.1}`: a priority and its share of the requests.
void read_priorities(const Section& section, PointSpec& spec) {
  const auto node = section.find("priorities");
  const traces::Trace* const trace = node ? nullptr : trace_with_priorities(spec.workload);
  if ((node || trace != nullptr) && spec.policy.order != sched::Order::priority)
    spec.load_notes.emplace_back(kPrioritiesUnused);
  else if (trace != nullptr && !load::uses_own_rows(spec.workload))
    spec.load_notes.push_back(
        fmt::format("the priorities in {} are not used: they apply only if its rows are replayed in order (load: "
                    "{{trace: FILE}} without other lengths); workload.priorities draws them by shares",
                    trace->file));
  if (!node) return;
  constexpr double kLeast = 1e-9, kMost = 1e9;
  constexpr std::int64_t kLow = std::numeric_limits<std::int32_t>::min(),
                         kHigh = std::numeric_limits<std::int32_t>::max();
  if (node->is_sequence() && !node->items().empty()) {
    for (const configs::Item& item : node->items()) {
      const Section part(item.value, Keys{"value", "share"});
      spec.workload.priorities.push_back({to_int32(part.need("value", "0").as_integer(kLow, kHigh)),
                                          part.need("share", "0.2").as_number(kLeast, kMost)});
    }
    return;
  }
  if (!node->is_map() || node->items().empty())
    node->fail(
        fmt::format("found '{}', expected priorities and shares of the requests, such as {{0: 0.9, 5: 0.1}} or "
                    "[{{value: 0, share: 0.9}}, {{value: 5, share: 0.1}}]",
                    configs::shortened(node->to_text())));
  for (const configs::Item& item : node->items()) {
    std::int32_t priority = 0;
    const char* const end = item.key.data() + item.key.size();
    const auto [stop, error] = std::from_chars(item.key.data(), end, priority);
    if (error != std::errc{} || stop != end)
      throw InputError(item.key_where, fmt::format("found '{}', expected a priority: an integer from -2147483648 to "
                                                   "2147483647, the lowest is served first",
                                                   configs::shortened(item.key)));
    spec.workload.priorities.push_back({priority, item.value.as_number(kLeast, kMost)});
  }
}

// Fitted engines without a drift were fitted to runs in which equal requests stay in step.
void note_waves(const load::ClosedLoop& closed, bool own_policy, PointSpec& spec) {
  if (!own_policy || !spec.engine->calibrated || spec.engine->constant || closed.concurrency < 2) return;
  spec.load_notes.push_back(fmt::format(
      "equal requests of the closed loop stay together in waves, as in the runs that engine {} was fitted to: their "
      "TTFT depends on the step budget (workload.load.closed_loop.drift: 0.02 lets them drift apart)",
      fitted_engine(spec)));
}

// If a closed loop does not state how its equal requests drift apart, they drift as in the runs that the engine's
// profile was fitted to. This holds only for the engine's own policy, because the fit does not cover others.
void settle_drift(PointSpec& spec) {
  auto* const closed = std::get_if<load::ClosedLoop>(&spec.workload.load);
  if (closed == nullptr) return;
  const bool stated = closed->drift >= 0;
  const auto* const lengths = std::get_if<load::IndependentLengths>(&spec.workload.lengths);
  const bool own_policy = sched::name(spec.policy.policy) == spec.engine->scheduler_policy;
  const double fitted = lengths == nullptr || !own_policy
                            ? 0
                            : spec.engine->closed_loop_drift.cv(load::length_mean(lengths->output), spec.front_end);
  const double drift = stated ? closed->drift : fitted;
  const bool alone = closed->concurrency == 1;  // a single user has no other to drift from
  // A drift has no effect on lengths that already vary more.
  const bool equal = lengths != nullptr && load::length_cv(lengths->output) < drift;
  if (stated && drift > 0 && !equal && !alone)
    spec.load_notes.emplace_back(
        "the output lengths of the closed loop differ by more than its 'drift', which has no effect");
  closed->drift = equal && !alone ? drift : 0;
  if (!stated && drift == 0 && lengths != nullptr && load::length_cv(lengths->output) == 0)
    note_waves(*closed, own_policy, spec);
  if (stated || closed->drift == 0) return;
  spec.load_notes.push_back(
      fmt::format("equal requests of the closed loop drift apart, as in the fit of engine {}: output lengths vary by "
                  "{:g} % (workload.load.closed_loop.drift: off keeps them equal)",
                  fitted_engine(spec), 100 * drift));
}

// Adds notes on what is inferred because the trace does not state it.
void note_turns(const traces::Trace& trace, PointSpec& spec) {
  const bool named =
      std::any_of(trace.records.begin(), trace.records.end(), [](const auto& r) { return r.session != 0; });
  if (!named)
    spec.load_notes.push_back(
        fmt::format("{} names no sessions: a row counts as the next turn of the latest row whose blocks and answer "
                    "begin its prompt",
                    trace.file));
  else if (trace.hash_block_tokens == 0)
    spec.load_notes.push_back(fmt::format(
        "{} has no block ids: a turn whose prompt is long enough is assumed to contain the previous turn", trace.file));
}

// Suggests the right place for a key of the load or of the lengths that is one level too high, even if misspelt.
void hint_at_inner_keys(const Node& node, const Keys& keys) {
  constexpr std::string_view kLoad = "load: {poisson: {rate: 2 /s}}; --set and sweep accept workload.rate",
                             kUsers =
                                 "load: {closed_loop: {concurrency: 32}}; --set and sweep accept "
                                 "workload.concurrency",
                             kLengths = "lengths: {input: 256, output: 256}";
  const std::array<std::pair<std::string_view, std::string_view>, 4> inner{
      {{"rate", kLoad}, {"concurrency", kUsers}, {"input", kLengths}, {"output", kLengths}}};
  if (!node.is_map()) return;
  for (const configs::Item& item : node.items()) {
    if (feature_of(item.key) != nullptr || !configs::nearest(item.key, keys).empty()) continue;
    Keys names;
    for (const auto& [name, place] : inner) names.push_back(name);
    const std::string_view near = configs::nearest(item.key, names);
    for (const auto& [name, place] : inner)
      if (name == near)
        throw InputError(item.key_where, fmt::format("unknown key '{}'; did you mean '{}'? Write {}",
                                                     configs::shortened(item.key), name, place));
  }
}

}  // namespace

double read_rate(const Section& load) {
  const Node rate = load.need("rate", "4 /s");
  const double value = rate.as_rate().value;
  if (value > 0) return value;
  rate.fail(fmt::format("found '{}', expected a rate above 0", rate.to_text()));
}

// The key is required: with a default number of users the result would not be what the user asked for.
std::int32_t read_concurrency(const Section& load) {
  return to_int32(load.need("concurrency", "32").as_integer(1, kMaxClients));
}

load::LengthMarginal read_length(const Node& node) {
  if (!node.is_map()) return load::FixedLength{to_int32(node.as_integer(1, kMaxTokens))};
  constexpr std::array<std::string_view, 3> kFamilies = {"uniform", "lognormal", "geometric"};
  const Section choice(node, kFamilies);
  const auto entries = node.items();
  if (entries.size() != 1) {
    throw InputError(node.where(), "found several distributions, allowed: one of uniform, lognormal, geometric");
  }
  const auto family = std::find(kFamilies.begin(), kFamilies.end(), entries.front().key) - kFamilies.begin();
  return read_distribution(entries.front().value, static_cast<load::LengthFamily>(family));
}

const std::string& fitted_engine(const PointSpec& spec) {
  return spec.engine->like.empty() ? spec.engine->id : spec.engine->like;
}

std::optional<std::int64_t> largest_length(const load::LengthMarginal& lengths) {
  if (const auto* fixed = std::get_if<load::FixedLength>(&lengths)) return fixed->tokens;
  const auto& drawn = std::get<load::LengthDistribution>(lengths);
  return drawn.max > 0 ? std::optional<std::int64_t>(drawn.max) : std::nullopt;
}

void read_workload(const Node& node, Seconds script_step, TraceStore& store, PointSpec& spec) {
  const Keys keys{"load", "lengths", "requests", "duration", "warmup", "prefix", "priorities"};
  hint_at_inner_keys(node, keys);
  const Section section(node, keys);
  spec.places.workload = node.where();
  load::WorkloadSpec& workload = spec.workload;
  const configs::Item stated = stated_load(section.need("load", "{closed_loop: {concurrency: 32}}"));
  if (stated.key.starts_with("session")) {
    if (section.has("lengths"))
      throw InputError(section.where("lengths"), "sessions state their own lengths (first, added, output): remove it");
    read_sessions(stated.value, stated.key, spec);
    read_extent(section, spec);
    read_prefix(section, spec);
    read_priorities(section, spec);
    return;
  }
  workload.load = read_load(stated, script_step, store);
  if (std::holds_alternative<load::Script>(workload.load)) {
    refuse_beside_script(section);
    return;
  }
  const auto* const replay = std::get_if<load::TraceReplay>(&workload.load);
  if (replay != nullptr && replay->trace->rows_without_blocks > 0) {
    spec.load_notes.push_back(fmt::format("{} of {} rows of {} have no hash_ids: they share no prefix with others",
                                          replay->trace->rows_without_blocks, replay->trace->records.size(),
                                          replay->trace->file));
  }
  if (replay != nullptr && replay->after_answers) note_turns(*replay->trace, spec);
  // A replayed trace brings its own lengths unless the study states others.
  const bool has_lengths = section.has("lengths");
  if (has_lengths && replay != nullptr && replay->after_answers)
    throw InputError(section.where("lengths"), "turns that follow answers have the trace's own lengths: remove it");
  if (!has_lengths && replay != nullptr) {
    workload.lengths = load::TracePairs{replay->trace};
  } else {
    workload.lengths = read_lengths(section.need("lengths", "{input: 256, output: 256}"), store);
  }
  read_extent(section, spec);
  read_prefix(section, spec);
  read_priorities(section, spec);
  settle_drift(spec);
}

std::string load_field(std::string_view kind, std::string_view shortcut) {
  const load::LoadQuantity quantity = load::load_kind_named(kind).quantity;
  const bool sessions = kind == load::load_kind(load::Sessions{}) || kind == load::load_kind(load::SessionArrivals{});
  if (shortcut == "rate") return sessions || quantity == load::LoadQuantity::requests_per_s ? "rate" : "";
  return quantity == load::LoadQuantity::clients ? "concurrency" : "";
}

}  // namespace plimsoll::study
