// SPDX-License-Identifier: Apache-2.0
// The memory use of the deployments in a study, and the two formulas of the JumpStart post.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/file/study.h"
#include "study/run/resolve.h"

namespace plimsoll::study {

/// One deployment, shared by points that differ only in their workload.
struct MemoryRow {
  std::vector<Cell> swept;
  std::string pool;  // "prefill" or "decode"; empty: no point has pools; "one": only others have
  PointSpec spec;
  std::optional<model::MemoryPlan> plan;  // none: the TP degree is impossible
  std::int64_t kv_blocks = 0;             // with the study's own kv_blocks applied
  std::int64_t longest = 0;               // tokens of the longest sequence, which the formulas assume
  std::int64_t max_kv_batch = 0;          // 0 without a plan
  std::int64_t critical_batch = 0;        // 0: the accelerator does not support this type
  double attention_intensity = 0;
  std::optional<Impossible> impossible;
};

struct MemoryTable {
  std::vector<std::string> swept_keys;  // without keys of the workload
  std::vector<MemoryRow> rows;
};

/// Returns the memory plan of every point. Throws InputError for a study without a model or hardware.
[[nodiscard]] MemoryTable memory_table(const Study& study);

/// The swept keys, then max_kv_batch, critical_batch, attention_intensity, weights_bytes, activation_bytes,
/// overhead_bytes, kv_bytes, kv_blocks, kv_tokens, budget_bytes, longest_tokens, sequences of that length that fit the
/// pool, and infeasible: why the deployment is impossible. Then `pool`, if a study has pools for prefill and decode:
/// each has a row of its own. Unknown values are blank.
[[nodiscard]] std::vector<std::string> memory_columns(const MemoryTable& table);
[[nodiscard]] std::vector<Cell> memory_cells(const MemoryRow& row);
/// Formats a breakdown for the terminal.
[[nodiscard]] std::string memory_text(const std::string& title, const MemoryTable& table);
/// Formats the same as an HTML page, with its assumptions.
[[nodiscard]] std::string memory_html(const std::string& title, const MemoryTable& table);

}  // namespace plimsoll::study
