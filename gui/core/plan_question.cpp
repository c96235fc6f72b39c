// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/plan_question.h"

#include <algorithm>
#include <array>
#include <vector>

#include "gui/core/metrics.h"
#include "gui/core/plan_form.h"
#include "gui/core/pool_form.h"
#include "gui/core/slo_answer.h"
#include "gui/core/slo_form.h"
#include "gui/core/text.h"
#include "model/error.h"
#include "study/file/cell.h"

namespace plimsoll::gui {
namespace {

constexpr const char *kTp = "deployment.tp", *kReplicas = "deployment.replicas", *kBatch = "scheduler.max_running",
                     *kHardware = "hardware";

std::string swept(const Scenario& scenario, const char* path) {
  const FieldValue value = field_value(scenario, path);
  return value.swept ? utf8(value.text) : std::string();
}

// Returns the usual batch limits and the scenario's own.
std::string batch_limits(const Scenario& scenario) {
  std::vector<long long> limits = {16, 32, 64, 128, 256};
  bool number = false;
  const long long stated = field_value(scenario, kBatch).text.toLongLong(&number);
  if (number && stated > 0 && std::find(limits.begin(), limits.end(), stated) == limits.end()) limits.push_back(stated);
  std::sort(limits.begin(), limits.end());
  std::string list;
  for (const long long limit : limits) list += (list.empty() ? "" : ", ") + std::to_string(limit);
  return list;
}

constexpr const char* kCapacity = "capacity";

std::string objective_of(const std::string& search) {
  try {
    return read_plan_form(search).objective;
  } catch (const InputError&) {  // reading the study reports what is wrong
    return {};
  }
}

bool sweeps_load(const Scenario& scenario) { return load_field(scenario).values.contains(QChar(u',')); }

// Returns the load that a deployment must carry: the largest that the scenario states. Empty if the search looks for
// the load itself, or if one number does not describe the load.
QString planned_load(const Scenario& scenario, const std::string& objective) {
  if (objective == kCapacity) return {};
  QString most;
  for (const QString& text : load_field(scenario).values.split(QChar(u','), Qt::SkipEmptyParts)) {
    const QString value = text.trimmed();
    if (most.isEmpty() || value.toDouble() > most.toDouble()) most = value;
  }
  return most;
}

QString planned_load_words(const Scenario& scenario, const std::string& objective) {
  const QString load = planned_load(scenario, objective);
  if (load.isEmpty()) return {};
  study::PointLabels labels;
  labels.load_kind = utf8(load_field(scenario).kind);
  labels.load_value = load.toDouble();
  const QString words = load_text(labels);
  return sweeps_load(scenario) ? tr("for %1, the largest of the loads").arg(words) : tr("for %1").arg(words);
}

// If the load is swept, the question is which deployment carries most of it, else which one carries it at least cost.
std::string usual_objective(const Scenario& scenario) { return sweeps_load(scenario) ? kCapacity : "cost"; }

// Searches one instance for the largest load: a larger fleet could always carry more.
std::string searched(const Scenario& scenario, const std::string& objective) {
  const bool capacity = objective == kCapacity;
  std::string tp = swept(scenario, kTp), replicas = swept(scenario, kReplicas), batch = swept(scenario, kBatch);
  const std::string instances = swept(scenario, kHardware);
  if (tp.empty()) tp = "1, 2, 4, 8";
  if (batch.empty()) batch = batch_limits(scenario);
  std::string placing = "replicas: [" + replicas + "]";
  if (replicas.empty() && capacity)
    placing = "replicas_per_instance: [1, 2, 4, 8], instance_count: [1]";
  else if (replicas.empty())
    placing = "replicas: [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]";
  return "{objective: " + objective + ", tp: [" + tp + "], " + placing + ", max_running: [" + batch + "]" +
         (instances.empty() ? "" : ", instances: [" + instances + "]") + "}";
}

// With pools, the planner divides the replicas and finds the degree of each pool (docs/plan.md). The capacity is that
// of as many replicas as the scenario has.
std::string searched_pools(const Scenario& scenario, const std::string& objective) {
  const bool capacity = objective == kCapacity;
  const auto degrees = [&](const char* path) {
    const std::string stated = swept(scenario, path);
    return stated.empty() ? std::string("1, 2, 4, 8") : stated;
  };
  const std::string prefill = degrees("deployment.pools.prefill.tp"), decode = degrees("deployment.pools.decode.tp");
  const std::string instances = swept(scenario, kHardware), totals = "2, 3, 4, 6, 8, 12, 16";
  return "{objective: " + objective + ", split: auto" + (capacity ? "" : ", replicas: [" + totals + "]") +
         ", prefill.tp: [" + prefill + "], decode.tp: [" + decode + "]" +
         (instances.empty() ? "" : ", instances: [" + instances + "]") + "}";
}

QString objective_words(const std::string& objective) {
  if (objective == kCapacity) return tr("the largest load");
  if (objective == "cost") return tr("the least cost");
  if (objective == "cost_per_token") return tr("the least cost per token");
  if (objective == "gpus") return tr("the fewest GPUs");
  if (objective == "latency") return tr("the lowest latency");
  return objective == "throughput" ? tr("the highest throughput") : qs(objective);
}

QString key_words(const std::string& key) {
  if (key == "tp") return tr("TP");
  if (key == "replicas") return tr("replicas");
  if (key == "replicas_per_instance") return tr("replicas per instance");
  if (key == "instance_count") return tr("instances");
  if (key == "max_running") return tr("batch limit");
  return qs(key);
}

// Returns what a search asks for, for which load, and among what.
QString search_words(const Scenario& scenario, const PlanForm& form) {
  const std::vector<std::string>& stated = form.list("instances");
  QStringList machines, among;
  for (const std::string& name : stated) machines << qs(name);
  if (machines.isEmpty()) machines << field_value(scenario, kHardware).text;
  const QString load = planned_load_words(scenario, form.objective);
  const bool one = form.list("instance_count") == std::vector<std::string>{"1"};
  QString text = (states_pools(scenario) ? tr("%1 in two pools on %2")
                  : one                  ? tr("%1 on one %2")
                                         : tr("%1 on %2"))
                     .arg(objective_words(form.objective), machines.join(QStringLiteral(", ")));
  if (!load.isEmpty()) text += QStringLiteral("\n") + load;
  for (const char* const key :
       {"tp", "replicas", "replicas_per_instance", "instance_count", "max_running", "dtype", "policies"}) {
    QStringList words;
    for (const std::string& value : form.list(key)) words << qs(value);
    if (!words.isEmpty() && !(one && std::string_view(key) == "instance_count"))
      among << QStringLiteral("%1 %2").arg(key_words(key), words.join(QStringLiteral(", ")));
  }
  for (const auto& [key, value] : form.other) among << qs(key + " " + value);
  if (!form.max_usd_per_hour.empty()) among << tr("at most %1 USD/h").arg(qs(form.max_usd_per_hour));
  if (!form.max_gpus.empty()) among << tr("at most %1 GPUs").arg(qs(form.max_gpus));
  if (!among.isEmpty()) text += QStringLiteral("\n") + tr("among %1").arg(among.join(QStringLiteral(" × ")));
  return text;
}

}  // namespace

std::string derived_search(const Scenario& scenario, const std::string& objective) {
  const std::string wanted = objective.empty() ? usual_objective(scenario) : objective;
  return states_pools(scenario) ? searched_pools(scenario, wanted) : searched(scenario, wanted);
}

PlanQuestion plan_question(const Scenario& scenario, const ViewState& view) {
  const std::string slo = utf8(field_value(scenario, "slo").text), search = utf8(field_value(scenario, "search").text);
  const std::vector<SloRow> rows = slo_rows(scenario, view);
  if (rows.empty() && slo.empty())
    throw InputError("state an SLO: a limit in the form, or the SLO line of a latency in Curves");
  PlanQuestion out;
  out.search = search.empty() ? derived_search(scenario) : search;
  try {
    out.words = search_words(scenario, read_plan_form(out.search));
  } catch (const InputError&) {  // reading the study reports what is wrong
    out.words = qs(out.search);
  }
  // An SLO that has no rows is invalid; reading the study reports why.
  out.slo = rows.empty() ? slo : slo_yaml(rows, view.margin);
  QStringList limits;
  for (const SloRow& row : rows) limits << slo_row_words(row, view.margin);
  out.words = tr("Asks for %1").arg(out.words) + QStringLiteral("\n") +
              tr("within %1").arg(limits.isEmpty() ? qs(slo) : limits.join(QStringLiteral(", ")));
  if (view.margin > 0) out.words += tr(", %1 % below the limits").arg(reader_text(100 * view.margin, 3));
  return out;
}

Scenario plan_scenario(const Scenario& scenario, const ViewState& view) {
  const PlanQuestion question = plan_question(scenario, view);
  Scenario planned = scenario;
  const QString load = planned_load(scenario, objective_of(question.search));
  if (sweeps_load(scenario) && !load.isEmpty()) set_load(planned, load_field(scenario).kind, load);
  std::erase_if(planned.edits, [](const auto& edit) {
    return edit.first.starts_with("sweep") || edit.first == "slo" || edit.first.starts_with("slo.");
  });
  set_edit(planned, "slo", question.slo);
  if (field_value(scenario, "search").text.isEmpty()) set_edit(planned, "search", question.search);
  planned.edits.insert(planned.edits.begin(), {"sweep", "{}"});
  return planned;
}

void show_slo(const sched::Slo& slo, ViewState& view) {
  const sched::Slo::Bound* shown = nullptr;
  for (const sched::Slo::Bound& bound : slo.bounds) {
    const std::string column = column_of(bound);
    if (find_metric(column) != nullptr && (shown == nullptr || column == view.y)) shown = &bound;
  }
  if (shown == nullptr) return;
  view.y = column_of(*shown);
  view.limit = shown->limit * find_metric(view.y)->scale;
}

std::string question_key(const Scenario& scenario, const ViewState& view) {
  // Applying a found deployment edits these fields, but the question stays the same, so its key omits them.
  constexpr std::array<std::string_view, 4> kSearched = {kTp, kReplicas, kBatch, "deployment.instances"};
  const Scenario planned = plan_scenario(scenario, view);
  std::string key = planned.file + '\n' + planned.document.dump();
  for (const auto& [path, yaml] : planned.edits) {
    const bool found =
        path.starts_with("deployment.pools.") || std::find(kSearched.begin(), kSearched.end(), path) != kSearched.end();
    if (!found) key += '\n' + path + '=' + yaml;
  }
  return key;
}

}  // namespace plimsoll::gui
