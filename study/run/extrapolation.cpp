// SPDX-License-Identifier: Apache-2.0
#include "study/run/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "configs/catalogue.h"
#include "study/file/read_point.h"
#include "study/run/estimate.h"

namespace plimsoll::study {
namespace {

using model::Beyond;
using model::DType;

// How a point differs from one group of calibration runs.
struct Difference {
  std::set<Beyond> kinds;
  std::vector<std::string> reasons;
  void add(Beyond kind, std::string reason) {
    kinds.insert(kind);
    reasons.push_back(std::move(reason));
  }
};

bool is_16_bit(DType dtype) { return dtype == DType::fp16 || dtype == DType::bf16; }
bool is_same(DType a, DType b) { return a == b || (is_16_bit(a) && is_16_bit(b)); }

// Returns "8 to 128", or a single number if the two are equal. `scale` is 1e-9 for parameters.
std::string text_of(const model::Interval& interval, double scale = 1) {
  const std::string low = fmt::format("{:.4g}", scale * interval.low),
                    high = fmt::format("{:.4g}", scale * interval.high);
  return low == high ? low : low + " to " + high;
}

void compare_model(const PointSpec& spec, const model::CalibratedRange& range, Difference& out) {
  if (!spec.shape) return;
  const auto family = spec.shape->moe ? model::ModelFamily::moe : model::ModelFamily::dense;
  if (family != range.family)
    out.add(Beyond::model, family == model::ModelFamily::moe ? "a mixture of experts" : "a dense model");
  constexpr double kRounding = 0.01;  // rounding of the parameters in the profile
  const double parameters = model::weight_count(*spec.shape);
  const model::Interval wide{range.parameters.low * (1 - kRounding), range.parameters.high * (1 + kRounding)};
  if (!wide.holds(parameters))
    out.add(Beyond::model,
            fmt::format("{:.3g} B parameters (fitted: {} B)", 1e-9 * parameters, text_of(range.parameters, 1e-9)));
  if (!is_same(spec.weight_dtype, range.weights))
    out.add(Beyond::type,
            fmt::format("{} weights (fitted: {})", model::name(spec.weight_dtype), model::name(range.weights)));
  if (!is_same(spec.kv_dtype, range.cache))
    out.add(Beyond::type,
            fmt::format("{} KV cache (fitted: {})", model::name(spec.kv_dtype), model::name(range.cache)));
}

void compare_deployment(const PointSpec& spec, const model::CalibratedRange& range, Difference& out) {
  const std::string& accelerator = spec.hardware.accelerator->id;
  if (!range.accelerators.empty() &&
      std::find(range.accelerators.begin(), range.accelerators.end(), accelerator) == range.accelerators.end())
    out.add(Beyond::accelerator, fmt::format("accelerator {}", accelerator));
  if (!range.tp.holds(spec.deployment.tp))
    out.add(Beyond::tp, fmt::format("tp {} (fitted: {})", spec.deployment.tp, text_of(range.tp)));
}

void compare_load(const PointSpec& spec, const model::CalibratedRange& range, Difference& out) {
  if (std::holds_alternative<load::Script>(spec.workload.load)) return;
  // Profiles state batches as users per replica.
  const double users = std::max(1.0, load::load_value(spec.workload.load) / spec.deployment.replicas);
  if (load::is_closed_loop(spec.workload.load) && !range.batch.holds(users))
    out.add(Beyond::batch, fmt::format("{:g} users per replica (fitted: {})", users, text_of(range.batch)));
  if (const auto mean = mean_lengths(spec.workload)) {
    if (!range.input.holds(mean->input))
      out.add(Beyond::length, fmt::format("prompts of {:.0f} tokens (fitted: {})", mean->input, text_of(range.input)));
    if (!range.output.holds(mean->output))
      out.add(Beyond::length,
              fmt::format("answers of {:.0f} tokens (fitted: {})", mean->output, text_of(range.output)));
  }
  const std::int64_t longest = longest_sent(spec.workload);
  if (range.context > 0 && static_cast<double>(longest) > range.context)
    out.add(Beyond::length, fmt::format("sequences of {} tokens (fitted: up to {:g})", longest, range.context));
}

// "vllm-0.9" -> "0.9"; empty for "vllm" and "vllm-v1", which name no version.
std::string_view version_in(std::string_view name) {
  const std::size_t hyphen = name.rfind('-');
  if (hyphen == std::string_view::npos) return {};
  const std::string_view version = name.substr(hyphen + 1);
  const bool numbers = !version.empty() && version.find_first_not_of("0123456789.") == std::string_view::npos;
  return numbers ? version : std::string_view();
}

// Returns how the point differs from the most similar group of runs.
Difference difference_of(const PointSpec& spec) {
  std::optional<Difference> nearest;
  for (const model::CalibratedRange& range : spec.engine->ranges) {
    Difference difference;
    compare_model(spec, range, difference);
    compare_deployment(spec, range, difference);
    compare_load(spec, range, difference);
    if (!nearest || difference.reasons.size() < nearest->reasons.size()) nearest = std::move(difference);
  }
  Difference out = nearest.value_or(Difference{});
  // The version as the study spells it comes first: an alias may mean another version than its profile.
  const std::string asked = configs::canonical_name(spec.engine_name);
  std::string_view version = version_in(asked);
  if (version.empty()) version = version_in(spec.engine->id);
  const std::string_view fitted = version_in(fitted_engine(spec));
  if (!version.empty() && !fitted.empty() && version != fitted)
    out.add(Beyond::version, fmt::format("version {}", version));
  else if (!spec.engine->like.empty() && version.empty())
    out.add(Beyond::version, fmt::format("engine {}", spec.engine->id));
  return out;
}

}  // namespace

Extrapolation extrapolation_of(const PointSpec& spec) {
  Extrapolation out;
  if (spec.engine->constant) return out;
  const auto add = [&out](const std::string& text) { out.reason += (out.reason.empty() ? "" : "; ") + text; };
  const model::Accelerator& accelerator = *spec.hardware.accelerator;
  if (!accelerator.calibrated) {
    add(fmt::format("{} is not calibrated ({})", accelerator.id,
                    accelerator.fit_source.empty() ? "datasheet only" : accelerator.fit_source));
    out.kinds.insert(Beyond::accelerator);
  }
  if (!spec.engine->calibrated) {
    add(fmt::format("engine {} is not calibrated ({})", spec.engine->id, spec.engine->calibrated_on));
  } else if (const Difference difference = difference_of(spec); !difference.reasons.empty()) {
    out.kinds.insert(difference.kinds.begin(), difference.kinds.end());
    add(fmt::format("outside the fitted range of {}: {}", fitted_engine(spec), fmt::join(difference.reasons, ", ")));
  }
  if (spec.shape && spec.shape->sliding_window > 0 && longest_sent(spec.workload) > spec.shape->sliding_window) {
    add(
        fmt::format("the cache of windowed layers counts at full length: servers that free it beyond the window of {} "
                    "tokens hold more sequences{}",
                    spec.shape->sliding_window, spec.shape->chunked ? "; a chunk reads as much as a window" : ""));
  }
  if (spec.deployment.ep > 1)
    add(fmt::format("ep {}: tokens are routed to experts as in the kernels' benchmark, not as in this model",
                    spec.deployment.ep));
  if (spec.deployment.pp > 1) {
    add(fmt::format(
        "pp {0}: each step passes through all stages before the next begins, so throughput is up to {0} times too low "
        "(docs/limits.md)",
        spec.deployment.pp));
    out.kinds.insert(Beyond::pipeline);
  }
  return out;
}

}  // namespace plimsoll::study
