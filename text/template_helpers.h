// SPDX-License-Identifier: Apache-2.0
// What the callables of chat templates share. Private to text/template_methods.cpp and text/template_calls.cpp.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "text/template_calls.h"

namespace plimsoll::text {

/// A callable and its name in templates.
struct NamedCallable {
  std::string_view name;
  Callable call;
};
/// Returns null for an unknown name.
[[nodiscard]] Callable look_up(std::span<const NamedCallable> table, std::string_view name);

/// Python's white space in ASCII.
inline constexpr std::string_view kWhite = " \t\n\r\v\f";

/// Removes the characters of `set` from the ends of a text.
[[nodiscard]] std::string stripped(const std::string& text, const std::string& set, bool left, bool right);
[[nodiscard]] std::string upper_text(const std::string& text);
[[nodiscard]] std::string lower_text(const std::string& text);
[[nodiscard]] std::string joined(const List& items, const std::string& by);
/// Returns the dictionary, or a namespace's members. Throws TemplateError for another value.
[[nodiscard]] const Dict& dict_of(const Value& value);

// Methods that are filters too.
[[nodiscard]] Value strip_both(const Value& self, const Arguments& arguments);
[[nodiscard]] Value capitalize(const Value& self, const Arguments& arguments);
[[nodiscard]] Value title(const Value& self, const Arguments& arguments);
[[nodiscard]] Value replace(const Value& self, const Arguments& arguments);
[[nodiscard]] Value dict_items(const Value& self, const Arguments& arguments);

}  // namespace plimsoll::text
