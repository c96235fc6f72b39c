// SPDX-License-Identifier: Apache-2.0
#include "study/file/read_point.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "study/file/section.h"

namespace plimsoll::study {
namespace {

using Keys = std::vector<std::string_view>;

constexpr std::int32_t kMostScaled = 10'000;
constexpr std::int32_t kMostPoints = 10'000;
constexpr Nanos kHighResolution = 10'000'000'000;  // default period between data points of concurrency

constexpr Seconds kMinLength(1e-3);  // of repeated events: shorter periods would flood a run

Nanos nanos(Seconds time) { return std::llround(time.count() * 1e9); }

void take_time(const Section& section, std::string_view key, Nanos& value) {
  if (const auto time = section.time(key)) value = nanos(*time);
}

Nanos take_period(const configs::Node& node) {
  const Seconds time = node.as_seconds();
  if (time < kMinLength) node.fail(fmt::format("found '{}', expected a time of at least 1 ms", node.as_string()));
  return nanos(time);
}

}  // namespace

sched::AutoscalingConfig read_autoscaling(const configs::Node& node) {
  const Section section(node, Keys{"min", "max", "metric", "target", "period", "out_points", "in_time",
                                   "scale_out_cooldown", "scale_in_cooldown", "start_up"});
  sched::AutoscalingConfig config;
  config.min = static_cast<std::int32_t>(section.whole("min", 1, kMostScaled).value_or(1));
  config.max = static_cast<std::int32_t>(section.need("max", "8").as_integer(1, kMostScaled));
  if (config.max < config.min) {
    throw InputError(section.where("max"),
                     fmt::format("found max: {} below min: {}; expected at least that", config.max, config.min));
  }
  constexpr std::array<std::string_view, 2> kMetrics = {"invocations", "concurrency"};
  if (const auto metric = section.find("metric"))
    config.metric = static_cast<sched::ScalingMetric>(metric->as_one_of(kMetrics));
  config.target = read_positive(section.need("target", "70"), 1e9);
  if (config.metric == sched::ScalingMetric::concurrency) config.period = kHighResolution;
  if (const auto period = section.find("period")) config.period = take_period(*period);
  config.out_points =
      static_cast<std::int32_t>(section.whole("out_points", 1, kMostPoints).value_or(config.out_points));
  take_time(section, "in_time", config.in_time);
  take_time(section, "scale_out_cooldown", config.out_cooldown);
  take_time(section, "scale_in_cooldown", config.in_cooldown);
  // No default: in practice it takes minutes, and it determines the cost of a peak.
  config.start_up = nanos(section.need("start_up", "5 min").as_seconds());
  return config;
}

load::FailureConfig read_failures(const configs::Node& node) {
  const Section section(node, Keys{"mean_time_between", "restart"});
  load::FailureConfig config;
  config.mean_between = take_period(section.need("mean_time_between", "24 h"));
  config.restart = nanos(section.need("restart", "5 min").as_seconds());
  return config;
}

}  // namespace plimsoll::study
