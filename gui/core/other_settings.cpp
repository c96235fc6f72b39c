// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/scenario.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

using configs::Document;
using configs::Node;

constexpr std::string_view kSchedulerPrefix = "scheduler.";

// Settings that the window shows in a field or elsewhere. An entry that ends in a dot covers everything below it.
constexpr auto kShown = std::to_array<std::string_view>({"study",
                                                         "model",
                                                         "dtype",
                                                         "kv_dtype",
                                                         "hardware",
                                                         "engine",
                                                         "engine_front_end",
                                                         "deployment.tp",
                                                         "deployment.pp",
                                                         "deployment.replicas",
                                                         "deployment.router",
                                                         "deployment.pools.prefill.replicas",
                                                         "deployment.pools.prefill.tp",
                                                         "deployment.pools.decode.replicas",
                                                         "deployment.pools.decode.tp",
                                                         "deployment.transfer.bandwidth",
                                                         "deployment.transfer.overlap",
                                                         "deployment.local_prefill",
                                                         "scheduler.",
                                                         "workload.load.",
                                                         "workload.lengths.input",
                                                         "workload.lengths.output",
                                                         "workload.requests",
                                                         "limits.timeout",
                                                         "replications",
                                                         "seed",
                                                         "slo",
                                                         "sweep",
                                                         "search"});
// Maps whose keys are settings of their own; other maps are one value.
constexpr auto kSections = std::to_array<std::string_view>(
    {"deployment", "deployment.pools", "deployment.pools.prefill", "deployment.pools.prefill.scheduler",
     "deployment.pools.decode", "deployment.pools.decode.scheduler", "deployment.transfer", "scheduler", "workload",
     "workload.lengths", "limits"});

bool is_shown_elsewhere(std::string_view path) {
  return std::any_of(kShown.begin(), kShown.end(), [&](std::string_view shown) {
    return shown.ends_with('.') ? path.starts_with(shown) || path == shown.substr(0, shown.size() - 1) : path == shown;
  });
}

void collect(const Node& map, const std::string& prefix, std::vector<OtherSetting>& out) {
  for (const configs::Item& item : map.items()) {
    const std::string path = prefix.empty() ? item.key : prefix + '.' + item.key;
    if (is_shown_elsewhere(path)) continue;
    if (item.value.is_map() && std::find(kSections.begin(), kSections.end(), path) != kSections.end())
      collect(item.value, path, out);
    else
      out.push_back({path, item.value.to_text()});
  }
}

// A kind of load may state more than its number: think times, a cv, a trace's format.
void collect_load(const Node& root, std::vector<OtherSetting>& out) {
  constexpr std::array<std::string_view, 3> kNumbers = {"concurrency", "rate", "count"};
  const auto workload = root.find("workload");
  const auto load = workload && workload->is_map() ? workload->find("load") : std::nullopt;
  if (!load || !load->is_map() || load->items().size() != 1) return;
  const configs::Item kind = load->items().front();
  if (!kind.value.is_map()) return;
  for (const configs::Item& item : kind.value.items()) {
    if (std::find(kNumbers.begin(), kNumbers.end(), item.key) == kNumbers.end())
      out.push_back({"workload.load." + kind.key + '.' + item.key, item.value.to_text()});
  }
}

// Replaces a whole part of the study, before the edits below it.
void replace_part(Scenario& scenario, const std::string& part, const std::string& yaml) {
  const auto known =
      std::find_if(scenario.edits.begin(), scenario.edits.end(), [&](const auto& edit) { return edit.first == part; });
  if (known != scenario.edits.end())
    known->second = yaml;
  else
    scenario.edits.insert(scenario.edits.begin(), {part, yaml});
}

// Returns "{key: …}" without the value at `path`, which begins with the key.
std::string without(const std::string& key, const std::string& yaml, const std::string& path) {
  Document document = Document::from_text("{" + key + ": " + yaml + "}", "edit");
  document.remove(path);
  const auto left = document.root().find(key);
  return left ? left->to_text() : "{}";
}

}  // namespace

std::vector<OtherSetting> other_settings(const Scenario& scenario) {
  std::vector<OtherSetting> out;
  for (const HiddenSetting& hidden : hidden_settings(scenario))
    out.push_back({std::string(kSchedulerPrefix) + hidden.key, hidden.value});
  const Document whole = edited_study(scenario);
  if (!whole.root().is_map()) return out;
  collect(whole.root(), {}, out);
  collect_load(whole.root(), out);
  return out;
}

void remove_setting(Scenario& scenario, const std::string& path) {
  if (path.starts_with(kSchedulerPrefix)) {
    const std::string key = path.substr(kSchedulerPrefix.size());
    keep_settings(scenario, [&](const std::string& known) { return known != key; });
    return;
  }
  std::erase_if(scenario.edits, [&](const auto& edit) {
    return edit.first == path || edit.first.starts_with(path + '.') || edit.first == "sweep." + path;
  });
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos) {  // no edit can remove a key of the study's file
    scenario.document.remove(path);
    return;
  }
  // The load is a part of its own, which edits replace.
  if (path.starts_with("workload.load.")) {
    const std::string load = utf8(field_value(scenario, "workload.load").text);
    return replace_part(scenario, "workload.load", without("load", load, path.substr(std::string("workload.").size())));
  }
  const std::string part = path.substr(0, dot);
  const auto edit =
      std::find_if(scenario.edits.begin(), scenario.edits.end(), [&](const auto& one) { return one.first == part; });
  const auto stated = scenario.document.root().find(part);
  if (edit != scenario.edits.end())
    edit->second = without(part, edit->second, path);
  else if (stated)
    replace_part(scenario, part, without(part, stated->to_text(), path));
}

}  // namespace plimsoll::gui
