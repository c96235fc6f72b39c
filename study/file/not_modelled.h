// SPDX-License-Identifier: Apache-2.0
// Features of serving products that are known by name but not modelled. A study that asks for one is rejected
// with the effect of their absence on the results. The user's page: docs/limits.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configs/yaml_document.h"

namespace plimsoll::study {

struct NotModelled {
  std::string_view name;               // "expert parallelism"
  std::string_view effect;             // effect of its absence on the results: direction, rough size
  std::string_view source;             // of the size
  std::string_view instead;            // what to do; empty: nothing
  std::vector<std::string_view> keys;  // spellings without dashes before, with '_' between words, in lower case
};
/// In the order of docs/limits.md.
[[nodiscard]] std::span<const NotModelled> not_modelled();
/// The feature that a key asks for, in any product's spelling ("--enable-expert-parallel"); nullptr: none.
[[nodiscard]] const NotModelled* feature_of(std::string_view key);
/// One feature by its name; aborts for a name that is not in the list.
[[nodiscard]] const NotModelled& not_modelled(std::string_view name);

/// "NAME is not modelled; effect: … (source: …) … See docs/limits.md".
[[nodiscard]] std::string text_of(const NotModelled& feature);
/// Throws InputError at the first key of a map that is not `known` and asks for such a feature.
void refuse_not_modelled(const configs::Node& map, std::span<const std::string_view> known);
/// The same for one key with its value.
void refuse_not_modelled(const std::string& key, const configs::Node& value, const Where& where);

}  // namespace plimsoll::study
