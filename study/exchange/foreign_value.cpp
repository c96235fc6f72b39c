// SPDX-License-Identifier: Apache-2.0
#include "study/exchange/foreign_value.h"

#include <fmt/format.h>

#include <cmath>

namespace plimsoll::study {
namespace {

// Formats a value for a message.
std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kMaxLength = 40;
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxLength) text = text.substr(0, kMaxLength) + "...";
  return text;
}

}  // namespace

std::string ForeignValue::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

std::optional<ForeignValue> ForeignValue::find(std::string_view name) const {
  if (!value_->is_object()) return {};
  const auto found = value_->find(std::string(name));
  if (found == value_->end() || found->is_null()) return {};
  return ForeignValue(*found, *file_, path_of(name));
}

ForeignValue ForeignValue::at(std::size_t index) const {
  return {(*value_)[index], *file_, fmt::format("{}[{}]", path_, index)};
}

ForeignValue ForeignValue::object(std::string_view name) const {
  const std::optional<ForeignValue> inner = find(name);
  if (!inner) fail(fmt::format("'{}' is missing, expected an object", name));
  if (!inner->is_object()) inner->fail(fmt::format("found {}, expected an object", shown(*inner->value_)));
  return *inner;
}

ForeignValue ForeignValue::list(std::string_view name) const {
  const std::optional<ForeignValue> inner = find(name);
  if (!inner) fail(fmt::format("'{}' is missing, expected a list", name));
  if (!inner->is_array()) inner->fail(fmt::format("found {}, expected a list", shown(*inner->value_)));
  return *inner;
}

double ForeignValue::as_number() const {
  const double value = value_->is_number() ? value_->get<double>() : NAN;
  if (!(value >= 0) || !std::isfinite(value))
    fail(fmt::format("found {}, expected a number of 0 or more", shown(*value_)));
  return value;
}

std::optional<double> ForeignValue::number(std::string_view name) const {
  const std::optional<ForeignValue> inner = find(name);
  return inner ? std::optional(inner->as_number()) : std::nullopt;
}

std::optional<std::string> ForeignValue::text(std::string_view name) const {
  const std::optional<ForeignValue> inner = find(name);
  if (!inner) return {};
  if (!inner->value_->is_string()) inner->fail(fmt::format("found {}, expected text", shown(*inner->value_)));
  return inner->value_->get<std::string>();
}

std::optional<ForeignValue> ForeignValue::find_deep(std::string_view name) const {
  if (const auto here = find(name); here && !here->is_object() && !here->is_array()) return here;
  if (!value_->is_object()) return {};
  for (const auto& [key, inner] : value_->items()) {
    if (!inner.is_object()) continue;
    if (auto found = ForeignValue(inner, *file_, path_of(key)).find_deep(name)) return found;
  }
  return {};
}

void ForeignValue::fail(const std::string& text) const {
  throw InputError(Where{*file_, 0, 0}, path_.empty() ? text : fmt::format("{}: {}", path_, text));
}

}  // namespace plimsoll::study
