// SPDX-License-Identifier: Apache-2.0
// The fields of a JSON object in a file, with the places where they stand, so that errors can name them; private to
// configs/.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "model/error.h"

namespace plimsoll::configs {

/// Whole numbers that a field may have.
struct Range {
  std::int64_t min = 1, max = 1;
};

/// A field by its name and the other names it goes by; the first one that is there counts.
class FieldName {
 public:
  FieldName(const char* name) : names_{name} {}  // NOLINT(google-explicit-constructor): one name is the rule
  FieldName(std::initializer_list<std::string> names) : names_(names) {}
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

/// Conversions throw InputError at the field (at the file, where it is missing) with what was found and what is
/// allowed.
class JsonFields {
 public:
  /// Throws InputError: no such file, a directory, larger than 4 MiB, not JSON, not an object, a name that stands twice
  /// in an object, nested deeper than 64 levels.
  [[nodiscard]] static JsonFields from_file(const std::string& path);

  [[nodiscard]] std::int32_t whole(const FieldName& field, Range range) const;
  /// The fallback stands for a missing field and for null.
  [[nodiscard]] std::int32_t whole_or(const FieldName& field, Range range, std::int32_t fallback) const;
  [[nodiscard]] double number_or(const FieldName& field, double min, double max, double fallback) const;
  [[nodiscard]] bool flag_or(const FieldName& field, bool fallback) const;
  [[nodiscard]] std::string text(const FieldName& field) const;
  [[nodiscard]] std::string text_or(const FieldName& field, const std::string& fallback) const;
  /// The value as it is; nullptr when there is none. Valid as long as this object.
  [[nodiscard]] const nlohmann::json* find(const FieldName& field) const;
  [[nodiscard]] bool is_null(const FieldName& field) const;
  /// The fields of an object inside this one, nullopt where it is missing or null; their errors name "outer.inner" at
  /// the place of the outer name.
  [[nodiscard]] std::optional<JsonFields> inside(const FieldName& field) const;
  /// Fields that are missing take these.
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

  std::string file_, outer_;  // outer_: "rope_scaling." inside an object
  nlohmann::json object_;
  std::map<std::string, Where> places_;  // of the names
  Where whole_;                          // of the object itself, where a name has no place of its own
};

}  // namespace plimsoll::configs
