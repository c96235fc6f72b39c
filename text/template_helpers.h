// SPDX-License-Identifier: Apache-2.0
// What the callables of chat templates share. Private to template_methods.cpp, template_filters.cpp and
// template_calls.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/template_calls.h"

namespace plimsoll::text {

/// Returns null for an unknown name.
[[nodiscard]] const NamedCallable* look_up(std::span<const NamedCallable> table, std::string_view name);

/// Each throws TemplateError for another value.
[[nodiscard]] const std::string& text_of(const Value& value);
[[nodiscard]] const Dict& dict_of(const Value& value);

// Methods that are filters too.
/// Removes white space, or the characters of the argument `chars`, from both ends of a text.
[[nodiscard]] std::string trimmed(const std::string& text, const Value& chars);
[[nodiscard]] std::string replaced(const std::string& text, const std::string& from, const std::string& to,
                                   std::int64_t count);
[[nodiscard]] List pairs_of(const Dict& dict);

}  // namespace plimsoll::text
