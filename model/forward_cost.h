// SPDX-License-Identifier: Apache-2.0
// The time of one forward pass: the op list of the step (op_list.h) priced by the p-norm roofline, plus all-reduces,
// kernel gaps and exposed host time. Formulas and sources: docs/cost-model.md.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/accelerator.h"
#include "model/engine_profile.h"
#include "model/forward_work.h"
#include "model/llm_shape.h"

namespace plimsoll::model {

/// The parts of a step's time, seconds. An op's time is divided in proportion to a^p among the terms of its p-norm.
struct TimeParts {
  double weights = 0, kv = 0, compute = 0, allreduce = 0, host = 0, other = 0;
  [[nodiscard]] double total() const { return weights + kv + compute + allreduce + host + other; }
  TimeParts& operator+=(const TimeParts& b) {
    weights += b.weights;
    kv += b.kv;
    compute += b.compute;
    allreduce += b.allreduce;
    host += b.host;
    other += b.other;
    return *this;
  }
  friend TimeParts operator*(TimeParts a, double k) {
    return {a.weights * k, a.kv * k, a.compute * k, a.allreduce * k, a.host * k, a.other * k};
  }
};

/// Everything besides the work that affects a step's cost. The pointees must outlive the ForwardCost.
struct CostInputs {
  const LlmShape* shape = nullptr;
  const Accelerator* accelerator = nullptr;
  const Interconnect* interconnect = nullptr;  // may be null if tp = pp = 1
  const EngineProfile* engine = nullptr;
  DType weight_dtype = DType::fp16, kv_dtype = DType::fp16;
  std::int32_t tp = 1, pp = 1;
  std::int32_t ep = 1;  // groups of the tp ranks that hold different experts; the ranks of a group split each of theirs
  FrontEnd front_end = FrontEnd::none;
};

/// The cost of pure decode steps with a fixed number of rows, as a function of their contexts. It is nondecreasing,
/// cheap (a few tens of nanoseconds) and smooth between kinks, so that runs of such steps can be summed by quadrature.
/// Contexts are sums over the rows and may be fractional. Thread-safe to read.
class DecodeCurve {
 public:
  /// Returns the seconds of one step; equal to parts().total() to the last bit.
  [[nodiscard]] double time(double context, double context_windowed) const;
  [[nodiscard]] TimeParts parts(double context, double context_windowed) const;

  /// Returns the next larger context (or windowed context) at which the formula has a kink, a point of a residual grid;
  /// infinity if there is none.
  [[nodiscard]] double next_kink(double context) const;
  [[nodiscard]] double next_windowed_kink(double context_windowed) const;
  /// Returns the number of steps (> 0, may be fractional) until the next kink, if each step adds `growth` and
  /// `growth_windowed` to the contexts. Includes the kink of HostOverlap::full, where the device begins to take longer
  /// than the host. Infinity if there are no more kinks.
  [[nodiscard]] double steps_to_kink(double context, double context_windowed, double growth,
                                     double growth_windowed) const;

 private:
  friend class ForwardCost;
  // From `context` on, a layer takes constant + slope * context seconds.
  struct Segment {
    double context = 0, constant = 0, slope = 0;
  };
  struct Attention {  // layers of one kind (global or windowed)
    double layers = 0;
    double row_time = 0;  // seconds for query and output traffic
    double stream = 0;    // seconds per token of context that the kernel's parallelism allows; 0: no limit
    double t0 = 0;        // seconds: fixed cost of the kernel
    double slope = 0;     // seconds per token of context: p-norm of KV reads and compute
    double kv_share = 1;  // share of KV reads in the slope, by a^p
    bool windowed = false;
    std::vector<Segment> segments;  // empty: no residual
  };
  [[nodiscard]] static double ratio(const Attention& attention, double context);
  void add_attention(TimeParts& parts, double context, double context_windowed) const;
  [[nodiscard]] TimeParts device_parts(double context, double context_windowed) const;
  [[nodiscard]] TimeParts evaluate(double context, double context_windowed) const;
  void add_attention_to(TimeParts& parts, double context, double context_windowed) const;
  [[nodiscard]] double next_kink_of(double context, bool windowed) const;

  TimeParts fixed_;  // linear layers, pointwise, all-reduces, gaps
  std::vector<Attention> attention_;
  double host_ = 0, serial_ = 0, overlap_exponent_ = 3, scale_ = 1;
  HostOverlap overlap_ = HostOverlap::p_norm;
  double constant_ = -1;  // >= 0: constant time of a constant-cost engine
  // The lower bound of the step: bytes beyond the last-level caches at the specified bandwidth.
  double bound_ = 0, bound_slope_ = 0, bound_slope_windowed_ = 0;
};

/// Prices forwards. Caches the linear layers by row count, so an object must be used by one thread; it is cheap to
/// make. Aborts (PLIMSOLL_CHECK) if a step would be faster than reading its bytes beyond the last-level cache at the
/// specified bandwidth. Residuals that would be too fast are raised to the bound; validate_coefficients reports them.
class ForwardCost {
 public:
  /// Throws InputError if the accelerator cannot multiply in this type, or the degrees of parallelism are impossible.
  explicit ForwardCost(const CostInputs& inputs);
  ~ForwardCost();
  ForwardCost(ForwardCost&&) noexcept;
  ForwardCost& operator=(ForwardCost&&) noexcept;

  /// Returns the cost of one forward. A pure decode step with all rows sampled costs exactly
  /// decode_curve(rows).parts(...). An empty forward costs nothing.
  [[nodiscard]] TimeParts forward(const ForwardWork& work);
  /// Returns the curve of steps with this many decode rows, all sampled. The reference is valid as long as this object.
  [[nodiscard]] const DecodeCurve& decode_curve(std::int64_t rows);

  /// Records for beyond_measured() that decode steps reach this sum of contexts. forward() does this itself;
  /// decode_curve() cannot.
  void note_decode(std::int64_t rows, double context) const;
  /// Returns why the work priced so far lies outside the accelerator's measured kernels, with one reason each for
  /// shapes, types, rows, contexts and ranks. Empty if it lies inside, and for engines of constant cost.
  [[nodiscard]] const std::set<std::string>& beyond_measured() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll::model
