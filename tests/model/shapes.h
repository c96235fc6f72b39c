// SPDX-License-Identifier: Apache-2.0
// Shapes and devices for the tests, one of every family, with published figures.
#pragma once

#include <string>
#include <vector>

#include "model/accelerator.h"
#include "model/engine_profile.h"
#include "model/forward_cost.h"
#include "model/llm_shape.h"

namespace plimsoll::model {

struct PublishedShape {
  LlmShape shape;
  double weights = 0, active = 0, kv_bytes_fp16 = 0;
};
/// One model of every architecture family.
[[nodiscard]] const std::vector<PublishedShape>& published_shapes();
/// Returns the shape with this id; aborts if there is none.
[[nodiscard]] const LlmShape& shape_named(const std::string& id);

/// Accelerators with the figures of the data sheets and all efficiencies 1.
[[nodiscard]] Accelerator a10g();
[[nodiscard]] Accelerator a100_40();
/// Returns the same accelerator with efficiencies below one, fixed costs and a kernel gap.
[[nodiscard]] Accelerator with_efficiencies(Accelerator accelerator);
/// Adds a decode attention residual whose times rise with the context: slow at small batches and contexts.
[[nodiscard]] Accelerator with_decode_residual(Accelerator accelerator);

[[nodiscard]] Interconnect nvswitch_a100();
[[nodiscard]] Interconnect pcie_gen4();
/// Returns an engine without host time, so that only device time remains.
[[nodiscard]] EngineProfile ideal_engine();
/// Returns an engine with a host time like TGI's, which overlaps the device.
[[nodiscard]] EngineProfile tgi_like_engine();

/// A deployment that owns what CostInputs points to.
struct Deployment {
  LlmShape shape;
  Accelerator accelerator = with_efficiencies(a100_40());
  Interconnect interconnect = nvswitch_a100();
  EngineProfile engine = ideal_engine();
  DType weight_dtype = DType::fp16, kv_dtype = DType::fp16;
  std::int32_t tp = 1, pp = 1;
  [[nodiscard]] CostInputs inputs() const {
    return {&shape, &accelerator, &interconnect, &engine, weight_dtype, kv_dtype, tp, pp};
  }
};
/// Returns a step in which `rows` sequences decode at this mean context.
[[nodiscard]] ForwardWork decode_work(const LlmShape& shape, std::int64_t rows, double mean_context);

}  // namespace plimsoll::model
