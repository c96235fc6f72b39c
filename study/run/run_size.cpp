// SPDX-License-Identifier: Apache-2.0
#include "study/run/resolve.h"

#include <fmt/format.h>

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace plimsoll::study {
namespace {

/// Returns how many requests are sent within `duration`; 0 if that is unknown.
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
    return load.concurrency * (duration / (service + load.think.count()));  // each client waits at least this long
  }
  // The other loads end by themselves.
  double operator()(const load::Burst&) const { return 0; }
  double operator()(const load::TraceReplay&) const { return 0; }
  double operator()(const load::JumpStart&) const { return 0; }
  double operator()(const load::Script&) const { return 0; }
  double operator()(const load::Sessions&) const { return 0; }
  double operator()(const load::SessionArrivals& load) const {
    return load.rate * duration * load::length_mean(load.talk.turns);
  }
};

double foreseen_requests(const PointSpec& spec) {
  const auto stated = static_cast<double>(spec.workload.requests);
  const double duration = spec.workload.duration.count();
  if (duration <= 0) {
    const load::Conversation* const talk = load::conversation_of(spec.workload.load);
    return talk != nullptr && stated == 0 ? static_cast<double>(talk->count) * load::length_mean(talk->turns) : stated;
  }
  const double sent = std::visit(SentWithin{spec, duration}, spec.workload.load);
  return stated > 0 ? std::min(stated, sent) : sent;
}

/// Returns for how many seconds requests are sent; 0 if that is unknown.
double foreseen_seconds(const PointSpec& spec) {
  const load::LoadSpec& load = spec.workload.load;
  const double duration = spec.workload.duration.count();
  const auto requests = static_cast<double>(spec.workload.requests);
  double seconds = 0;
  if (const auto* replay = std::get_if<load::TraceReplay>(&load)) {
    seconds = 1e-9 * static_cast<double>(replay->trace->records.back().arrival) / replay->rate_scale;
  } else if (const auto* arrivals = std::get_if<load::SessionArrivals>(&load)) {
    seconds = requests / (arrivals->rate * load::length_mean(arrivals->talk.turns));
  } else if (!load::is_closed_loop(load) && !std::holds_alternative<load::Burst>(load) && load::load_value(load) > 0) {
    seconds = requests / load::load_value(load);  // for the other loads the value is their rate
  }
  if (duration <= 0) return seconds;
  return seconds > 0 ? std::min(seconds, duration) : duration;
}

// Checks how often replicas fail, restart and are counted, over all replications.
std::optional<Impossible> life_problem(const PointSpec& spec) {
  const Deployment& d = spec.deployment;
  const double seconds = foreseen_seconds(spec) * spec.replications;
  const auto events = [seconds](Nanos between) { return seconds / (1e-9 * static_cast<double>(between)); };
  const auto refuse = [](const Where& where, double count, const char* what) {
    return Impossible{
        where,
        fmt::format("found {:.0f} {} with all replications, allowed: at most {}; state a longer time between them or "
                    "a shorter run",
                    count, what, load::kMaxLifeEvents)};
  };
  const double periods = d.autoscaling ? events(d.autoscaling->period) : 0;
  if (periods > static_cast<double>(load::kMaxLifeEvents))
    return refuse(spec.places.autoscaling, periods, "autoscaling periods");
  if (d.failures.mean_between == 0) return {};
  const double failures = d.most_replicas() * events(d.failures.mean_between + d.failures.restart);
  if (failures > static_cast<double>(load::kMaxLifeEvents)) return refuse(spec.places.failures, failures, "failures");
  return {};
}

/// Returns how many requests are in the system at once from the start.
double foreseen_at_once(const PointSpec& spec) {
  const load::LoadSpec& load = spec.workload.load;
  const auto stated = static_cast<double>(spec.workload.requests);
  if (!load::is_closed_loop(load) && !std::holds_alternative<load::Burst>(load)) return 0;
  const double most = load::load_value(load);
  return stated > 0 && !std::holds_alternative<load::JumpStart>(load) ? std::min(stated, most) : most;
}

/// Returns the bytes that this process may still allocate: free memory, or a limit on its address space.
double free_memory() {
  double bytes = std::numeric_limits<double>::infinity();
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;) {
    if (word != "MemAvailable:") continue;
    double kibibytes = 0;
    if (info >> kibibytes) bytes = 1024 * kibibytes;
    break;
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    bytes = std::min(bytes, static_cast<double>(limit.rlim_cur));
  return bytes;
}

// Rejects a queue that would not fit into memory before it is built.
std::optional<Impossible> memory_problem(const PointSpec& spec) {
  constexpr double kBytesARequest = 250, kAlwaysFits = 1e8;  // measured over a whole run of a million requests
  const double requests = foreseen_at_once(spec), bytes = requests * kBytesARequest;
  if (bytes <= kAlwaysFits) return {};
  const double free = free_memory();
  if (bytes <= free) return {};
  return Impossible{
      spec.places.workload,
      fmt::format("{:.0f} requests at once take about {:.1f} GB of memory, {:.1f} GB are free; state fewer", requests,
                  bytes / 1e9, free / 1e9)};
}

}  // namespace

std::optional<Impossible> workload_problem(const PointSpec& spec) {
  const bool script = load::script_of(spec.workload) != nullptr;
  if (script && !spec.in_pools && spec.deployment.replicas != 1) {
    return Impossible{spec.places.replicas,
                      fmt::format("a script drives one replica, found replicas: {}", spec.deployment.replicas)};
  }
  if (script && !spec.deployment.is_fixed()) {
    const bool scales = spec.deployment.autoscaling.has_value();
    return Impossible{
        scales ? spec.places.autoscaling : spec.places.failures,
        fmt::format("a script needs a fixed fleet: it excludes '{}'", scales ? "autoscaling" : "failures")};
  }
  if (std::optional<Impossible> problem = life_problem(spec)) return problem;
  if (std::optional<Impossible> problem = memory_problem(spec)) return problem;
  const double requests = foreseen_requests(spec) * spec.replications;
  if (requests <= static_cast<double>(load::kMaxAttempts)) return {};
  return Impossible{
      spec.places.workload,
      fmt::format("found {} requests with all replications, allowed: at most {}; state "
                  "fewer or a shorter duration",
                  requests < 1e15 ? fmt::format("{:.0f}", requests) : "endlessly many", load::kMaxAttempts)};
}

}  // namespace plimsoll::study
