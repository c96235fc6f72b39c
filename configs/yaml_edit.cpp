// SPDX-License-Identifier: Apache-2.0
// Changing documents (--set, sweeps) and writing them back.
#include <fmt/format.h>

#include <algorithm>

#include "configs/yaml_document.h"
#include "configs/yaml_node_data.h"

namespace plimsoll::configs {

namespace {

using Pointer = std::shared_ptr<const NodeData>;

// Returns the longest key of `map` that `path` begins with (keys may contain dots), else the path's first word.
std::string first_key(const NodeData& map, std::string_view path) {
  std::string best;
  for (const NodeData::Entry& entry : map.entries) {
    const bool fits = path.starts_with(entry.key) && (path.size() == entry.key.size() || path[entry.key.size()] == '.');
    if (fits && entry.key.size() > best.size()) best = entry.key;
  }
  return best.empty() ? std::string(path.substr(0, path.find('.'))) : best;
}

// Returns a copy of `node` if it is a map, else an empty map with the place of `origin`.
std::shared_ptr<NodeData> map_like(const Pointer& node, const NodeData& origin) {
  if (node != nullptr && node->kind == NodeKind::map) return std::make_shared<NodeData>(*node);
  auto map = std::make_shared<NodeData>();
  map->kind = NodeKind::map;
  map->file = origin.file;
  map->line = origin.line;
  map->column = origin.column;
  return map;
}

// Returns a copy of `node` with the value at `path` replaced. A scalar on the way becomes a map: "lengths: 5" with
// lengths.input set. A list is refused, because its values would be lost silently.
Pointer with(const Pointer& node, std::string_view path, const Pointer& value, std::size_t depth) {
  const auto fail = [&](const std::string& text) {
    throw InputError(Where{*value->file, value->line, value->column}, text);
  };
  if (depth >= kMaxDepth) fail("nested too deeply");
  if (node != nullptr && node->kind == NodeKind::sequence)
    fail(fmt::format("'{}' leads into a list; set the whole list", path));
  const auto copy = map_like(node, *value);
  const std::string key = first_key(*copy, path);
  const bool last = path.size() == key.size();
  const std::string_view rest = last ? std::string_view() : path.substr(key.size() + 1);
  if (key.empty() || (!last && rest.empty()))
    fail("the path has an empty part, expected keys joined by dots: workload.requests");
  const auto found =
      std::find_if(copy->entries.begin(), copy->entries.end(), [&](const auto& e) { return e.key == key; });
  const Pointer before = found == copy->entries.end() ? nullptr : found->value;
  const Pointer child = last ? value : with(before, rest, value, depth + 1);
  if (found != copy->entries.end())
    found->value = child;
  else
    copy->entries.push_back({key, value->line, value->column, child});
  return copy;
}

// Returns a copy of `node` without the value at `path`, or the node itself if there is none.
Pointer without(const Pointer& node, std::string_view path) {
  if (node->kind != NodeKind::map) return node;
  const std::string key = first_key(*node, path);
  const auto found =
      std::find_if(node->entries.begin(), node->entries.end(), [&](const auto& e) { return e.key == key; });
  if (found == node->entries.end()) return node;
  auto copy = std::make_shared<NodeData>(*node);
  const auto entry = copy->entries.begin() + (found - node->entries.begin());
  if (path.size() <= key.size())
    copy->entries.erase(entry);
  else
    entry->value = without(found->value, path.substr(key.size() + 1));
  return copy;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Returns false for text that YAML would read as something else unless it is quoted.
bool plain_is_safe(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return false;
  if (text.starts_with("---") || text.starts_with("...")) return false;  // markers of a document's beginning and end
  if (std::any_of(text.begin(), text.end(), is_control)) return false;
  constexpr std::string_view kBad = ":{}[],&*#?|-<>=!%@`\"'\\";
  constexpr std::string_view kBadInside = "{}[],#?\"'\\";  // yaml-cpp ends a plain scalar at ? in flow text
  if (text.front() == ' ' || text.back() == ' ' || text.back() == ':') return false;
  if (kBad.find(text.front()) != std::string_view::npos && !(text.front() == '-' && text.size() > 1 && text[1] != ' '))
    return false;
  return text.find_first_of(kBadInside) == std::string::npos && text.find(": ") == std::string::npos;
}

std::string scalar_text(const std::string& text, bool quoted) {
  if (!quoted && plain_is_safe(text)) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (is_control(c))
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

// Writes a value on one line, as a YAML flow collection.
std::string flow(const NodeData& data) {
  switch (data.kind) {
    case NodeKind::null: return "null";
    case NodeKind::scalar: return scalar_text(data.scalar, data.quoted);
    case NodeKind::sequence:
    case NodeKind::map: break;
  }
  const bool map = data.kind == NodeKind::map;
  std::string out = map ? "{" : "[";
  for (std::size_t i = 0; i < data.entries.size(); ++i) {
    if (i > 0) out += ", ";
    if (map) out += scalar_text(data.entries[i].key, false) + ": ";
    out += flow(*data.entries[i].value);
  }
  return out + (map ? "}" : "]");
}

// Writes short maps and all lists of scalars on one line.
void block(const NodeData& map, std::size_t indent, std::string& out) {
  constexpr std::size_t kLine = 100;
  for (const NodeData::Entry& entry : map.entries) {
    out.append(indent, ' ');
    out += scalar_text(entry.key, false) + ":";
    const std::string text = flow(*entry.value);
    const bool nest = entry.value->kind == NodeKind::map && !entry.value->entries.empty() &&
                      (indent == 0 || indent + entry.key.size() + text.size() + 2 > kLine);
    if (!nest) {
      out += ' ' + text + '\n';
      continue;
    }
    out += '\n';
    block(*entry.value, indent + 2, out);
  }
}

}  // namespace

std::string Node::to_text() const { return is_scalar() && !data_->quoted ? data_->scalar : flow(*data_); }

void Document::set(std::string_view path, const std::string& yaml, const Where& origin) {
  Pointer parsed;
  try {
    parsed = parse_yaml(yaml.empty() ? "null" : yaml, origin.file);
  } catch (const InputError& error) {
    throw InputError(origin, error.text());
  }
  // Every value gets the whole origin as its place.
  const auto file = std::make_shared<const std::string>(origin.file);
  const auto relocate = [&](const auto& self, const NodeData& data) -> Pointer {
    auto copy = std::make_shared<NodeData>(data);
    copy->file = file;
    copy->line = origin.line;
    copy->column = origin.column;
    for (NodeData::Entry& entry : copy->entries) {
      entry.line = origin.line;
      entry.column = origin.column;
      entry.value = self(self, *entry.value);
    }
    return copy;
  };
  const Pointer value = relocate(relocate, *parsed);
  root_ = with(root_, path, value, 0);
}

void Document::set(std::string_view path, const Node& value) { root_ = with(root_, path, value.data_, 0); }

void Document::remove(std::string_view path) { root_ = without(root_, path); }

std::string Document::dump() const {
  if (root_->kind != NodeKind::map || root_->entries.empty()) return flow(*root_) + '\n';
  std::string out;
  block(*root_, 0, out);
  return out;
}

}  // namespace plimsoll::configs
