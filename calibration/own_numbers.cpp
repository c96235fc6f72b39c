// SPDX-License-Identifier: Apache-2.0
#include "calibration/own_hardware.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace plimsoll::calibration {
namespace {

using validation::MeasuredPoint;

constexpr double kMicrosecond = 1e-6, kMillisecond = 1e-3;

// The spread of the priors in a fit to few runs: the user's processor may be three times as slow as the profile's.
constexpr double kHostSpread = 1, kScaleSpread = 0.3;

// Returns a host time of the profile, in seconds, as a number to fit.
ServingNumber host_number(const OwnEngine& engine, const std::string& key, const char* unit, double value) {
  const double prior = value / (std::string_view(unit) == "ms" ? kMillisecond : kMicrosecond);
  constexpr double kFarthest = 1000;
  ServingNumber n;
  n.number = {"host." + key, prior, kHostSpread, prior / kFarthest, prior * kFarthest};
  n.file = "engines/" + engine.name;
  n.path = "host." + key;
  n.unit = unit;
  return n;
}

ServingNumber scale_number(const OwnEngine& engine, const std::string& key, double value) {
  constexpr double kLow = 0.2, kHigh = 3;
  ServingNumber n;
  n.number = {"kernels." + key, value, kScaleSpread, kLow, kHigh};
  n.file = "engines/" + engine.name;
  n.path = "kernels." + key;
  return n;
}

template <class Value>
std::size_t different(const OwnRuns& runs, const Value& value) {
  std::set<std::decay_t<decltype(value(runs.fitted().front()))>> values;
  for (const MeasuredPoint& p : runs.fitted()) values.insert(value(p));
  return values.size();
}

// Adds the times of the runs' front ends. A front end's times per step and sequence cannot be told from the engine's.
void add_front_ends(const OwnEngine& engine, const model::EngineProfile& like, const OwnRuns& runs,
                    std::vector<ServingNumber>& numbers) {
  const auto behind = [&](std::string_view name) {
    return std::any_of(runs.fitted().begin(), runs.fitted().end(),
                       [&](const MeasuredPoint& p) { return p.front_end == name; });
  };
  for (std::size_t i = 1; i < model::kFrontEndNames.size(); ++i) {
    const std::string name(model::kFrontEndNames[i]);
    if (!behind(name)) continue;
    const auto kind = static_cast<model::FrontEnd>(i);
    const auto found = like.front_ends.find(kind);
    const model::FrontEndTime added = found == like.front_ends.end() ? model::FrontEndTime{} : found->second;
    const auto add = [&](const char* key, const char* unit, double time) {
      ServingNumber n = host_number(engine, key, unit, time);
      n.path = n.number.name = "front_ends." + name + "." + key;
      numbers.push_back(n);
    };
    // A profile states the whole delay behind a front end: the engine's own server has no effect there.
    add("front_end", "ms", std::max(like.arrival_time(kind).delay.count(), kMillisecond));
    if (added.intake.count() > 0) add("intake", "ms", added.intake.count());
    if (added.stream.count() > 0) add("stream", "us", added.stream.count());
  }
  const auto own = std::count_if(runs.fitted().begin(), runs.fitted().end(), [](const MeasuredPoint& p) {
    return p.front_end.empty() || p.front_end == model::kFrontEndNames[0];
  });
  if (own > 0)
    numbers.push_back(host_number(engine, "front_end", "ms", std::max(like.front_end.count(), kMillisecond)));
  if (like.host_stream.count() > 0) numbers.push_back(host_number(engine, "stream", "us", like.host_stream.count()));
}

// Adds only the terms of host time that the profile has: an engine without a time per op does not get one.
void add_host_numbers(const OwnEngine& engine, const model::EngineProfile& like, const OwnRuns& runs,
                      std::vector<ServingNumber>& numbers) {
  // A time that the profile lacks starts at a negligible value.
  const auto add = [&](const char* key, const char* unit, Seconds value, double least) {
    numbers.push_back(host_number(engine, key, unit, std::max(value.count(), least)));
  };
  add("step", "ms", like.host_step, 0.1 * kMillisecond);
  if (different(runs, [](const MeasuredPoint& p) { return p.load_value; }) > 1)
    add("sequence", "us", like.host_sequence, 2 * kMicrosecond);
  if (different(runs, [](const MeasuredPoint& p) { return p.input_tokens; }) > 1)
    add("token", "us", like.host_token, 0.05 * kMicrosecond);
  const auto has_ttft = [](const MeasuredPoint& p) { return p.ttft_mean_s.has_value(); };
  if (std::any_of(runs.fitted().begin(), runs.fitted().end(), has_ttft)) {
    add("prefill", "ms", like.host_prefill, 0.05 * kMillisecond);
    add_front_ends(engine, like, runs, numbers);
    add("intake", "ms", like.intake, 0.05 * kMillisecond);
  }
  if (like.host_op.count() > 0) add("op", "us", like.host_op, 0);
  if (like.host_layer.count() > 0) add("layer", "us", like.host_layer, 0);
  if (different(runs, [](const MeasuredPoint& p) { return p.tp; }) > 1 && like.host_rank_growth > 0) {
    ServingNumber growth = host_number(engine, "rank_growth", "us", kMicrosecond);
    growth.unit.clear();
    growth.number.prior = like.host_rank_growth;
    growth.number.low = growth.number.high = 0;
    // The runs replace the profile's values for other hosts.
    for (const auto& [accelerator, value] : like.rank_growth_by_accelerator)
      growth.also.push_back("host.rank_growth_by_accelerator." + accelerator);
    numbers.push_back(growth);
  }
}

// Adds the scales of measured kernels, and the profile's kernel values for the types of the runs.
void add_kernel_numbers(const OwnEngine& engine, const model::EngineProfile& like, const OwnRuns& runs,
                        std::vector<ServingNumber>& numbers) {
  numbers.push_back(scale_number(engine, "compute_scale", like.compute_scale));
  numbers.push_back(scale_number(engine, "memory_scale", like.memory_scale));
  std::set<std::string> types;
  for (const MeasuredPoint& p : runs.fitted()) types.insert(configs::canonical_name(p.dtype));
  for (const auto& [type, scale] : like.product_scales) {
    const std::string name(model::name(type));
    if (types.contains(name) && scale.memory != 1)
      numbers.push_back(scale_number(engine, "products." + name + ".memory_scale", scale.memory));
  }
  if (like.fused_quantisation.count() > 0 && (types.contains("fp8") || types.contains("nvfp4"))) {
    ServingNumber n = host_number(engine, "fused_quantisation", "us", like.fused_quantisation.count());
    n.path = n.number.name = "kernels.fused_quantisation";
    numbers.push_back(n);
  }
}

}  // namespace

std::vector<ServingNumber> own_numbers(const OwnEngine& engine, const model::EngineProfile& like, const OwnRuns& runs,
                                       const std::optional<OwnHardware>& hardware) {
  std::vector<ServingNumber> numbers;
  add_host_numbers(engine, like, runs, numbers);
  if (hardware)
    numbers.insert(numbers.end(), hardware->numbers.begin(), hardware->numbers.end());
  else
    add_kernel_numbers(engine, like, runs, numbers);
  return numbers;
}

}  // namespace plimsoll::calibration
