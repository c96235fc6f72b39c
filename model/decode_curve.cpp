// SPDX-License-Identifier: Apache-2.0
// Evaluates DecodeCurve. A layer's attention is affine in the context. With a residual it is affine between the points
// of the residual's grid; ForwardCost ensures that the times at these points do not fall.
#include <algorithm>
#include <limits>

#include "model/error.h"
#include "model/forward_cost.h"
#include "model/host_time.h"
#include "model/p_norm.h"

namespace plimsoll::model {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kBoundTolerance = 1e-9;  // rounding error of a sum of some hundred terms
// The p-norm of the time by bandwidth and the time that few thread blocks need.
constexpr double kStreamExponent = 3;

}  // namespace

inline double DecodeCurve::ratio(const Attention& attention, double context) {
  if (attention.segments.empty()) return 1;
  const Segment* segment = attention.segments.data();
  const Segment* const last = segment + attention.segments.size() - 1;
  while (segment != last && segment[1].context <= context) ++segment;
  const double base = attention.row_time + (attention.t0 + attention.slope * context);
  return (segment->constant + segment->slope * context) / base;
}

inline void DecodeCurve::add_attention(TimeParts& parts, double context, double context_windowed) const {
  for (const Attention& attention : attention_) {
    const double attended = attention.windowed ? context_windowed : context;
    const double scale = attention.layers * ratio(attention, attended);
    double time = scale * (attention.t0 + attention.slope * attended);
    if (attention.stream > 0)
      time = p_norm(time, attention.layers * attention.stream * attended, kStreamExponent).value;
    const double kv = time * attention.kv_share;
    parts.other += scale * attention.row_time;
    parts.kv += kv;
    parts.compute += time - kv;
  }
}

inline TimeParts DecodeCurve::device_parts(double context, double context_windowed) const {
  TimeParts parts = fixed_;
  add_attention(parts, context, context_windowed);
  return parts;
}

// Inlined into time() and parts(): time() then equals the sum of the parts to the last bit, without storing them.
inline TimeParts DecodeCurve::evaluate(double context, double context_windowed) const {
  if (constant_ >= 0) return {.other = constant_};
  TimeParts parts = device_parts(context, context_windowed);
  parts.host = serial_ + exposed_host_time(overlap_, overlap_exponent_, host_, parts.total());
  const double bound = bound_ + bound_slope_ * context + bound_slope_windowed_ * context_windowed;
  PLIMSOLL_CHECK(parts.total() >= bound * (1 - kBoundTolerance),
                 "a decode step is faster than reading its bytes at the specified bandwidth");
  return scale_ == 1 ? parts : parts * scale_;
}

double DecodeCurve::time(double context, double context_windowed) const {
  return evaluate(context, context_windowed).total();
}
TimeParts DecodeCurve::parts(double context, double context_windowed) const {
  return evaluate(context, context_windowed);
}
void DecodeCurve::add_attention_to(TimeParts& parts, double context, double context_windowed) const {
  add_attention(parts, context, context_windowed);
}

double DecodeCurve::next_kink_of(double context, bool windowed) const {
  double next = kInfinity;
  for (const Attention& attention : attention_) {
    if (attention.windowed != windowed) continue;
    for (const Segment& segment : attention.segments) {
      if (segment.context > context) next = std::min(next, segment.context);
    }
  }
  return next;
}

double DecodeCurve::next_kink(double context) const { return next_kink_of(context, false); }
double DecodeCurve::next_windowed_kink(double context_windowed) const { return next_kink_of(context_windowed, true); }

double DecodeCurve::steps_to_kink(double context, double context_windowed, double growth,
                                  double growth_windowed) const {
  if (constant_ >= 0) return kInfinity;
  double steps = kInfinity;
  if (growth > 0) steps = (next_kink(context) - context) / growth;
  if (growth_windowed > 0) {
    steps = std::min(steps, (next_windowed_kink(context_windowed) - context_windowed) / growth_windowed);
  }
  if (overlap_ != HostOverlap::full) return steps;
  const auto device_exceeds = [&](double n) {
    return device_parts(context + n * growth, context_windowed + n * growth_windowed).total() > host_;
  };
  constexpr double kFarthest = 1e9;  // steps; longer than any output
  double high = std::min(steps, kFarthest), low = 0;
  if (device_exceeds(0) || !device_exceeds(high)) return steps;
  while (true) {
    const double middle = 0.5 * (low + high);
    if (middle <= low || middle >= high) return high;
    (device_exceeds(middle) ? high : low) = middle;
  }
}

}  // namespace plimsoll::model
