// SPDX-License-Identifier: Apache-2.0
// Features of serving products that are known by name but not modelled. A study that requests one is rejected, with the
// effect that its absence would have on the results. The page for users is docs/limits.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configs/yaml_document.h"

namespace plimsoll::study {

struct NotModelled {
  std::string_view name;               // "expert parallelism"
  std::string_view effect;             // how its absence changes the results: direction, rough size
  std::string_view source;             // source of the size
  std::string_view instead;            // what to do instead; empty: nothing
  std::vector<std::string_view> keys;  // spellings in lower case, without leading dashes, words joined by '_'
};
/// All features, in the order of docs/limits.md.
[[nodiscard]] std::span<const NotModelled> not_modelled();
/// Returns the feature that a key requests, in any product's spelling ("--enable-expert-parallel"); nullptr if none.
[[nodiscard]] const NotModelled* feature_of(std::string_view key);
/// Returns the feature with this name; aborts if it is not in the list.
[[nodiscard]] const NotModelled& not_modelled(std::string_view name);

/// Returns "NAME is not modelled; effect: … (source: …) … See docs/limits.md".
[[nodiscard]] std::string text_of(const NotModelled& feature);
/// Throws InputError for the first key of a map that is not among `known` and requests such a feature.
void refuse_not_modelled(const configs::Node& map, std::span<const std::string_view> known);
/// Does the same for one key with its value.
void refuse_not_modelled(const std::string& key, const configs::Node& value, const Where& where);

}  // namespace plimsoll::study
