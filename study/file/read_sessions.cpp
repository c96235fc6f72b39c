// SPDX-License-Identifier: Apache-2.0
// Reads loads of sessions: `sessions: {concurrency: 32, turns: 5, …}`.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "study/file/read_point.h"

namespace plimsoll::study {
namespace {

using configs::Node;
using Keys = std::vector<std::string_view>;

constexpr std::int64_t kMaxTurns = 1'000'000;
constexpr double kMostSeconds = 1e9;

// Reads a time, or one distribution of times.
load::Pause read_pause(const Node& node) {
  if (!node.is_map()) return {.mean = node.as_seconds(0, kMostSeconds).count()};
  constexpr std::array<std::string_view, 3> kFamilies = {"uniform", "lognormal", "exponential"};
  const Section choice(node, kFamilies);
  const auto entries = node.items();
  if (entries.size() != 1)
    throw InputError(node.where(), "found several distributions, allowed: one of uniform, lognormal, exponential");
  const auto family = std::find(kFamilies.begin(), kFamilies.end(), entries.front().key) - kFamilies.begin();
  load::Pause pause{.family = static_cast<load::PauseFamily>(family + 1)};
  const bool uniform = pause.family == load::PauseFamily::uniform;
  const Section part(entries.front().value, uniform ? Keys{"min", "max"}
                                            : pause.family == load::PauseFamily::lognormal
                                                ? Keys{"mean", "cv", "min", "max"}
                                                : Keys{"mean", "min", "max"});
  pause.min = part.time("min").value_or(Seconds(0)).count();
  pause.max = part.time("max").value_or(Seconds(0)).count();
  if (uniform)
    static_cast<void>(part.need("max", "30 s"));
  else
    pause.mean = part.need("mean", "20 s").as_seconds(0, kMostSeconds).count();
  if (part.has("cv")) pause.cv = part.find("cv")->as_number(0, 100);
  if (part.has("max") && pause.max < pause.min)
    throw InputError(part.where("max"), fmt::format("max {:g} s is below min {:g} s", pause.max, pause.min));
  return pause;
}

load::LengthMarginal read_turns(const Node& node) {
  load::LengthMarginal turns = read_length(node);
  const auto* const fixed = std::get_if<load::FixedLength>(&turns);
  if (fixed != nullptr) static_cast<void>(node.as_integer(1, kMaxTurns));
  return turns;
}

void read_tools(const Section& load, load::Conversation& talk) {
  const auto node = load.find("tools");
  if (!node) return;
  const Section tools(*node, Keys{"share", "gap", "added"});
  talk.tool_share = tools.need("share", "0.8").as_number(0, 1);
  talk.tool = read_pause(tools.need("gap", "2 s"));
  talk.result = tools.has("added") ? read_length(*tools.find("added")) : talk.added;
}

// Adds a note if the mean session grows beyond the longest sequence that the deployment accepts.
void note_length(const load::Conversation& talk, const load::IndependentLengths& lengths, PointSpec& spec) {
  if (talk.longest > 0 || !spec.shape) return;
  const double added =
      (1 - talk.tool_share) * load::length_mean(talk.added) + talk.tool_share * load::length_mean(talk.result);
  const double turns = load::length_mean(talk.turns), output = load::length_mean(lengths.output);
  const double last = load::length_mean(lengths.input) + (turns - 1) * (added + output) + output;
  const std::int64_t most = spec.policy.max_total ? *spec.policy.max_total : spec.shape->max_position;
  if (most == 0 || last <= static_cast<double>(most)) return;
  spec.load_notes.push_back(
      fmt::format("a session of {:g} turns grows to {:.0f} tokens, but {} are allowed: its last turns are refused and "
                  "the session ends there (workload.load.sessions.longest ends it before)",
                  turns, last, most));
}

}  // namespace

void read_sessions(const Node& node, std::string_view kind, PointSpec& spec) {
  const Section load(node, Keys{"concurrency", "rate", "cv", "turns", "think", "first", "added", "output", "tools",
                                "longest", "count"});
  const bool arrive = kind == load::load_kind(load::SessionArrivals{});
  load::Conversation talk;
  talk.turns = read_turns(load.need("turns", "{geometric: {mean: 12}}"));
  if (const auto think = load.find("think")) talk.think = read_pause(*think);
  talk.added = read_length(load.need("added", "600"));
  talk.longest = load.whole("longest", 1, kMaxTokens).value_or(0);
  talk.count = load.whole("count", 1, load::kMaxAttempts).value_or(0);
  read_tools(load, talk);
  load::IndependentLengths lengths;
  lengths.input = read_length(load.need("first", "8000"));
  lengths.output = read_length(load.need("output", "400"));
  note_length(talk, lengths, spec);
  if (!spec.policy.prefix_caching.value_or(false))
    spec.load_notes.emplace_back(
        "prefix caching is off: every turn computes its whole history (scheduler.prefix_caching: true)");
  spec.workload.lengths = lengths;
  if (load.has("concurrency") == load.has("rate") || (arrive && !load.has("rate")))
    throw InputError(node.where(),
                     arrive ? "state the rate at which sessions arrive: rate: 2 /s"
                            : "state one: concurrency (sessions open at a time) or rate (new sessions per second)");
  if (!load.has("rate")) {
    if (load.has("cv")) throw InputError(load.where("cv"), "cv is the spread of arrivals: it needs rate");
    spec.workload.load = load::Sessions{std::move(talk), read_concurrency(load)};
    return;
  }
  spec.workload.load =
      load::SessionArrivals{std::move(talk), read_rate(load), load.has("cv") ? load.find("cv")->as_number(0, 1e3) : 1};
}

}  // namespace plimsoll::study
