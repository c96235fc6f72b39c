// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/plan_question.h"

#include <QCoreApplication>
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "gui/core/metrics.h"
#include "gui/core/slo_answer.h"
#include "gui/core/slo_form.h"
#include "gui/core/text.h"
#include "model/error.h"
#include "study/file/cell.h"

namespace plimsoll::gui {
namespace {

constexpr const char *kTp = "deployment.tp", *kReplicas = "deployment.replicas", *kBatch = "scheduler.max_running",
                     *kHardware = "hardware";

QString tr(const char* text) { return QCoreApplication::translate("plimsoll::gui::PlanQuestion", text); }

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

// If the load is swept, asks which deployment of one instance carries the most load: a larger fleet could always carry
// more. Otherwise asks which deployment carries the load at the lowest cost.
PlanQuestion searched(const Scenario& scenario) {
  const bool capacity = load_field(scenario).values.contains(QChar(u','));
  std::string tp = swept(scenario, kTp), replicas = swept(scenario, kReplicas), batch = swept(scenario, kBatch);
  const std::string instances = swept(scenario, kHardware);
  if (tp.empty()) tp = "1, 2, 4, 8";
  if (batch.empty()) batch = batch_limits(scenario);
  std::string placing = "replicas: [" + replicas + "]";
  if (replicas.empty() && capacity)
    placing = "replicas_per_instance: [" + (replicas = "1, 2, 4, 8") + "], instance_count: [1]";
  else if (replicas.empty())
    placing = "replicas: [" + (replicas = "1, 2, 3, 4, 6, 8, 12, 16, 24, 32") + "]";
  PlanQuestion out;
  out.search = "{objective: " + std::string(capacity ? "capacity" : "cost") + ", tp: [" + tp + "], " + placing +
               ", max_running: [" + batch + "]" + (instances.empty() ? "" : ", instances: [" + instances + "]") + "}";
  const QString on = instances.empty() ? field_value(scenario, kHardware).text : qs(instances);
  out.words = (capacity ? tr("the largest load on one %1") : tr("the least cost on %1")).arg(on) +
              QStringLiteral("\n") +
              tr("among TP %1 × replicas %2 × batch limit %3").arg(qs(tp), qs(replicas), qs(batch));
  return out;
}

}  // namespace

PlanQuestion plan_question(const Scenario& scenario, const ViewState& view) {
  const std::string slo = utf8(field_value(scenario, "slo").text), search = utf8(field_value(scenario, "search").text);
  const std::vector<SloRow> rows = slo_rows(scenario, view);
  if (rows.empty() && slo.empty())
    throw InputError("state an SLO: a limit in the form, or the SLO line of a latency in Curves");
  PlanQuestion out = searched(scenario);
  if (!search.empty()) out.words = qs(out.search = search);
  // An SLO that has no rows is invalid; reading the study reports why.
  out.slo = rows.empty() ? slo : slo_yaml(rows, view.margin);
  QStringList limits;
  for (const SloRow& row : rows) limits << slo_row_words(row, view.margin);
  out.words = tr("Asks for %1").arg(out.words) + QStringLiteral("\n") +
              tr("within %1").arg(limits.isEmpty() ? qs(slo) : limits.join(QStringLiteral(", ")));
  if (view.margin > 0) out.words += tr(", %1 % below the limits").arg(reader_text(100 * view.margin, 3));
  return out;
}

std::string derived_search(const Scenario& scenario) { return searched(scenario).search; }

Scenario plan_scenario(const Scenario& scenario, const ViewState& view) {
  const PlanQuestion question = plan_question(scenario, view);
  Scenario planned = scenario;
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
    if (std::find(kSearched.begin(), kSearched.end(), path) == kSearched.end()) key += '\n' + path + '=' + yaml;
  }
  return key;
}

}  // namespace plimsoll::gui
