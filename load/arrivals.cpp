// SPDX-License-Identifier: Apache-2.0
#include "load/arrivals.h"

#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "load/lengths.h"
#include "model/error.h"

namespace plimsoll::load {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <class... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

void require(bool good, std::string_view name, double value, std::string_view allowed) {
  if (!good) throw InputError(fmt::format("load: {} is {}, allowed: {}", name, value, allowed));
}

void check_rate(double rate) { require(rate > 0 && std::isfinite(rate), "rate", rate, "above 0 requests/s"); }

// For cv > 1000 the shape 1/cv^2 is so small that all but a few gaps in a million underflow.
void check_cv(double cv) { require(cv >= 0 && cv <= 1000, "cv", cv, "0 to 1000"); }

void check_conversation(const Conversation& talk) {
  check_lengths(talk.turns, "turns");
  check_lengths(talk.added, "added");
  check_lengths(talk.result, "tools: added");
  check_pause(talk.think, "think");
  check_pause(talk.tool, "tools: gap");
  require(talk.tool_share >= 0 && talk.tool_share <= 1, "tools: share", talk.tool_share, "0 to 1");
}

void check_trace(const TraceReplay& load) {
  if (load.trace == nullptr || load.trace->records.empty()) throw InputError("load: the trace is empty");
  if (!load.trace->has_arrivals()) {
    throw InputError(fmt::format("{}: format {} has no arrival times and cannot be replayed; use it for lengths",
                                 load.trace->file, load.trace->format));
  }
  require(load.tiles >= 1, "tiles", load.tiles, "1 or more");
  require(load.rate_scale > 0 && std::isfinite(load.rate_scale), "rate_scale", load.rate_scale, "above 0");
}

}  // namespace

void check_load(const LoadSpec& load) {
  const auto clients = [](std::int32_t n) { require(n >= 1, "concurrency", n, "1 or more"); };
  std::visit(Overloaded{
                 [&](const ClosedLoop& l) {
                   clients(l.concurrency);
                   require(l.think.count() >= 0 && std::isfinite(l.think.count()), "think", l.think.count(),
                           "0 s or more");
                 },
                 [](const Poisson& l) { check_rate(l.rate); },
                 [](const GammaArrivals& l) {
                   check_rate(l.rate);
                   check_cv(l.cv);
                 },
                 [](const ConstantRate& l) { check_rate(l.rate); },
                 [](const Burst& l) { require(l.count >= 1, "count", static_cast<double>(l.count), "1 or more"); },
                 [](const TraceReplay& l) { check_trace(l); },
                 [&](const JumpStart& l) { clients(l.concurrency); },
                 [](const Script& l) {
                   if (l.requests.empty()) throw InputError("load: the script has no requests");
                 },
                 [&](const Sessions& l) {
                   clients(l.concurrency);
                   check_conversation(l.talk);
                 },
                 [](const SessionArrivals& l) {
                   check_rate(l.rate);
                   check_cv(l.cv);
                   check_conversation(l.talk);
                 },
             },
             load);
}

// Below this cv, gaps differ by less than a nanosecond per second, and 1/cv^2 may overflow.
constexpr double kRegular = 1e-9;

// Neumaier's summation: even after ten million gaps the error is one rounding, not ten million.
double ArrivalClock::renewal(double gap_s) {
  const double sum = sum_s_ + gap_s;
  carry_s_ += std::abs(sum_s_) >= gap_s ? (sum_s_ - sum) + gap_s : (gap_s - sum) + sum_s_;
  sum_s_ = sum;
  return sum_s_ + carry_s_;
}

double ArrivalClock::gamma_time(std::uint64_t index, double rate, double cv) {
  if (cv < kRegular) return static_cast<double>(index + 1) / rate * 1e9;
  const double shape = 1.0 / (cv * cv);
  return renewal(standard_gamma(stream_, index, shape) / (rate * shape)) * 1e9;
}

std::optional<double> ArrivalClock::time_of_next() {
  const std::uint64_t i = index_++;
  using Time = std::optional<double>;
  return std::visit(
      Overloaded{
          [&](const Poisson& l) -> Time { return renewal(standard_exponential(stream_.block(i)[0]) / l.rate) * 1e9; },
          [&](const GammaArrivals& l) -> Time { return gamma_time(i, l.rate, l.cv); },
          [&](const SessionArrivals& l) -> Time {
            if (l.cv == 1) return renewal(standard_exponential(stream_.block(i)[0]) / l.rate) * 1e9;
            return gamma_time(i, l.rate, l.cv);
          },
          // Computed, not summed: the i-th arrival is exact for every i.
          [&](const ConstantRate& l) -> Time { return static_cast<double>(i + 1) / l.rate * 1e9; },
          [&](const Burst& l) -> Time { return i < static_cast<std::uint64_t>(l.count) ? Time(0.0) : std::nullopt; },
          [&](const TraceReplay& l) -> Time {
            const auto& rows = l.trace->records;
            const std::uint64_t tile = i / rows.size();
            if (tile >= static_cast<std::uint64_t>(l.tiles)) return std::nullopt;
            const auto since = static_cast<double>(rows[i % rows.size()].arrival - rows.front().arrival);
            const double before = tile > 0 ? static_cast<double>(tile) * static_cast<double>(tile_length(*l.trace)) : 0;
            return (since + before) / l.rate_scale;
          },
          [](const ClosedLoop&) -> Time { return std::nullopt; },
          [](const JumpStart&) -> Time { return std::nullopt; },
          // With pools: as if every step began when the one before it ended.
          [&](const Script& l) -> Time {
            if (i >= l.requests.size()) return std::nullopt;
            return static_cast<double>(l.requests[i].visible_before_step - 1) * static_cast<double>(l.step);
          },
          [](const Sessions&) -> Time { return std::nullopt; },
      },
      load_);
}

std::optional<Nanos> ArrivalClock::next() {
  constexpr double kEnd = 9e18;  // ns, about 285 years: just below 2^63, and later than any run
  const std::optional<double> nanos = time_of_next();
  if (!nanos.has_value()) return std::nullopt;
  return std::llround(*nanos < kEnd ? *nanos : kEnd);
}

}  // namespace plimsoll::load
