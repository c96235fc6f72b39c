// SPDX-License-Identifier: Apache-2.0
// The operators of chat templates, as Python defines them. Private to the template's files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "text/template_value.h"

namespace plimsoll::text {

enum class Operator : std::uint8_t { add, subtract, multiply, divide, floor_divide, modulo, power, concatenate };
enum class Comparison : std::uint8_t { equal, unequal, less, at_most, greater, at_least, in, not_in };

/// Both throw TemplateError for operands that the operator does not take.
[[nodiscard]] Value calculate(Operator op, const Value& a, const Value& b);
[[nodiscard]] bool compare(Comparison comparison, const Value& a, const Value& b);
/// Returns nullopt for a sign that is no comparison.
[[nodiscard]] std::optional<Comparison> comparison_of(std::string_view sign);

}  // namespace plimsoll::text
