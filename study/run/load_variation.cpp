// SPDX-License-Identifier: Apache-2.0
#include "study/run/load_variation.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::study {
namespace {

struct SetValue {
  double value;
  [[nodiscard]] std::int32_t clients() const {
    return static_cast<std::int32_t>(std::clamp(std::round(value), 1.0, 1e9));
  }
  bool operator()(load::ClosedLoop& l) const {
    l.concurrency = clients();
    return true;
  }
  bool operator()(load::JumpStart& l) const {
    l.concurrency = clients();
    return true;
  }
  bool operator()(load::Poisson& l) const {
    l.rate = value;
    return true;
  }
  bool operator()(load::GammaArrivals& l) const {
    l.rate = value;
    return true;
  }
  bool operator()(load::ConstantRate& l) const {
    l.rate = value;
    return true;
  }
  bool operator()(load::Burst& l) const {
    l.count = clients();
    return true;
  }
  bool operator()(load::TraceReplay& l) const {
    l.rate_scale = value;
    return true;
  }
  bool operator()(load::Script&) const { return false; }
  bool operator()(load::Sessions& l) const {
    l.concurrency = clients();
    return true;
  }
  bool operator()(load::SessionArrivals& l) const {
    l.rate = value;
    return true;
  }
};

}  // namespace

std::optional<PointSpec> with_load_value(PointSpec spec, double value) {
  if (!(value > 0) || !std::visit(SetValue{value}, spec.workload.load)) return {};
  return spec;
}

std::optional<double> offered_rate(const load::LoadSpec& load) {
  if (const auto* const replay = std::get_if<load::TraceReplay>(&load)) {
    if (!replay->trace || !replay->trace->has_arrivals()) return {};
    const double end = 1e-9 * static_cast<double>(replay->trace->records.back().arrival) / replay->rate_scale;
    return end > 0 ? std::optional(static_cast<double>(replay->trace->records.size()) / end) : std::nullopt;
  }
  const bool has_rate = std::holds_alternative<load::Poisson>(load) ||
                        std::holds_alternative<load::GammaArrivals>(load) ||
                        std::holds_alternative<load::ConstantRate>(load);
  return has_rate ? std::optional(load::load_value(load)) : std::nullopt;
}

}  // namespace plimsoll::study
