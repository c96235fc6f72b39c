// SPDX-License-Identifier: Apache-2.0
// YAML for studies and the catalogue: every value knows its file, line and column, and every conversion says what was
// found and what is allowed. Anchors, aliases and several documents in a file are refused, nesting, size and number of
// nodes are limited, so no input can blow up.
//
// Documents are values: copying one is cheap (nodes are shared), and set() copies only the path it changes.
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

/// A value of a document. Cheap to copy; keeps what it needs alive. All conversions throw InputError at where().
class Node {
 public:
  explicit Node(std::shared_ptr<const NodeData> data) : data_(std::move(data)) {}

  [[nodiscard]] Where where() const;
  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_sequence() const;
  [[nodiscard]] bool is_scalar() const;
  [[nodiscard]] bool is_null() const;
  /// Throws unless the node is a map; nothing when it has no such key.
  [[nodiscard]] std::optional<Node> find(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return find(key).has_value(); }
  /// Throws when the key is missing.
  [[nodiscard]] Node at(std::string_view key) const;
  /// Of a map: keys and values in file order; of a sequence: values with empty keys. Throws for scalars.
  [[nodiscard]] std::vector<Item> items() const;
  /// Throws for a key that is not among `allowed`, with the nearest one that is.
  void require_known_keys(std::span<const std::string_view> allowed) const;

  /// Throws for a map in which some of the keys are missing, with all that are. `also` is one more thing that is.
  void require_keys(std::span<const std::string_view> keys, std::string_view also = {}) const;

  [[nodiscard]] std::string as_string() const;
  [[nodiscard]] std::int64_t as_integer(std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                                        std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  /// Dimensionless and finite.
  [[nodiscard]] double as_number(double min = -1e18, double max = 1e18) const;
  [[nodiscard]] bool as_bool() const;
  // With a unit. `min` in the base unit; the default refuses negative values.
  [[nodiscard]] Seconds as_seconds(double min = 0, double max = 1e9) const;
  [[nodiscard]] Bytes as_bytes(double min = 0, double max = 1e18) const;
  [[nodiscard]] BytesPerSecond as_bytes_per_second(double min = 0, double max = 1e18) const;
  [[nodiscard]] FlopsPerSecond as_flops_per_second(double min = 0, double max = 1e21) const;
  [[nodiscard]] PerSecond as_rate(double min = 0, double max = 1e9) const;
  [[nodiscard]] Usd as_usd(double min = 0, double max = 1e9) const;
  [[nodiscard]] model::DType as_dtype() const;
  /// The index of the scalar among `names`.
  [[nodiscard]] std::size_t as_one_of(std::span<const std::string_view> names) const;
  /// The value as YAML flow text: scalars as written.
  [[nodiscard]] std::string to_text() const;
  /// InputError at this node.
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

class Document {
 public:
  /// Throws InputError: missing, a directory, larger than 4 MiB, not UTF-8, not YAML.
  [[nodiscard]] static Document from_file(const std::string& path);
  /// `name` stands for the file in messages.
  [[nodiscard]] static Document from_text(const std::string& text, const std::string& name);

  [[nodiscard]] Node root() const { return Node(root_); }
  /// Sets the value at a path of map keys ("deployment.tp"; a key that itself holds dots is matched first), making maps
  /// on the way. `yaml` is parsed as a value of its own. Errors in it carry `origin` ("--set deployment.tp=x").
  void set(std::string_view path, const std::string& yaml, const Where& origin);
  /// The same with a node of another document.
  void set(std::string_view path, const Node& value);
  void remove(std::string_view path);
  /// YAML text that reads back as this document.
  [[nodiscard]] std::string dump() const;

 private:
  std::shared_ptr<const NodeData> root_;
};

}  // namespace plimsoll::configs
