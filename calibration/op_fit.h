// SPDX-License-Identifier: Apache-2.0
// Turns measured ops into coefficients of the cost model. Each class of ops gets a p-norm roofline, fitted by least
// squares on the logarithm of the time, and a table of the remaining ratios (model/accelerator.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "calibration/op_samples.h"
#include "model/accelerator.h"

namespace plimsoll::calibration {

struct OpFit {
  model::OpCoefficients coefficients;
  std::int64_t samples = 0;
  double roofline_error = 0;  // mean of |predicted / measured - 1| with the roofline alone
  double fit_error = 0;       // the same with the residual table
};

/// Returns the class that prices an op; nullopt for all-reduces and sends.
[[nodiscard]] std::optional<model::OpClass> class_of(model::OpKind kind);

/// Fits one class of ops, or one kind of pointwise op. Samples of several kinds share one curve and get no table.
/// `peak` and `bandwidth` are those of the accelerator. Requires at least one sample.
[[nodiscard]] OpFit fit_op_class(model::OpClass op_class, std::span<const OpSample> samples, FlopsPerSecond peak,
                                 BytesPerSecond bandwidth);

}  // namespace plimsoll::calibration
