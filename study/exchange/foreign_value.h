// SPDX-License-Identifier: Apache-2.0
// A value of foreign JSON with its path for error messages. Private to study/exchange.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "model/error.h"

namespace plimsoll::study {

class ForeignValue {
 public:
  /// `path` is the position in the file, such as "benchmarks[2].metrics". The value must outlive this object.
  ForeignValue(const nlohmann::json& value, const std::string& file, std::string path)
      : value_(&value), file_(&file), path_(std::move(path)) {}

  [[nodiscard]] bool is_object() const { return value_->is_object(); }
  [[nodiscard]] bool is_array() const { return value_->is_array(); }
  [[nodiscard]] std::size_t size() const { return value_->size(); }
  /// Returns nullopt if the member is missing or null, or if this is not an object.
  [[nodiscard]] std::optional<ForeignValue> find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name).has_value(); }
  [[nodiscard]] ForeignValue at(std::size_t index) const;
  /// Returns the member, which must be an object or a list; throws InputError otherwise.
  [[nodiscard]] ForeignValue object(std::string_view name) const;
  [[nodiscard]] ForeignValue list(std::string_view name) const;

  /// Returns a number of at least 0; nullopt if there is none. Throws InputError for another kind of value.
  [[nodiscard]] std::optional<double> number(std::string_view name) const;
  /// Returns this value as a number of at least 0. Throws InputError for any other value.
  [[nodiscard]] double as_number() const;
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  /// Returns the first number or text with this name at any depth of this value.
  [[nodiscard]] std::optional<ForeignValue> find_deep(std::string_view name) const;
  [[nodiscard]] bool is_number() const { return value_->is_number(); }

  [[noreturn]] void fail(const std::string& text) const;
  [[nodiscard]] const nlohmann::json& raw() const { return *value_; }

 private:
  [[nodiscard]] std::string path_of(std::string_view name) const;
  const nlohmann::json* value_;
  const std::string* file_;
  std::string path_;
};

}  // namespace plimsoll::study
