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

/// A callable, its name in templates and the names of its parameters, with blanks between. Behind a `/` they are not
/// names of arguments; `*` stands for any arguments.
struct NamedCallable {
  std::string_view name;
  Callable function;
  std::string_view parameters = {};
  std::size_t required = 0;  // how many must be given
  /// Throws TemplateError for arguments that the parameters do not take.
  [[nodiscard]] Value operator()(const Value& self, const Arguments& arguments) const;
};

/// Each returns null for an unknown name.
[[nodiscard]] const NamedCallable* find_filter(std::string_view name);
[[nodiscard]] const NamedCallable* find_test(std::string_view name);
[[nodiscard]] const NamedCallable* find_function(std::string_view name);

/// Throws TemplateError for a name that transformers keeps out of namespaces.
void check_namespace_name(const std::string& name);

/// Returns whether values of some kind have a method of this name that templates may name.
[[nodiscard]] bool is_method(std::string_view name);
/// Returns the method of the value; undefined if its kind has none of this name, or the method would change it.
[[nodiscard]] std::optional<Value> find_method(const Value& self, std::string_view name);

/// Returns `object.name`: its method, or else its member.
[[nodiscard]] Value attribute(const Value& object, const std::string& name);
/// Returns `object[key]`: its member, or else its method; undefined if there is none.
[[nodiscard]] Value member(const Value& object, const Value& key);
/// Returns the member `path` of a value: names and numbers with dots between.
[[nodiscard]] Value path_member(Value value, const Value& path);
/// Returns object[begin:end:step]. A part that is left out is passed as none.
[[nodiscard]] Value slice(const Value& object, const Value& begin, const Value& end, const Value& step);

}  // namespace plimsoll::text
