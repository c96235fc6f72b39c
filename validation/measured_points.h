// SPDX-License-Identifier: Apache-2.0
// Measured or published points as CSV (docs/metrics.md, "Measured points"), to compare predictions with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/error.h"
#include "study/exchange/import_results.h"

namespace plimsoll::validation {

/// One row; blank figures were not measured. Times in seconds.
struct MeasuredPoint {
  std::string model, hardware, engine, dtype, kv_dtype, policy, load_kind, source;
  std::int32_t tp = 1, replicas = 1;
  std::int64_t input_tokens = 0, output_tokens = 0, requests = 0;
  std::int64_t max_running = 0,
               step_token_budget = 0;  // the server's limits of sequences and of tokens a step; 0: its engine's
  double load_value = 0;
  double length_cv = 0;     // spread of the output lengths; 0: all equal
  double turnaround_s = 0;  // closed loop: from an answer to the client's next request
  double uniform_from = 0;  // lengths are uniform from this share of input_tokens and output_tokens up to them; 0: no
  std::optional<double> output_tokens_per_s, latency_per_token_p90_s, latency_p90_s, latency_mean_s, ttft_mean_s,
      tpot_mean_s;
  double arrival_cv = 0;               // spread of a gamma load's gaps; 0: not stated
  std::optional<bool> prefix_caching;  // absent: the engine's default
  std::string front_end;               // as in a study; empty: none
  std::string unusable;                // why it cannot be simulated; empty: nothing is known against it
  bool imported = false;  // of a user: a point that cannot be simulated has no prediction, which is no error
  Where where;
};

/// Mean tokens of an answer, and shortest lengths, of a row's uniform or equal lengths.
[[nodiscard]] double mean_output(const MeasuredPoint& point);
[[nodiscard]] std::int64_t shortest(std::int64_t tokens, const MeasuredPoint& point);

/// Why a point cannot be simulated: a missing label, or a load that a row does not describe completely. Empty:
/// nothing is known against it.
[[nodiscard]] std::string problem_of(const MeasuredPoint& point);

struct MeasuredTable {
  std::string name;  // the file's stem
  std::vector<MeasuredPoint> points;
};

/// Reads a CSV with the columns above in any order, or the points.csv of a run or an import, whose lengths are rounded;
/// lines that begin with # are remarks. Throws InputError with
/// file:line:column.
[[nodiscard]] MeasuredTable read_measured(const std::string& file);

/// Reads runs of any tool: a table that read_measured() knows, or anything that `plimsoll import` does, with its labels
/// and column maps; `notes` says what was converted or left out. Rows count as a user's. Throws InputError.
[[nodiscard]] MeasuredTable read_runs(const std::string& file, const study::ImportLabels& labels,
                                      const std::vector<std::string>& maps, std::vector<std::string>& notes);

/// The folder of the published tables that ship with the program. Throws InputError when it is not found.
[[nodiscard]] std::string published_folder();
/// Whether a file is one of the published tables, and not one of the same name elsewhere.
[[nodiscard]] bool is_published(const std::string& file);
/// The tables of the JumpStart post.
[[nodiscard]] std::vector<MeasuredTable> jumpstart_tables();

}  // namespace plimsoll::validation
