// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "load/workload.h"

namespace plimsoll::load {
namespace {

double value_of(const ClosedLoop& l) { return l.concurrency; }
double value_of(const Poisson& l) { return l.rate; }
double value_of(const GammaArrivals& l) { return l.rate; }
double value_of(const ConstantRate& l) { return l.rate; }
double value_of(const Burst& l) { return static_cast<double>(l.count); }
double value_of(const TraceReplay& l) { return l.rate_scale; }
double value_of(const JumpStart& l) { return l.concurrency; }
double value_of(const Script&) { return 0; }

}  // namespace

std::string_view load_kind(const LoadSpec& load) {
  constexpr std::array<std::string_view, std::variant_size_v<LoadSpec>> kNames = {
      "closed_loop", "poisson", "gamma", "constant", "burst", "trace", "jumpstart", "script"};
  return kNames[load.index()];
}

double load_value(const LoadSpec& load) {
  return std::visit([](const auto& l) { return value_of(l); }, load);
}

bool is_closed_loop(const LoadSpec& load) {
  return std::holds_alternative<ClosedLoop>(load) || std::holds_alternative<JumpStart>(load);
}

}  // namespace plimsoll::load
