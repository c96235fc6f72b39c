// SPDX-License-Identifier: Apache-2.0
// The price of single operations: the p-norm roofline times the residual. Calibration fits what is evaluated here.
#pragma once

#include <array>

#include "model/accelerator.h"
#include "model/forward_cost.h"
#include "model/op_list.h"
#include "model/p_norm.h"

namespace plimsoll::model {

/// Bilinear interpolation of the log ratio, constant outside the grid.
[[nodiscard]] double residual_at(const ResidualTable& table, double x, double y);

/// t0 + p-norm, without the residual. Peak and bandwidth are the specified ones.
[[nodiscard]] Seconds roofline_time(const OpCoefficients& coefficients, FlopsPerSecond peak, BytesPerSecond bandwidth,
                                    Flops flops, Bytes bytes);

/// Coefficients of one op class with the engine's scales applied.
struct ClassPrices {
  double flop_time = 0, narrow_flop_time = 0;  // seconds per flop in the activations' type, in the weights' type
  double byte_time = 0;                        // seconds per byte
  double t0 = 0, p = 3;
  const ResidualTable* residual = nullptr;
};

/// Prices ops of one deployment. The pointees of the inputs outlive it.
class OpPricer {
 public:
  OpPricer() = default;  // prices nothing: for engines of constant cost
  explicit OpPricer(const CostInputs& inputs);

  /// One execution on one rank, kernel gap included; decode attention is priced by DecodeCurve alone.
  [[nodiscard]] TimeParts price(const Op& op) const;
  [[nodiscard]] const ClassPrices& prices(OpClass op_class) const { return prices_[static_cast<std::size_t>(op_class)]; }
  /// Seconds a byte at the specified bandwidth.
  [[nodiscard]] double bound_byte_time() const { return bound_byte_time_; }
  [[nodiscard]] double kernel_gap() const { return inputs_.accelerator->kernel_gap.count(); }

 private:
  [[nodiscard]] TimeParts price_roofline(const Op& op, OpClass op_class) const;
  [[nodiscard]] double send_time(const Op& op) const;

  CostInputs inputs_;
  std::array<ClassPrices, kOpClasses> prices_;
  double bound_byte_time_ = 0;
};

}  // namespace plimsoll::model
