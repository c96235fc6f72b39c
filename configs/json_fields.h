// SPDX-License-Identifier: Apache-2.0
// The fields of a JSON object in a file and their positions, so that errors can state them. Private to configs/.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>

#include "model/error.h"

namespace plimsoll::configs {

/// The range of an integer field.
struct Range {
  std::int64_t min = 1, max = 1;
};

/// A field's name and its alternatives; the first one that is present is used.
class FieldName {
 public:
  FieldName(const char* name) : names_{name} {}  // NOLINT(google-explicit-constructor): one name is usual
  FieldName(std::initializer_list<std::string> names) : names_(names) {}
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

/// Conversions throw InputError at the field (at the file if it is missing) with the value found and the values
/// allowed.
class JsonFields {
 public:
  /// Throws InputError if the file is missing, a directory, larger than 4 MiB, not JSON or not an object, if an object
  /// has a duplicate name, or if objects nest deeper than 64 levels.
  [[nodiscard]] static JsonFields from_file(const std::string& path);

  [[nodiscard]] std::int32_t whole(const FieldName& field, Range range) const;
  /// The fallback replaces a missing or null field.
  [[nodiscard]] std::int32_t whole_or(const FieldName& field, Range range, std::int32_t fallback) const;
  [[nodiscard]] double number_or(const FieldName& field, double min, double max, double fallback) const;
  [[nodiscard]] bool flag_or(const FieldName& field, bool fallback) const;
  [[nodiscard]] std::string text(const FieldName& field) const;
  [[nodiscard]] std::string text_or(const FieldName& field, const std::string& fallback) const;
  /// Returns the value, or nullptr if there is none. Valid for the lifetime of this object.
  [[nodiscard]] const nlohmann::json* find(const FieldName& field) const;
  [[nodiscard]] bool is_null(const FieldName& field) const;
  /// Returns the fields of an inner object, or nullopt if it is missing or null. Their errors name "outer.inner" at the
  /// position of the outer name.
  [[nodiscard]] std::optional<JsonFields> inside(const FieldName& field) const;
  /// Sets values for missing fields.
  void add_defaults(const nlohmann::json& defaults);
  [[nodiscard]] const std::string& file() const { return file_; }
  [[noreturn]] void fail(const FieldName& field, const std::string& text) const;

 private:
  struct Found {
    const std::string& name;
    const nlohmann::json* value;
  };
  [[nodiscard]] Found look_up(const FieldName& field) const;
  [[nodiscard]] std::int32_t converted(const FieldName& field, const nlohmann::json& value, Range range) const;

  std::string file_, outer_;  // outer_: "rope_scaling." for an inner object
  nlohmann::json object_;
  std::map<std::string, Where> places_;  // of the names
  Where whole_;                          // position of the object itself, for names without a position of their own
};

}  // namespace plimsoll::configs
