// SPDX-License-Identifier: Apache-2.0
// Times of single ops as measured on an executor, in the terms that the cost model is fitted in.
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

/// A forward of the grid: sequences that prefill `new_tokens` on `context`, and sequences that decode on `context`.
struct GridForward {
  struct Rows {
    std::int64_t sequences = 0, new_tokens = 0, context = 0;
  };
  std::vector<Rows> prefill, decode;
};

/// A whole forward, as held out from the fit: what it was and how long it took without tracing.
struct ForwardSample {
  GridForward forward;
  double seconds = 0;  // median
};

struct BenchmarkSettings {
  std::int64_t most_rows = 512;      // of one forward
  std::int64_t most_context = 2048;  // of one sequence
  double seconds = 20;               // to spend, roughly; more repeats with more time
  bool coarse = false;               // a fifth of the grid and of the held-out forwards, for demonstrations
  study::RunControl* control = nullptr;
  std::function<void(double fraction, bool recalled)> progress = {};
  SampleStore* store = nullptr;  // what was measured before the interruption; may be null
  std::string key = {};          // of this engine's samples in the store
};

/// The grid that is measured: decode over batch and context, prefill over chunk and past.
[[nodiscard]] std::vector<GridForward> benchmark_grid(const BenchmarkSettings& settings, std::int64_t kv_tokens);
/// Mixed forwards that are no grid points, drawn from a seed: never used in a fit.
[[nodiscard]] std::vector<GridForward> held_out_forwards(const BenchmarkSettings& settings, std::int64_t kv_tokens);

/// Measures the grid's ops on an engine that traces (engine.trace_ops() was called). One entry for each distinct op and
/// shape: the median of the medians of its forwards.
[[nodiscard]] std::vector<OpSample> measure_ops(exec::Engine& engine, const std::vector<GridForward>& grid,
                                                const BenchmarkSettings& settings);
/// Measures whole forwards on an engine that does not trace.
[[nodiscard]] std::vector<ForwardSample> measure_forwards(exec::Engine& engine,
                                                          const std::vector<GridForward>& forwards,
                                                          const BenchmarkSettings& settings);

}  // namespace plimsoll::calibration
