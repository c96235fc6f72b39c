// SPDX-License-Identifier: Apache-2.0
// What a forward on a GPU should take, before a GPU has run it: the ops of its list, each with an assumed fraction of
// the datasheet's rates. docs/performance.md has the formula and prints the result.
#pragma once

#include "model/accelerator.h"
#include "model/architecture.h"
#include "model/forward_work.h"

namespace plimsoll::bench {

struct Forecast {
  double floor_s = 0;     // the longer of: reading weights and KV once at full bandwidth; all flops at the peak
  double forecast_s = 0;  // with the assumed fractions, fixed times and gaps
  double bytes = 0;       // weights and KV
  double flops = 0;
  int kernels = 0;
};
/// Returns the forecast of one forward of a bf16 model on one GPU.
[[nodiscard]] Forecast forecast(const model::Accelerator& gpu, const model::LlmShape& shape,
                                const model::ForwardWork& work);

}  // namespace plimsoll::bench
