// SPDX-License-Identifier: Apache-2.0
// The filters, tests, methods and functions that chat templates may call. Private to the template's files.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/template_value.h"

namespace plimsoll::text {

/// The arguments of a call.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  /// Returns the argument at this position or of this name; null if it is not given.
  [[nodiscard]] const Value* find(std::size_t position, std::string_view name) const;
  [[nodiscard]] Value get(std::size_t position, std::string_view name, Value fallback = {}) const;
  /// Returns a text. Throws TemplateError if the argument is missing or something else.
  [[nodiscard]] const std::string& text(std::size_t position, std::string_view name) const;
};

/// Applies to the value before the dot, the bar or `is`; functions ignore it.
using Callable = Value (*)(const Value& self, const Arguments& arguments);

/// Each returns null for an unknown name.
[[nodiscard]] Callable find_filter(std::string_view name);
[[nodiscard]] Callable find_test(std::string_view name);
[[nodiscard]] Callable find_method(std::string_view name);
[[nodiscard]] Callable find_function(std::string_view name);

/// Returns `object.name`, or `object[name]`; undefined if there is none.
[[nodiscard]] Value member(const Value& object, const Value& name);
/// Returns object[begin:end:step]. A part that is left out is passed as none.
[[nodiscard]] Value slice(const Value& object, const Value& begin, const Value& end, const Value& step);

}  // namespace plimsoll::text
