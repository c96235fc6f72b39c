// SPDX-License-Identifier: Apache-2.0
#include "study/output/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "study/output/html_page.h"
#include "study/output/points_page.h"
#include "study/output/table_view.h"

namespace plimsoll::study {
namespace {

bool varies_memory(const std::string& key) {
  return !key.starts_with("workload.") && !key.starts_with("limits.") && key != "seed" && key != "replications";
}

MemoryRow row_of(PointSpec spec) {
  if (!spec.shape || !spec.hardware.accelerator) {
    throw InputError(spec.places.study, "memory needs a study that states model and hardware");
  }
  MemoryRow row;
  if (spec.deployment.tp_is_max) spec.deployment.tp = spec.hardware.count;
  const ResolvedPoint resolved = resolve_spec(spec);
  row.impossible = resolved.impossible;
  row.longest = longest_sequence(spec);
  row.critical_batch = model::jumpstart_critical_batch(*spec.hardware.accelerator, spec.weight_dtype);
  row.attention_intensity = model::attention_intensity(row.longest, spec.shape->head_dim);
  if (model::tp_problem(*spec.shape, spec.deployment.tp).empty() && spec.deployment.pp <= spec.shape->layers) {
    const Bytes memory = spec.hardware.accelerator->memory * spec.deployment.tp;
    row.max_kv_batch = model::jumpstart_max_kv_batch(*spec.shape, spec.weight_dtype, memory, row.longest);
    row.plan = point_memory(spec);
    row.kv_blocks = resolved.scenario ? resolved.scenario->kv.blocks : row.plan->kv_blocks;
  }
  row.spec = std::move(spec);
  return row;
}

// Returns one row, or one per pool. The decode pool's row reports if the two pools do not fit each other.
std::vector<MemoryRow> rows_of(const PointSpec& spec) {
  if (!spec.prefill) return {row_of(spec)};
  PointSpec alone = spec;
  alone.prefill.reset();
  std::vector<MemoryRow> rows{row_of(*spec.prefill), row_of(alone)};
  rows.front().pool = "prefill";
  rows.back().pool = "decode";
  if (!rows.front().impossible && !rows.back().impossible) rows.back().impossible = resolve_spec(spec).impossible;
  return rows;
}

bool has_pools(const MemoryTable& table) {
  return std::any_of(table.rows.begin(), table.rows.end(), [](const MemoryRow& row) { return !row.pool.empty(); });
}

// Returns how many sequences of the longest kind the pool holds at once.
std::int64_t sequences_of(const MemoryRow& row) {
  return row.longest > 0 ? row.kv_blocks * sched::block_tokens(row.spec.policy) / row.longest : 0;
}

std::string gigabytes_text(Bytes bytes) { return reader_number(bytes.value / 1e9, 4); }

// Returns the cells after the swept keys, as text; "-" for unknown values.
std::vector<std::string> figures_of(const MemoryRow& row) {
  constexpr std::size_t kOfPlan = 9;
  const std::string blank = "-";
  std::vector<std::string> cells(kOfPlan, blank);
  if (row.plan) {
    const std::int64_t tokens = row.kv_blocks * sched::block_tokens(row.spec.policy);
    cells = {gigabytes_text(row.plan->budget),
             gigabytes_text(row.plan->weights),
             gigabytes_text(row.plan->activation),
             gigabytes_text(row.plan->overhead),
             row.impossible ? blank : gigabytes_text(row.plan->kv),
             row.impossible ? blank : fmt::format("{}", row.kv_blocks),
             row.impossible ? blank : fmt::format("{}", tokens),
             row.impossible ? blank : fmt::format("{}", sequences_of(row)),
             fmt::format("{}", row.max_kv_batch)};
  }
  cells.push_back(row.critical_batch > 0 ? fmt::format("{}", row.critical_batch) : blank);
  cells.push_back(reader_number(row.attention_intensity, 3));
  return cells;
}

}  // namespace

MemoryTable memory_table(const Study& study) {
  MemoryTable table;
  const std::vector<std::string> keys = study.swept_keys();
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!varies_memory(keys[i])) continue;
    kept.push_back(i);
    table.swept_keys.push_back(keys[i]);
  }
  for (std::size_t index = 0; index < study.point_count(); ++index) {
    const std::vector<Cell> all = study.swept_values(index);
    std::vector<Cell> swept;
    for (const std::size_t i : kept) swept.push_back(all[i]);
    const bool seen =
        std::any_of(table.rows.begin(), table.rows.end(), [&](const MemoryRow& r) { return r.swept == swept; });
    if (seen) continue;
    for (MemoryRow& row : rows_of(study.point(index))) {
      row.swept = swept;
      table.rows.push_back(std::move(row));
    }
  }
  if (has_pools(table))
    for (MemoryRow& row : table.rows)
      if (row.pool.empty()) row.pool = "one";  // other points of the sweep have pools
  return table;
}

