// SPDX-License-Identifier: Apache-2.0
// The time of one forward pass: the op list of the step (op_list.h) priced by the p-norm roofline, plus all-reduces,
// kernel gaps and exposed host time. Formulas and sources: docs/cost-model.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "model/accelerator.h"
#include "model/engine_profile.h"
#include "model/llm_shape.h"

namespace plimsoll::model {

/// Where a step's time goes, seconds. An op's time is shared out by a^p over the terms of its p-norm.
struct TimeParts {
  double weights = 0, kv = 0, compute = 0, allreduce = 0, host = 0, other = 0;
  [[nodiscard]] double total() const { return weights + kv + compute + allreduce + host + other; }
  TimeParts& operator+=(const TimeParts& b) {
    weights += b.weights; kv += b.kv; compute += b.compute; allreduce += b.allreduce; host += b.host; other += b.other;
    return *this;
  }
  friend TimeParts operator*(TimeParts a, double k) {
    return {a.weights * k, a.kv * k, a.compute * k, a.allreduce * k, a.host * k, a.other * k};
  }
};

/// `new_tokens` rows of one sequence on top of `context` cached tokens (padding rows included in new_tokens).
struct PrefillSpan {
  std::int64_t new_tokens = 0, context = 0;
};

/// One forward pass, reduced to what its cost depends on.
struct ForwardWork {
  std::span<const PrefillSpan> prefill;
  std::int64_t decode_rows = 0;       // sequences that decode one token, dead rows included
  double decode_context = 0;          // sum over these rows of the tokens attended to, the new one included
  double decode_context_windowed = 0; // the same with every row's context capped at the sliding window (if there is one)
  std::int64_t sampled = 0;           // rows that go through the LM head
};

/// Everything that a step's cost depends on besides the work. The pointees outlive the ForwardCost.
struct CostInputs {
  const LlmShape* shape = nullptr;
  const Accelerator* accelerator = nullptr;
  const Interconnect* interconnect = nullptr;   // may be null when tp = pp = 1
  const EngineProfile* engine = nullptr;
  DType weight_dtype = DType::fp16, kv_dtype = DType::fp16;
  std::int32_t tp = 1, pp = 1;
};

/// The cost of pure decode steps with a fixed number of rows, as a function of their contexts: smooth, nondecreasing,
/// cheap (a few tens of nanoseconds), so that runs of such steps can be summed by quadrature. Contexts need not be whole.
class DecodeCurve {
 public:
  /// Seconds of one step.
  [[nodiscard]] double time(double context, double context_windowed) const;
  [[nodiscard]] TimeParts parts(double context, double context_windowed) const;

 private:
  friend class ForwardCost;
  // What does not depend on the context, and the coefficients of what does; filled by ForwardCost.
  struct Attention {                  // layers of one kind (global or windowed)
    double layers = 0;
    double bytes_time = 0;            // seconds per token of context: KV reads at effective bandwidth
    double flops_time = 0;            // seconds per token of context: compute at effective peak
    double fixed_bytes_time = 0;      // query and output traffic
    double t0 = 0, p = 3;
    const ResidualTable* residual = nullptr;
    bool windowed = false;
  };
  TimeParts fixed_;                   // linear layers, pointwise, all-reduces, gaps
  Attention attention_[2];
  int kinds_ = 0;
  double rows_ = 0;
  double host_ = 0, overlap_exponent_ = 3;
  HostOverlap overlap_ = HostOverlap::p_norm;
  double constant_ = -1;              // >= 0: a constant-cost engine
};

/// Prices forwards. Memoises the linear layers by row count, so an object belongs to one thread; it is cheap to make.
/// Aborts (PLIMSOLL_CHECK) if a step would be faster than reading its bytes beyond the last-level cache at the specified
/// bandwidth; residual tables that imply such a step are refused when the catalogue loads them.
class ForwardCost {
 public:
  explicit ForwardCost(const CostInputs& inputs);
  ~ForwardCost();
  ForwardCost(ForwardCost&&) noexcept;

  [[nodiscard]] TimeParts forward(const ForwardWork& work);
  /// The curve of steps with this many decode rows, all sampled. The reference lives as long as this object.
  [[nodiscard]] const DecodeCurve& decode_curve(std::int64_t rows);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll::model
