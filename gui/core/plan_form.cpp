// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/plan_form.h"

#include <algorithm>
#include <array>

#include "configs/yaml_document.h"

namespace plimsoll::gui {
namespace {

constexpr std::array<std::string_view, 8> kLists = {
    "instances", "tp", "replicas", "replicas_per_instance", "instance_count", "max_running", "dtype", "policies"};

std::vector<std::string> values_of(const configs::Node& node) {
  if (!node.is_sequence()) return {node.to_text()};
  std::vector<std::string> out;
  for (const configs::Item& item : node.items()) out.push_back(item.value.to_text());
  return out;
}

}  // namespace

const std::vector<std::string>& PlanForm::list(const std::string& key) const {
  static const std::vector<std::string> none;
  const auto found = lists.find(key);
  return found == lists.end() ? none : found->second;
}

PlanForm read_plan_form(const std::string& yaml) {
  const auto document = configs::Document::from_text(yaml, "search");
  PlanForm form;
  for (const configs::Item& item : document.root().items()) {
    if (item.key == "objective")
      form.objective = item.value.to_text();
    else if (item.key == "max_usd_per_hour")
      form.max_usd_per_hour = item.value.to_text();
    else if (item.key == "max_gpus")
      form.max_gpus = item.value.to_text();
    else if (std::find(kLists.begin(), kLists.end(), item.key) != kLists.end())
      form.lists[item.key] = values_of(item.value);
    else
      form.other.emplace_back(item.key, item.value.to_text());
  }
  return form;
}

std::string plan_form_yaml(const PlanForm& form) {
  std::string text = "objective: " + form.objective;
  for (const std::string_view key : kLists) {
    std::string values;
    for (const std::string& value : form.list(std::string(key))) values += (values.empty() ? "" : ", ") + value;
    if (!values.empty()) text += ", " + std::string(key) + ": [" + values + "]";
  }
  if (!form.max_usd_per_hour.empty()) text += ", max_usd_per_hour: " + form.max_usd_per_hour;
  if (!form.max_gpus.empty()) text += ", max_gpus: " + form.max_gpus;
  for (const auto& [key, value] : form.other) text += ", " + key + ": " + value;
  return "{" + text + "}";
}

}  // namespace plimsoll::gui
