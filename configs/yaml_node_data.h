// SPDX-License-Identifier: Apache-2.0
// The tree behind configs/yaml_document.h. Private to configs/.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/error.h"

namespace plimsoll::configs {

inline constexpr std::size_t kMaxDepth = 64;  // of maps and sequences within each other

enum class NodeKind : std::uint8_t { null, scalar, sequence, map };

struct NodeData {
  struct Entry {
    std::string key;
    std::size_t line = 0, column = 0;  // of the key
    std::shared_ptr<const NodeData> value;
  };
  NodeKind kind = NodeKind::null;
  bool quoted = false;
  std::string scalar;
  std::shared_ptr<const std::string> file;
  std::size_t line = 0, column = 0;
  std::vector<Entry> entries;  // of maps and (without keys) sequences
};

/// Parses one document. Throws InputError.
[[nodiscard]] std::shared_ptr<const NodeData> parse_yaml(const std::string& text, const std::string& name);

}  // namespace plimsoll::configs
