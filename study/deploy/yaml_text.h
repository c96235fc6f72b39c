// SPDX-License-Identifier: Apache-2.0
// Writes a tree of values as YAML in block style, as people write manifests. Text that another reader could take for a
// number, a truth value or null is quoted.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace plimsoll::study::deploy {

using Tree = nlohmann::ordered_json;

/// Returns the tree as one YAML document, without "---". Text of several lines becomes a literal block.
[[nodiscard]] std::string yaml_text(const Tree& tree);
/// Returns a comment of one line for each line of `text`.
[[nodiscard]] std::string yaml_comment(const std::string& text);

}  // namespace plimsoll::study::deploy
