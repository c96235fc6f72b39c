// SPDX-License-Identifier: Apache-2.0
#include "study/run/load_variation.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::study {
namespace {

struct SetValue {
  double value;
  [[nodiscard]] std::int32_t clients() const { return static_cast<std::int32_t>(std::clamp(std::round(value), 1.0, 1e9)); }
  bool operator()(load::ClosedLoop& l) const { l.concurrency = clients(); return true; }
  bool operator()(load::JumpStart& l) const { l.concurrency = clients(); return true; }
  bool operator()(load::Poisson& l) const { l.rate = value; return true; }
  bool operator()(load::GammaArrivals& l) const { l.rate = value; return true; }
  bool operator()(load::ConstantRate& l) const { l.rate = value; return true; }
  bool operator()(load::Burst& l) const { l.count = clients(); return true; }
  bool operator()(load::TraceReplay& l) const { l.rate_scale = value; return true; }
  bool operator()(load::Script&) const { return false; }
};

}  // namespace

std::optional<PointSpec> with_load_value(PointSpec spec, double value) {
  if (!(value > 0) || !std::visit(SetValue{value}, spec.workload.load)) return {};
  return spec;
}

}  // namespace plimsoll::study