std::vector<std::string> memory_columns(const MemoryTable& table) {
  std::vector<std::string> columns = table.swept_keys;
  for (const char* const name :
       {"max_kv_batch", "critical_batch", "attention_intensity", "weights_bytes", "activation_bytes", "overhead_bytes",
        "kv_bytes", "kv_blocks", "kv_tokens", "budget_bytes", "longest_tokens", "sequences", "infeasible"}) {
    columns.emplace_back(name);
  }
  if (has_pools(table)) columns.emplace_back("pool");
  return columns;
}

std::vector<Cell> memory_cells(const MemoryRow& row) {
  const Cell blank;
  const bool planned = row.plan.has_value();
  std::vector<Cell> cells = row.swept;
  cells.insert(cells.end(), {planned ? Cell(row.max_kv_batch) : blank,
                             row.critical_batch > 0 ? Cell(row.critical_batch) : blank, row.attention_intensity});
  if (planned) {
    const model::MemoryPlan& plan = *row.plan;
    cells.insert(cells.end(), {plan.weights.value, plan.activation.value, plan.overhead.value, plan.kv.value,
                               row.kv_blocks, row.kv_blocks * sched::block_tokens(row.spec.policy), plan.budget.value,
                               row.longest, sequences_of(row)});
  } else {
    cells.resize(cells.size() + 9);
    cells[cells.size() - 2] = row.longest;  // a property of the model, whatever the degree
  }
  cells.push_back(row.impossible ? Cell(row.impossible->reason) : blank);
  if (!row.pool.empty()) cells.emplace_back(row.pool);
  return cells;
}

namespace {

TextTable memory_cells_table(const MemoryTable& table) {
  TextTable text{
      .header = {table.swept_keys, std::vector<std::string>(table.swept_keys.size())}, .rows = {}, .left = 0};
  for (std::string& key : text.header[0]) key = key.substr(key.rfind('.') + 1);
  constexpr std::array<std::pair<const char*, const char*>, 11> kColumns = {{{"budget", "GB"},
                                                                             {"weights", "GB"},
                                                                             {"activation", "GB"},
                                                                             {"overhead", "GB"},
                                                                             {"KV pool", "GB"},
                                                                             {"KV", "blocks"},
                                                                             {"KV", "tokens"},
                                                                             {"sequences", "of max len"},
                                                                             {"max KV batch", "(formula)"},
                                                                             {"critical", "batch"},
                                                                             {"attention", "op/byte"}}};
  const bool pools = has_pools(table);
  if (pools) {
    text.header[0].emplace_back("pool");
    text.header[1].emplace_back();
  }
  for (const auto& [name, unit] : kColumns) {
    text.header[0].emplace_back(name);
    text.header[1].emplace_back(unit);
  }
  for (const MemoryRow& row : table.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row.swept) cells.push_back(plain_text(cell));
    if (pools) cells.push_back(row.pool);
    const std::vector<std::string> figures = figures_of(row);
    cells.insert(cells.end(), figures.begin(), figures.end());
    text.rows.push_back(std::move(cells));
  }
  return text;
}

std::string constants_of(const MemoryTable& table) {
  const PointSpec& first = table.rows.front().spec;
  const PointSpec& last = table.rows.back().spec;
  if (has_pools(table) && first.hardware.label != last.hardware.label) {
    return fmt::format(
        "{} in {}, KV in {}, prefill on {} ({}), decode on {} ({}), engine {}; longest sequence {} "
        "tokens; bytes a GPU",
        first.shape->id, model::name(first.weight_dtype), model::name(first.kv_dtype), first.hardware.label,
        first.hardware.accelerator->id, last.hardware.label, last.hardware.accelerator->id, first.engine->id,
        table.rows.front().longest);
  }
  return fmt::format("{} in {}, KV in {}, on {} ({}), engine {}; longest sequence {} tokens; bytes a GPU",
                     first.shape->id, model::name(first.weight_dtype), model::name(first.kv_dtype),
                     first.hardware.label, first.hardware.accelerator->id, first.engine->id,
                     table.rows.front().longest);
}

std::vector<std::string> reasons_of(const MemoryTable& table) {
  std::vector<std::string> reasons;
  for (const MemoryRow& row : table.rows) {
    if (row.impossible) reasons.push_back(row.impossible->reason);
  }
  return reasons;
}

}  // namespace

std::string memory_text(const std::string& title, const MemoryTable& table) {
  std::string text = fmt::format("{}\n{}\n\n{}", title, constants_of(table), text_table(memory_cells_table(table)));
  // For a single point the program ends with this reason as its error, so it is not repeated here.
  if (table.rows.size() == 1) return text;
  for (const std::string& reason : reasons_of(table)) text += "  impossible: " + reason + '\n';
  return text;
}

std::string memory_html(const std::string& title, const MemoryTable& table) {
  HtmlPage page(title + ": memory");
  page.paragraph(constants_of(table)).table(memory_cells_table(table)).list(reasons_of(table));
  return page.heading("Assumptions")
      .list(assumptions_of(table.rows.front().spec, table.rows.front().spec.notes))
      .text();
}

}  // namespace plimsoll::study
