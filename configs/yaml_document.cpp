// SPDX-License-Identifier: Apache-2.0
#include "configs/yaml_document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "configs/text_file.h"
#include "configs/yaml_node_data.h"

namespace plimsoll::configs {

namespace {

std::string describe(const NodeData& data) {
  switch (data.kind) {
    case NodeKind::null: return "nothing";
    case NodeKind::scalar: return fmt::format("'{}'", shortened(data.scalar));
    case NodeKind::sequence: return fmt::format("a list of {}", data.entries.size());
    case NodeKind::map: return fmt::format("a map of {} keys", data.entries.size());
  }
  return "";
}

// Returns the place of a key. A key added by an option gets the place of its value, because the map's file does not
// contain it.
Where key_place(const NodeData& map, const NodeData::Entry& entry) {
  if (entry.value->line == 0) return {*entry.value->file, 0, 0};
  return {*map.file, entry.line, entry.column};
}

std::string joined(std::span<const std::string_view> names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

}  // namespace

Where Node::where() const { return {*data_->file, data_->line, data_->column}; }
bool Node::is_map() const { return data_->kind == NodeKind::map; }
bool Node::is_sequence() const { return data_->kind == NodeKind::sequence; }
bool Node::is_scalar() const { return data_->kind == NodeKind::scalar; }
bool Node::is_null() const { return data_->kind == NodeKind::null; }
void Node::fail(const std::string& text) const { throw InputError(where(), text); }

std::optional<Node> Node::find(std::string_view key) const {
  if (is_null()) return {};
  if (!is_map()) fail(fmt::format("found {}, expected a map (key: value)", describe(*data_)));
  for (const NodeData::Entry& entry : data_->entries)
    if (entry.key == key) return Node(entry.value);
  return {};
}

Node Node::at(std::string_view key) const {
  if (const std::optional<Node> found = find(key)) return *found;
  fail(fmt::format("key '{}' is missing", key));
}

void Node::require_keys(std::span<const std::string_view> keys, std::string_view also) const {
  std::vector<std::string> missing;
  for (const std::string_view key : keys)
    if (!has(key)) missing.push_back(fmt::format("'{}'", key));
  if (missing.empty() && also.empty()) return;
  if (missing.size() == 1 && also.empty()) fail(fmt::format("key {} is missing", missing.front()));
  if (!also.empty()) missing.emplace_back(also);
  fail(fmt::format("missing: {}", fmt::join(missing, ", ")));
}

std::vector<Item> Node::items() const {
  if (is_scalar()) fail(fmt::format("found {}, expected a list or a map", describe(*data_)));
  std::vector<Item> items;
  items.reserve(data_->entries.size());
  for (const NodeData::Entry& entry : data_->entries)
    items.push_back({entry.key, key_place(*data_, entry), Node(entry.value)});
  return items;
}

void Node::require_known_keys(std::span<const std::string_view> allowed) const {
  if (is_null()) return;
  if (!is_map()) fail(fmt::format("found {}, expected a map with the keys {}", describe(*data_), joined(allowed)));
  for (const NodeData::Entry& entry : data_->entries) {
    if (std::find(allowed.begin(), allowed.end(), entry.key) != allowed.end()) continue;
    const std::string_view near = nearest(entry.key, allowed);
    const std::string hint = near.empty() ? "" : fmt::format("; did you mean '{}'?", near);
    throw InputError(key_place(*data_, entry), fmt::format("unknown key '{}'{} Allowed: {}", shortened(entry.key),
                                                           hint.empty() ? "." : hint, joined(allowed)));
  }
}

const std::string& Node::scalar(std::string_view expected) const {
  if (!is_scalar()) fail(fmt::format("found {}, expected {}", describe(*data_), expected));
  return data_->scalar;
}

// Refuses NUL, because the system would cut a file name there and open another file.
std::string Node::as_string() const {
  const std::string& text = scalar("text");
  if (text.find('\0') != std::string::npos) fail("holds a NUL character, expected text");
  return text;
}

std::int64_t Node::as_integer(std::int64_t min, std::int64_t max) const {
  const std::string& text = scalar("a whole number");
  const std::optional<double> value = parse_number(text);
  constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it doubles skip integers
  if (!value || *value != std::floor(*value)) fail(fmt::format("found '{}', expected a whole number", shortened(text)));
  if (std::abs(*value) >= kExact)
    fail(fmt::format("found '{}', expected a whole number from {} to {}", shortened(text), min,
                     std::min(max, static_cast<std::int64_t>(kExact) - 1)));
  const auto whole = static_cast<std::int64_t>(*value);
  if (whole < min || whole > max) {
    const bool open = max >= static_cast<std::int64_t>(kExact) - 1;
    fail(open ? fmt::format("found {}, expected a whole number of at least {}", whole, min)
              : fmt::format("found {}, expected a whole number from {} to {}", whole, min, max));
  }
  return whole;
}

double Node::as_number(double min, double max) const {
  const std::string& text = scalar("a number");
  const std::optional<double> value = parse_number(text);
  if (!value) fail(fmt::format("found '{}', expected a finite number without a unit", shortened(text)));
  if (*value < min || *value > max)
    fail(fmt::format("found {}, expected a number from {} to {}", shortened(text), number_text(min), number_text(max)));
  return *value;
}

bool Node::as_bool() const {
  const std::string& text = scalar("true or false");
  if (text == "true") return true;
  if (text == "false") return false;
  fail(fmt::format("found '{}', expected true or false", shortened(text)));
}

double Node::quantity(Dimension dimension, double min, double max) const {
  const std::string& text = scalar("a number with a unit");
  const Parsed parsed = parse_quantity(text, dimension);
  if (!parsed.value) fail(fmt::format("found '{}': {}", shortened(text), parsed.problem));
  if (*parsed.value < min || *parsed.value > max) {
    const bool negative = *parsed.value < 0 && min >= 0;
    fail(fmt::format("found '{}': {}", shortened(text),
                     negative
                         ? std::string("must not be negative")
                         : fmt::format("out of range, {} to {} in base units", number_text(min), number_text(max))));
  }
  return *parsed.value;
}

Seconds Node::as_seconds(double min, double max) const { return Seconds(quantity(Dimension::seconds, min, max)); }
Bytes Node::as_bytes(double min, double max) const { return Bytes(quantity(Dimension::bytes, min, max)); }
BytesPerSecond Node::as_bytes_per_second(double min, double max) const {
  return BytesPerSecond(quantity(Dimension::bytes_per_second, min, max));
}
FlopsPerSecond Node::as_flops_per_second(double min, double max) const {
  return FlopsPerSecond(quantity(Dimension::flops_per_second, min, max));
}
PerSecond Node::as_rate(double min, double max) const { return PerSecond(quantity(Dimension::per_second, min, max)); }
Usd Node::as_usd(double min, double max) const { return Usd(quantity(Dimension::usd, min, max)); }

model::DType Node::as_dtype() const {
  static constexpr std::array<std::string_view, 8> kNames = {"fp32", "fp16", "bf16",  "fp8",
                                                             "int8", "int4", "nvfp4", "mxfp4"};
  const std::string& text = scalar("a data type");
  if (const auto dtype = model::dtype_from_name(text)) return *dtype;
  fail(fmt::format("found '{}', expected one of {}", shortened(text), joined(kNames)));
}

std::size_t Node::as_one_of(std::span<const std::string_view> names) const {
  const std::string& text = scalar("a name");
  const auto found = std::find(names.begin(), names.end(), text);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  const std::string_view near = nearest(text, names);
  fail(fmt::format("found '{}'{}, expected one of {}", shortened(text),
                   near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), joined(names)));
}

Document Document::from_file(const std::string& path) { return from_text(read_text_file(path, "a YAML file"), path); }

Document Document::of(const Node& root) {
  Document document;
  document.root_ = root.data_;
  return document;
}

Document Document::from_text(const std::string& text, const std::string& name) {
  Document document;
  document.root_ = parse_yaml(text, name);
  return document;
}

}  // namespace plimsoll::configs
