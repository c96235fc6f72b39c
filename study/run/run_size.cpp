// SPDX-License-Identifier: Apache-2.0
#include "study/run/run_size.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll::study {
namespace {

/// Requests that are sent within `duration`, or 0 where that cannot be told.
struct SentWithin {
  const PointSpec& spec;
  double duration;

  double operator()(const load::Poisson& load) const { return load.rate * duration; }
  double operator()(const load::GammaArrivals& load) const { return load.rate * duration; }
  double operator()(const load::ConstantRate& load) const { return load.rate * duration; }
  double operator()(const load::ClosedLoop& load) const {
    if (!spec.engine->constant) return 0;
    const model::ConstantCost& cost = *spec.engine->constant;
    const double service = cost.batch ? cost.batch->count() : cost.prefill.count() + cost.decode.count();
    return load.concurrency * (duration / (service + load.think.count()));  // each client waits at least that long
  }
  // The others end by themselves.
  double operator()(const load::Burst&) const { return 0; }
  double operator()(const load::TraceReplay&) const { return 0; }
  double operator()(const load::JumpStart&) const { return 0; }
  double operator()(const load::Script&) const { return 0; }
};

double foreseen_requests(const PointSpec& spec) {
  const auto stated = static_cast<double>(spec.workload.requests);
  const double duration = spec.workload.duration.count();
  if (duration <= 0) return stated;
  const double sent = std::visit(SentWithin{spec, duration}, spec.workload.load);
  return stated > 0 ? std::min(stated, sent) : sent;
}

}  // namespace

std::optional<Impossible> workload_problem(const PointSpec& spec) {
  if (std::holds_alternative<load::Script>(spec.workload.load) && spec.deployment.replicas != 1) {
    return Impossible{spec.places.replicas, fmt::format("a script drives one replica, found replicas: {}", spec.deployment.replicas)};
  }
  const double requests = foreseen_requests(spec) * spec.replications;
  if (requests <= static_cast<double>(load::kMostAttempts)) return {};
  return Impossible{spec.places.workload, fmt::format("found {} requests with all replications, allowed: at most {}; state "
                                                      "fewer or a shorter duration",
                                                      requests < 1e15 ? fmt::format("{:.0f}", requests) : "endlessly many", load::kMostAttempts)};
}

}  // namespace plimsoll::study
