// SPDX-License-Identifier: Apache-2.0
#include "study/file/section.h"

#include <fmt/format.h>

#include <limits>

#include "configs/quantity.h"
#include "study/file/not_modelled.h"

namespace plimsoll::study {

using configs::Node;

double read_positive(const Node& node, double most) {
  constexpr double kAny = std::numeric_limits<double>::max();
  const double value = node.as_number(-kAny, kAny);
  if (value > 0 && value <= most) return value;
  node.fail(
      fmt::format("found {}, expected a number above 0 and at most {}", node.to_text(), configs::number_text(most)));
}

bool read_switch(const Node& node) {
  if (node.is_scalar() && node.as_string() == "1") return true;
  if (node.is_scalar() && node.as_string() == "0") return false;
  return node.as_bool();
}

Seconds read_positive_time(const Node& node) {
  const Seconds time = node.as_seconds();
  if (time >= Seconds(1e-9)) return time;
  node.fail(fmt::format("found '{}', expected a time above 0, at least 1 ns", node.to_text()));
}

std::vector<Node> read_list(const Node& node) {
  if (!node.is_sequence()) return {node};
  std::vector<Node> values;
  for (configs::Item& item : node.items()) values.push_back(std::move(item.value));
  if (values.empty()) node.fail("found an empty list, expected at least one value");
  return values;
}

Section::Section(Node node, std::span<const std::string_view> keys) : node_(std::move(node)) {
  refuse_not_modelled(node_, keys);
  node_.require_known_keys(keys);
}

Where Section::where(std::string_view key) const {
  const auto value = find(key);
  return value ? value->where() : node_.where();
}

Node Section::need(std::string_view key, std::string_view example) const {
  auto value = find(key);
  if (value && !value->is_null()) return std::move(*value);
  (value ? *value : node_).fail(fmt::format("key '{0}' is missing; write for example '{0}: {1}'", key, example));
}

std::optional<std::int64_t> Section::whole(std::string_view key, std::int64_t low, std::int64_t high) const {
  const auto value = find(key);
  return value ? std::optional(value->as_integer(low, high)) : std::nullopt;
}

std::optional<std::string> Section::text(std::string_view key) const {
  const auto value = find(key);
  return value ? std::optional(value->as_string()) : std::nullopt;
}

std::optional<bool> Section::flag(std::string_view key) const {
  const auto value = find(key);
  return value ? std::optional(value->as_bool()) : std::nullopt;
}

std::optional<Seconds> Section::time(std::string_view key) const {
  const auto value = find(key);
  return value ? std::optional(value->as_seconds()) : std::nullopt;
}

}  // namespace plimsoll::study
