// SPDX-License-Identifier: Apache-2.0
// Reads fields of tokenizer.json with messages that name the place. Private to text/.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "model/error.h"

namespace plimsoll::text {

using Json = nlohmann::json;

/// Returns the field, or null if it is absent.
[[nodiscard]] inline const Json& field(const Json& object, const char* name) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

[[nodiscard]] inline bool flag(const Json& object, const char* name, bool fallback, std::string_view place) {
  const Json& value = field(object, name);
  if (value.is_null()) return fallback;
  if (!value.is_boolean()) throw InputError(fmt::format("{}.{}: expected true or false", place, name));
  return value.get<bool>();
}

[[nodiscard]] inline std::string text_field(const Json& object, const char* name, std::string_view place) {
  const Json& value = field(object, name);
  if (!value.is_string()) throw InputError(fmt::format("{}.{}: expected a string", place, name));
  return value.get<std::string>();
}

/// Returns the text, or an empty one if the field is absent or null.
[[nodiscard]] inline std::string optional_text(const Json& object, const char* name, std::string_view place) {
  return field(object, name).is_null() ? std::string() : text_field(object, name, place);
}

/// Returns the field `type` of a component.
[[nodiscard]] inline std::string type_of(const Json& object, std::string_view place) {
  if (!object.is_object()) throw InputError(fmt::format("{}: expected an object", place));
  return text_field(object, "type", place);
}

/// Calls each(item) for every item of a list.
template <class Each>
void for_items(const Json& object, const char* name, std::string_view place, const Each& each) {
  const Json& list = field(object, name);
  if (!list.is_array()) throw InputError(fmt::format("{}.{}: expected a list", place, name));
  for (const Json& item : list) each(item);
}

}  // namespace plimsoll::text
