// SPDX-License-Identifier: Apache-2.0
#include "load/load_kind.h"

#include <algorithm>
#include <array>

namespace plimsoll::load {
namespace {

// Rows in the order of LoadSpec.
constexpr std::array<LoadKind, std::variant_size_v<LoadSpec>> kKinds = {{
    {"closed_loop", LoadClass::closed, LoadQuantity::clients},
    {"poisson", LoadClass::open, LoadQuantity::requests_per_s},
    {"gamma", LoadClass::open, LoadQuantity::requests_per_s},
    {"constant", LoadClass::open, LoadQuantity::requests_per_s},
    {"burst", LoadClass::burst, LoadQuantity::requests},
    {"trace", LoadClass::open, LoadQuantity::rate_scale},
    {"jumpstart", LoadClass::closed, LoadQuantity::clients},
    {"script", LoadClass::script, LoadQuantity::none},
    {"sessions", LoadClass::closed, LoadQuantity::clients},
    {"session_arrivals", LoadClass::open, LoadQuantity::sessions_per_s},
}};

double value_of(const ClosedLoop& l) { return l.concurrency; }
double value_of(const Poisson& l) { return l.rate; }
double value_of(const GammaArrivals& l) { return l.rate; }
double value_of(const ConstantRate& l) { return l.rate; }
double value_of(const Burst& l) { return static_cast<double>(l.count); }
double value_of(const TraceReplay& l) { return l.rate_scale; }
double value_of(const JumpStart& l) { return l.concurrency; }
double value_of(const Script&) { return 0; }
double value_of(const Sessions& l) { return l.concurrency; }
double value_of(const SessionArrivals& l) { return l.rate; }

}  // namespace

const LoadKind& kind_of(const LoadSpec& load) { return kKinds[load.index()]; }

const LoadKind& load_kind_named(std::string_view name) {
  static constexpr LoadKind kUnknown;
  const auto* const found =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const LoadKind& k) { return k.name == name; });
  return found != kKinds.end() ? *found : kUnknown;
}

std::span<const std::string_view> load_kind_names() {
  static constexpr auto kNames = [] {
    std::array<std::string_view, kKinds.size()> names;
    std::transform(kKinds.begin(), kKinds.end(), names.begin(), [](const LoadKind& k) { return k.name; });
    return names;
  }();
  return kNames;
}

std::string_view load_kind(const LoadSpec& load) { return kind_of(load).name; }

double load_value(const LoadSpec& load) {
  return std::visit([](const auto& l) { return value_of(l); }, load);
}

std::int64_t replayed_requests(const TraceReplay& replay) {
  return std::int64_t{replay.tiles} * static_cast<std::int64_t>(replay.trace->records.size());
}

Nanos tile_length(const traces::Trace& trace) {
  const Nanos span = trace.records.back().arrival - trace.records.front().arrival;
  const auto gaps = static_cast<Nanos>(trace.records.size()) - 1;
  return gaps > 0 ? span + span / gaps : span;
}

std::optional<double> stationary_rate(const LoadSpec& load) {
  const bool stationary = std::holds_alternative<Poisson>(load) || std::holds_alternative<GammaArrivals>(load) ||
                          std::holds_alternative<ConstantRate>(load);
  return stationary ? std::optional(load_value(load)) : std::nullopt;
}

double gap_scv(const LoadSpec& load) {
  if (const auto* gamma = std::get_if<GammaArrivals>(&load)) return gamma->cv * gamma->cv;
  return std::holds_alternative<Poisson>(load) ? 1 : 0;
}

bool is_closed_loop(const LoadSpec& load) { return kind_of(load).load_class == LoadClass::closed; }

Conversation* conversation_of(LoadSpec& load) {
  if (auto* const closed = std::get_if<Sessions>(&load)) return &closed->talk;
  auto* const open = std::get_if<SessionArrivals>(&load);
  return open != nullptr ? &open->talk : nullptr;
}

const Conversation* conversation_of(const LoadSpec& load) {
  if (const auto* const closed = std::get_if<Sessions>(&load)) return &closed->talk;
  const auto* const open = std::get_if<SessionArrivals>(&load);
  return open != nullptr ? &open->talk : nullptr;
}

bool has_turns(const LoadSpec& load) {
  const auto* const replay = std::get_if<TraceReplay>(&load);
  return conversation_of(load) != nullptr || (replay != nullptr && replay->after_answers);
}

bool uses_own_rows(const WorkloadSpec& spec) {
  const auto* replay = std::get_if<TraceReplay>(&spec.load);
  const auto* pairs = std::get_if<TracePairs>(&spec.lengths);
  if (replay == nullptr || pairs == nullptr) return false;
  if (pairs->trace == nullptr || pairs->trace == replay->trace) return true;
  // The same file may be read twice, once for the load and once for the lengths.
  return replay->trace != nullptr && !pairs->trace->file.empty() && pairs->trace->file == replay->trace->file;
}

}  // namespace plimsoll::load
