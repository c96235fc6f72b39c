// SPDX-License-Identifier: Apache-2.0
// Scenarios for tests, built by hand so that no catalogue is needed.
#pragma once

#include <memory>

#include "load/scenario.h"

namespace plimsoll::sim::testing {

using load::Scenario;

inline std::shared_ptr<model::LlmShape> small_shape() {
  auto shape = std::make_shared<model::LlmShape>();
  shape->id = "llama-2-7b";
  shape->family = "llama";
  shape->layers = 32;
  shape->hidden = 4096;
  shape->heads = 32;
  shape->kv_heads = 32;
  shape->head_dim = 128;
  shape->intermediate = 11008;
  shape->vocab = 32000;
  shape->max_position = 4096;
  return shape;
}

inline std::shared_ptr<model::Accelerator> datasheet_a100() {
  auto a = std::make_shared<model::Accelerator>();
  a->id = "a100-sxm-80gb";
  a->fp16 = a->bf16 = FlopsPerSecond(312e12);
  a->memory = a->memory_visible = Bytes(85.9e9);
  a->memory_bandwidth = BytesPerSecond(2039e9);
  a->last_level_cache = Bytes(41943040);
  a->host_link = BytesPerSecond(32e9);
  for (model::OpCoefficients& c : a->coefficients) {
    c.compute_efficiency = 0.7;
    c.memory_efficiency = 0.8;
    c.p = 2.5;
    c.t0 = Seconds(4e-6);
  }
  a->kernel_gap = Seconds(1e-6);
  return a;
}

inline std::shared_ptr<model::EngineProfile> test_engine() {
  auto e = std::make_shared<model::EngineProfile>();
  e->id = "test";
  e->host_step = Seconds(1e-3);
  e->host_layer = Seconds(1e-4);
  e->host_sequence = Seconds(2e-5);
  e->overlap = model::HostOverlap::p_norm;
  e->overlap_exponent = 3;
  return e;
}

/// An engine with everything that a profile may add: a block per head, output that waits for the device, a front end.
inline std::shared_ptr<model::EngineProfile> python_engine() {
  auto e = std::make_shared<model::EngineProfile>(*test_engine());
  e->host_layer = Seconds(0);
  e->host_op = Seconds(3e-5);
  e->serial_output = true;
  e->attention_stream = BytesPerSecond(5e9);
  e->front_end = Seconds(0.0171);
  return e;
}

/// Returns the engine of queueing theory: service time = prefill + output x decode.
inline std::shared_ptr<model::EngineProfile> constant_engine(double prefill_s, double decode_s) {
  auto e = std::make_shared<model::EngineProfile>();
  e->id = "constant";
  e->constant = model::ConstantCost{Seconds(prefill_s), Seconds(decode_s), {}};
  return e;
}

inline load::Scenario base_scenario() {
  load::Scenario s;
  s.shape = small_shape();
  s.accelerator = datasheet_a100();
  s.engine = test_engine();
  s.kv = {.blocks = 7000, .block_tokens = 16, .prefix_caching = false};
  s.policy.policy = sched::PolicyKind::vllm_v1;
  s.policy.model_max_len = 4096;
  s.workload.load = load::Poisson{4};
  s.workload.lengths = load::IndependentLengths{load::FixedLength{256}, load::FixedLength{256}};
  s.workload.requests = 200;
  s.workload.seed = 7;
  return s;
}

}  // namespace plimsoll::sim::testing
