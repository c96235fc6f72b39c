// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/field_defaults.h"

#include "gui/core/pool_form.h"
#include "gui/core/text.h"
#include "study/file/cell.h"
#include "study/run/resolve.h"

namespace plimsoll::gui {
namespace {

void add_scheduler(const study::PointSpec& point, FieldDefaults& out) {
  const sched::PolicyConfig& policy = point.policy;
  const QString engine = point.engine ? qs(point.engine->id) : QString();
  out["scheduler.policy"] = {qs(sched::name(policy.policy)), engine, {}};
  const std::int64_t batch = sched::resolve_limits(policy, study::longest_sequence(point)).max_running;
  // If no limit is stated, only memory and the prefill budget limit the batch.
  out["scheduler.max_running"] = {batch == sched::kForever ? tr("none") : QString::number(batch),
                                  policy.max_running ? engine : qs(sched::name(policy.policy)),
                                  {}};
  if (policy.prefix_caching)
    out["scheduler.prefix_caching"] = {*policy.prefix_caching ? tr("true") : tr("false"), engine, {}};
  if (policy.step_token_budget)
    out["scheduler.step_token_budget"] = {QString::number(*policy.step_token_budget), engine, {}};
  if (policy.mem_fraction)
    out["scheduler.mem_fraction"] = {qs(study::number_text(*policy.mem_fraction)), engine, {}};
  else if (point.engine && !point.free_memory_fraction)
    out["scheduler.mem_fraction"] = {qs(study::number_text(point.engine->memory_fraction)), engine, {}};
}

// Marks values that change when the settings that the form does not show are removed.
void mark_derived(const Scenario& scenario, const std::shared_ptr<const configs::Catalogue>& catalogue,
                  FieldDefaults& out) {
  if (catalogue == nullptr || hidden_settings(scenario).empty()) return;
  FieldDefaults without;
  try {
    Scenario bare = scenario;
    for (const HiddenSetting& hidden : hidden_settings(scenario))
      keep_settings(bare, [&](const std::string& key) { return key != hidden.key; });
    add_scheduler(make_study(bare, catalogue).point(0), without);
  } catch (const std::exception&) {
    return;  // the study is invalid without these settings
  }
  for (auto& [path, value] : out) {
    const auto found = without.find(path);
    value.derived = path.starts_with("scheduler.") && (found == without.end() || found->second.value != value.value);
  }
}

}  // namespace

QString default_text(const FieldDefault& value) {
  if (!value.spelling.isEmpty()) return tr("%1 (stated as %2)").arg(value.value, value.spelling);
  if (value.derived) return tr("%1 (from other settings of the study)").arg(value.value);
  return value.origin.isEmpty() ? tr("%1 (default)").arg(value.value)
                                : tr("%1 (default of %2)").arg(value.value, value.origin);
}

FieldDefaults field_defaults(const Scenario& scenario, const study::PointSpec& point,
                             const std::shared_ptr<const configs::Catalogue>& catalogue) {
  FieldDefaults out;
  add_scheduler(point, out);
  mark_derived(scenario, catalogue, out);
  out["deployment.tp"] = {QString::number(point.deployment.tp), {}, {}};
  out["deployment.replicas"] = {QString::number(point.deployment.replicas), {}, {}};
  out["deployment.router"] = {qs(sched::name(point.deployment.router)), {}, {}};
  if (point.prefill) add_pool_defaults(point, out);
  out["replications"] = {QString::number(point.replications), {}, {}};
  out["seed"] = {QString::number(point.workload.seed), {}, {}};
  out["deployment.pp"] = {QString::number(point.deployment.pp), {}, {}};
  out["limits.timeout"] = {tr("none"), {}, {}};
  out["kv_dtype"] = {qs(model::name(point.kv_dtype)), {}, {}};
  out["dtype"] = {qs(model::name(point.weight_dtype)), {}, {}};
  if (std::holds_alternative<load::JumpStart>(point.workload.load))
    out["workload.requests"] = {tr("3 a client"), {}, {}};
  else if (point.workload.requests > 0)
    out["workload.requests"] = {QString::number(point.workload.requests), {}, {}};
  if (point.engine) out["engine"] = {qs(point.engine->id), {}, {}};
  out["engine_front_end"] = {qs(model::kFrontEndNames.at(static_cast<std::size_t>(point.front_end))), {}, {}};
  for (const auto& [path, spelling] : other_spellings(scenario)) {
    if (const auto found = out.find(path); found != out.end()) found->second.spelling = qs(spelling);
  }
  // A field with a stated value has no default to show.
  std::erase_if(out, [&](const auto& entry) { return !field_value(scenario, entry.first).text.isEmpty(); });
  return out;
}

}  // namespace plimsoll::gui
