// SPDX-License-Identifier: Apache-2.0
// YAML for studies and the catalogue. Every value knows its file, line and column, and every conversion reports what
// was found and what is allowed. Anchors, aliases and multiple documents are refused. Nesting, size and number of nodes
// are limited, so that no input can exhaust memory.
//
// Documents are values: copying one is cheap (nodes are shared), and set() copies only the path that it changes.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configs/quantity.h"
#include "model/error.h"
#include "model/llm_shape.h"
#include "model/units.h"

namespace plimsoll::configs {

struct NodeData;
struct Item;

/// A value of a document. Cheap to copy; keeps the data it refers to alive. All conversions throw InputError at
/// where().
class Node {
 public:
  explicit Node(std::shared_ptr<const NodeData> data) : data_(std::move(data)) {}

  /// Returns the place in the file, for messages.
  [[nodiscard]] Where where() const;
  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_sequence() const;
  [[nodiscard]] bool is_scalar() const;
  [[nodiscard]] bool is_null() const;
  /// Returns the value of a key, or nullopt if the map lacks it. Throws InputError unless the node is a map.
  [[nodiscard]] std::optional<Node> find(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return find(key).has_value(); }
  /// Does the same as find(), but throws InputError if the key is missing.
  [[nodiscard]] Node at(std::string_view key) const;
  /// Returns the keys and values of a map in file order, or the values of a sequence with empty keys. Throws InputError
  /// for scalars.
  [[nodiscard]] std::vector<Item> items() const;
  /// Throws for a key that is not in `allowed`, with the nearest allowed one.
  void require_known_keys(std::span<const std::string_view> allowed) const;

  /// Throws InputError if a map lacks some of the keys; the message lists all that are missing. `also` names one more
  /// missing item.
  void require_keys(std::span<const std::string_view> keys, std::string_view also = {}) const;

  /// The conversions below throw InputError with the place, what was found and what is allowed.
  /// Returns the scalar as text. Refuses NUL characters.
  [[nodiscard]] std::string as_string() const;
  /// Returns a whole number from `min` to `max`.
  [[nodiscard]] std::int64_t as_integer(std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                                        std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  /// Returns a dimensionless finite number.
  [[nodiscard]] double as_number(double min = -1e18, double max = 1e18) const;
  [[nodiscard]] bool as_bool() const;
  // Return a number with a unit. `min` is in the base unit; the default refuses negative values.
  [[nodiscard]] Seconds as_seconds(double min = 0, double max = 1e9) const;
  [[nodiscard]] Bytes as_bytes(double min = 0, double max = 1e18) const;
  [[nodiscard]] BytesPerSecond as_bytes_per_second(double min = 0, double max = 1e18) const;
  [[nodiscard]] FlopsPerSecond as_flops_per_second(double min = 0, double max = 1e21) const;
  [[nodiscard]] PerSecond as_rate(double min = 0, double max = 1e9) const;
  [[nodiscard]] Usd as_usd(double min = 0, double max = 1e9) const;
  [[nodiscard]] model::DType as_dtype() const;
  /// Returns the index of the scalar in `names`.
  [[nodiscard]] std::size_t as_one_of(std::span<const std::string_view> names) const;
  /// Returns the value as YAML flow text, with scalars as written.
  [[nodiscard]] std::string to_text() const;
  /// Throws InputError at this node.
  [[noreturn]] void fail(const std::string& text) const;

 private:
  friend class Document;
  [[nodiscard]] const std::string& scalar(std::string_view expected) const;
  [[nodiscard]] double quantity(Dimension dimension, double min, double max) const;
  std::shared_ptr<const NodeData> data_;
};

/// A key of a map (empty in sequences) and its value.
struct Item {
  std::string key;
  Where key_where;
  Node value;
};

/// A whole document, which can be edited and written back.
class Document {
 public:
  /// Throws InputError if the file is missing, a directory, larger than 4 MiB, not UTF-8 or not YAML.
  [[nodiscard]] static Document from_file(const std::string& path);
  /// Returns a document with this map as its root.
  [[nodiscard]] static Document of(const Node& root);
  /// `name` replaces the file name in messages.
  [[nodiscard]] static Document from_text(const std::string& text, const std::string& name);

  [[nodiscard]] Node root() const { return Node(root_); }
  /// Sets the value at a path of map keys ("deployment.tp") and creates the maps that it needs. A key that itself
  /// contains dots is tried first. `yaml` is parsed as a value of its own; errors in it report `origin` ("--set
  /// deployment.tp=x").
  void set(std::string_view path, const std::string& yaml, const Where& origin);
  /// Does the same with a node of another document.
  void set(std::string_view path, const Node& value);
  /// Removes the value at a path with everything below it; does nothing if there is none.
  void remove(std::string_view path);
  /// Returns YAML text that reads back as this document.
  [[nodiscard]] std::string dump() const;

 private:
  std::shared_ptr<const NodeData> root_;
};

}  // namespace plimsoll::configs
