// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/pool_form.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "gui/core/text.h"
#include "load/pools.h"
#include "study/file/cell.h"
#include "study/output/deployment_flags.h"

namespace plimsoll::gui {
namespace {

using configs::Document;
using configs::Node;

bool is_deployment(std::string_view path) { return path == "deployment" || path.starts_with("deployment."); }

std::optional<Node> child(const std::optional<Node>& map, std::string_view key) {
  return map && map->is_map() ? map->find(key) : std::nullopt;
}

// Returns a whole number, or `otherwise` if there is none.
std::int64_t count_of(const std::optional<Node>& node, std::int64_t otherwise) {
  if (!node || !node->is_scalar()) return otherwise;
  const auto number = configs::parse_number(node->to_text());
  return number && *number >= 1 && *number < 1e6 ? static_cast<std::int64_t>(*number) : otherwise;
}

// The scenario with every edit applied, as far as its parts are valid YAML.
struct Whole {
  Document document;
  std::optional<Node> deployment;
  std::int64_t tp = 1;  // the first if several are swept
  explicit Whole(const Scenario& scenario)
      : document(edited_study(scenario)), deployment(child(document.root(), "deployment")) {
    bool is_number = false;
    const QString first = field_value(scenario, "deployment.tp").text.section(QChar(u','), 0, 0).trimmed();
    if (const int stated = first.toInt(&is_number); is_number && stated > 0) tp = stated;
  }
  // Returns the swept keys that do not concern the deployment, as the inside of a map.
  [[nodiscard]] std::string other_sweeps() const {
    std::string out;
    const auto sweep = child(document.root(), "sweep");
    if (!sweep || !sweep->is_map()) return out;
    for (const configs::Item& item : sweep->items())
      if (!is_deployment(item.key)) out += (out.empty() ? "" : ", ") + item.key + ": " + item.value.to_text();
    return out;
  }
};

// Replaces the whole deployment. The sweep goes first, then the load that it may sweep: see set_load.
void replace_deployment(Scenario& scenario, const std::string& deployment, const std::string& sweep) {
  const FieldValue load = field_value(scenario, "workload.load");
  const bool edited = load.edited;
  std::erase_if(scenario.edits, [](const auto& edit) {
    const std::string& path = edit.first;
    return is_deployment(path) || path == "sweep" || path.starts_with("sweep.") || path == "workload.load";
  });
  study::Overrides first = {{"sweep", "{}"}};
  if (edited) first.emplace_back("workload.load", utf8(load.text));
  first.emplace_back("sweep", "{" + sweep + "}");
  first.emplace_back("deployment", "{" + deployment + "}");
  scenario.edits.insert(scenario.edits.begin(), first.begin(), first.end());
}

std::string kept_keys(const std::optional<Node>& deployment, std::initializer_list<std::string_view> dropped) {
  std::string out;
  if (!deployment || !deployment->is_map()) return out;
  for (const configs::Item& item : deployment->items()) {
    if (std::find(dropped.begin(), dropped.end(), item.key) != dropped.end()) continue;
    out += item.key + ": " + item.value.to_text() + ", ";
  }
  return out;
}

void split(Scenario& scenario) {
  const Whole whole(scenario);
  const std::int64_t tp = whole.tp, replicas = count_of(child(whole.deployment, "replicas"), 1);
  const auto pool = [&](std::int64_t count) {
    return "{replicas: " + std::to_string(count) + ", tp: " + std::to_string(tp) + "}";
  };
  replace_deployment(scenario,
                     kept_keys(whole.deployment, {"tp", "replicas", "instances", "autoscaling"}) +
                         "pools: {prefill: " + pool(1) + ", decode: " + pool(replicas) + "}",
                     whole.other_sweeps());
}

void join(Scenario& scenario) {
  const Whole whole(scenario);
  const auto pools = child(whole.deployment, "pools");
  const auto prefill = child(pools, "prefill"), decode = child(pools, "decode");
  const std::int64_t tp = count_of(child(decode, "tp"), whole.tp);
  const std::int64_t gpus = count_of(child(prefill, "replicas"), 1) * count_of(child(prefill, "tp"), whole.tp) +
                            count_of(child(decode, "replicas"), 1) * tp;
  replace_deployment(scenario,
                     kept_keys(whole.deployment, {"tp", "replicas", "pools", "transfer", "local_prefill"}) + "tp: " +
                         std::to_string(tp) + ", replicas: " + std::to_string(std::max<std::int64_t>(1, gpus / tp)),
                     whole.other_sweeps());
}

QString rate_text(double bytes_per_second) {
  return std::isfinite(bytes_per_second) ? qs(study::number_text(bytes_per_second / 1e9)) + QStringLiteral(" GB/s")
                                         : QStringLiteral("unlimited");
}

}  // namespace

bool states_pools(const Scenario& scenario) {
  const auto is_pool = [](const auto& edit) { return edit.first.starts_with("deployment.pools."); };
  return std::any_of(scenario.edits.begin(), scenario.edits.end(), is_pool) ||
         !field_value(scenario, "deployment.pools").text.isEmpty();
}

void set_pools(Scenario& scenario, bool on) {
  if (on == states_pools(scenario)) return;
  if (on)
    split(scenario);
  else
    join(scenario);
}

void add_pool_defaults(const study::PointSpec& point, FieldDefaults& out) {
  const auto add = [&](const char* path, const QString& value) { out[path] = {value, {}, {}}; };
  add("deployment.pools.prefill.replicas", QString::number(point.prefill->deployment.replicas));
  add("deployment.pools.prefill.tp", QString::number(point.prefill->deployment.tp));
  add("deployment.pools.decode.replicas", QString::number(point.deployment.replicas));
  add("deployment.pools.decode.tp", QString::number(point.deployment.tp));
  add("deployment.transfer.bandwidth", rate_text(point.transfer.bandwidth));
  add("deployment.transfer.overlap",
      qs(load::kTransferOverlapNames.at(static_cast<std::size_t>(point.transfer.overlap))));
  add("deployment.local_prefill", qs(load::kLocalPrefillNames.front()));  // whatever the product
}

std::string server_flags(const study::PointSpec& point) {
  if (!point.prefill) return study::deployment_flags(point);
  study::PointSpec decode = point;
  decode.prefill.reset();
  return "# a prefill replica\n" + study::deployment_flags(*point.prefill) + "\n# a decode replica\n" +
         study::deployment_flags(decode);
}

}  // namespace plimsoll::gui
