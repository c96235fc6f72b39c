// SPDX-License-Identifier: Apache-2.0
// The memory of the deployments that a study describes, and the two formulas of the JumpStart post.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "study/file/study.h"
#include "study/run/resolve.h"

namespace plimsoll::study {

/// One deployment: points that differ in their workload alone share it.
struct MemoryRow {
  std::vector<Cell> swept;
  PointSpec spec;
  std::optional<model::MemoryPlan> plan;  // none: the TP degree cannot exist
  std::int64_t kv_blocks = 0;             // after the study's own kv_blocks
  std::int64_t longest = 0;               // tokens of the sequence that the formulas assume
  std::int64_t max_kv_batch = 0;          // 0 without a plan
  std::int64_t critical_batch = 0;        // 0: the accelerator does not compute in this type
  double attention_intensity = 0;
  std::optional<Impossible> impossible;
};

struct MemoryTable {
  std::vector<std::string> swept_keys;  // those that are not the workload's
  std::vector<MemoryRow> rows;
};

/// Throws InputError for a study that names no model or no hardware.
[[nodiscard]] MemoryTable memory_table(const Study& study);

/// Swept keys, then max_kv_batch, critical_batch, attention_intensity, weights_bytes, activation_bytes, overhead_bytes,
/// kv_bytes, kv_blocks, kv_tokens, budget_bytes, longest_tokens, sequences of that length that the pool holds,
/// infeasible: why the deployment cannot exist. Unknown values are blank.
[[nodiscard]] std::vector<std::string> memory_columns(const MemoryTable& table);
[[nodiscard]] std::vector<Cell> memory_cells(const MemoryRow& row);
/// A breakdown for the terminal.
[[nodiscard]] std::string memory_text(const std::string& title, const MemoryTable& table);
/// The same as an HTML page, with its assumptions.
[[nodiscard]] std::string memory_html(const std::string& title, const MemoryTable& table);

}  // namespace plimsoll::study
