// SPDX-License-Identifier: Apache-2.0
// Reads measured or published points from CSV (docs/metrics.md, "Measured points"), to compare predictions with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/error.h"
#include "study/exchange/import_results.h"

namespace plimsoll::validation {

/// One row; figures that were not measured are empty. Times in seconds.
struct MeasuredPoint {
  std::string model, hardware, engine, dtype, kv_dtype, policy, load_kind, source;
  std::int32_t tp = 1, replicas = 1, ep = 1;
  std::int32_t scheduler_recv_interval = 0;  // of SGLang's scheduler; 0: not stated
  std::int64_t input_tokens = 0, output_tokens = 0, requests = 0;
  std::int64_t max_running = 0,
               step_token_budget = 0;  // the server's limits on sequences and tokens per step; 0 for its engine's
  double load_value = 0;
  double length_cv = 0;     // spread of the output lengths; 0 if all are equal
  double turnaround_s = 0;  // closed loop: time from an answer to the client's next request
  double uniform_from = 0;  // > 0: lengths are uniform from this fraction of input_tokens and output_tokens up
  std::optional<double> output_tokens_per_s, latency_per_token_p90_s, latency_p90_s, latency_mean_s, ttft_mean_s,
      tpot_mean_s;
  double arrival_cv = 0;               // spread of a gamma load's gaps; 0 if not stated
  std::optional<bool> prefix_caching;  // if empty, the engine's default
  std::string front_end;               // as in a study; empty if none
  // How prompts wait beside decodes in trtllm's scheduler; 0 if they do not.
  std::int64_t batch_wait_timeout_iters = 0;
  double batch_wait_max_tokens_ratio = 0;
  std::string unusable;   // why it cannot be simulated; empty if no reason is known
  bool imported = false;  // the user's own point: if it cannot be simulated, it gets a reason, not an error
  Where where;
};

/// For equal or uniform lengths: return the mean tokens of an answer, and the shortest length if `tokens` is the
/// longest.
[[nodiscard]] double mean_output(const MeasuredPoint& point);
[[nodiscard]] std::int64_t shortest(std::int64_t tokens, const MeasuredPoint& point);

/// Returns why a point cannot be simulated: a missing label, or a load that the row does not describe completely. Empty
/// if no reason is known.
[[nodiscard]] std::string problem_of(const MeasuredPoint& point);

struct MeasuredTable {
  std::string name;  // the file name without its ending
  std::vector<MeasuredPoint> points;
};

/// Reads a CSV with the columns above in any order, or the points.csv of a run or an import, whose lengths are rounded.
/// Lines that begin with # are comments. Throws InputError with file:line:column.
[[nodiscard]] MeasuredTable read_measured(const std::string& file);

/// Reads runs of any tool: a table for read_measured(), or any file that `plimsoll import` reads with these labels and
/// column maps. `notes` lists what was converted or left out. Rows count as a user's own. Throws InputError.
[[nodiscard]] MeasuredTable read_runs(const std::string& file, const study::ImportLabels& labels,
                                      const std::vector<std::string>& maps, std::vector<std::string>& notes);

/// Returns the folder of the published tables that ship with the program. Throws InputError if it is not found.
[[nodiscard]] std::string published_folder();
/// Returns whether the file is one of the published tables, and not merely one with the same name.
[[nodiscard]] bool is_published(const std::string& file);
/// Returns the tables of the JumpStart post.
[[nodiscard]] std::vector<MeasuredTable> jumpstart_tables();

}  // namespace plimsoll::validation
