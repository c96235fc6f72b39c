// SPDX-License-Identifier: Apache-2.0
// Measures single ops on an executor, in the quantities that the cost model is fitted to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calibration/sample_store.h"
#include "exec/engine.h"
#include "model/op_list.h"
#include "study/run/run_control.h"

namespace plimsoll::calibration {

/// A forward of the grid: sequences that prefill `new_tokens` after `context` cached tokens, and sequences that decode
/// after `context` cached tokens.
struct GridForward {
  struct Rows {
    std::int64_t sequences = 0, new_tokens = 0, context = 0;
  };
  std::vector<Rows> prefill, decode;
};

/// A whole forward that the fit does not use, and its time without tracing.
struct ForwardSample {
  GridForward forward;
  double seconds = 0;  // median
};

struct BenchmarkSettings {
  std::int64_t most_rows = 512;      // per forward
  std::int64_t most_context = 2048;  // per sequence
  double seconds = 20;               // approximate time to spend; more time gives more repetitions
  bool coarse = false;               // use a fifth of the grid and of the held-out forwards
  study::RunControl* control = nullptr;
  std::function<void(double fraction, bool recalled)> progress = {};
  SampleStore* store = nullptr;  // samples of an interrupted run; may be null
  std::string key = {};          // prefix of this engine's samples in the store
};

/// Returns the grid to measure: decode over batch size and context, prefill over chunk size and cached context.
[[nodiscard]] std::vector<GridForward> benchmark_grid(const BenchmarkSettings& settings, std::int64_t kv_tokens);
/// Returns mixed forwards that are not grid points, drawn from a fixed seed. They are never used in a fit.
[[nodiscard]] std::vector<GridForward> held_out_forwards(const BenchmarkSettings& settings, std::int64_t kv_tokens);

/// Measures the grid's ops on an engine that traces (after engine.trace_ops()). Returns one entry per distinct op and
/// shape: the median over the medians of its forwards.
[[nodiscard]] std::vector<OpSample> measure_ops(exec::Engine& engine, const std::vector<GridForward>& grid,
                                                const BenchmarkSettings& settings);
/// Measures whole forwards on an engine that does not trace.
[[nodiscard]] std::vector<ForwardSample> measure_forwards(exec::Engine& engine,
                                                          const std::vector<GridForward>& forwards,
                                                          const BenchmarkSettings& settings);

}  // namespace plimsoll::calibration
