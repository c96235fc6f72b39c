// SPDX-License-Identifier: Apache-2.0
// The normalizers of tokenizer.json: NFC, Prepend, Replace, and Sequence of them.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "text/regex.h"

namespace plimsoll::text {

/// Replaces the matches of a pattern, which is plain text or a regular expression.
class Replacement {
 public:
  /// Reads {"pattern": {"String" or "Regex": …}, "content": …}. Throws InputError that begins with `place`.
  Replacement(const nlohmann::json& json, const std::string& place);
  /// Replaces the matches in `text`. May move it to and from `scratch`.
  void apply(std::string& text, std::string& scratch) const;
  [[nodiscard]] const std::string* plain_pattern() const { return std::get_if<std::string>(&pattern_); }
  [[nodiscard]] const std::string& content() const { return content_; }

 private:
  std::variant<std::string, Regex> pattern_;
  std::string content_;
};

/// Puts text into Unicode's normal form C. `text` must be valid UTF-8.
void compose(std::string& text);

/// Rewrites text before it is split. Several threads may use one.
class Normalizer {
 public:
  Normalizer() = default;
  /// Reads the key `normalizer`, which may be null. Throws InputError for a normalizer that is not supported.
  explicit Normalizer(const nlohmann::json& json);

  [[nodiscard]] bool empty() const { return stages_.empty(); }
  /// Rewrites valid UTF-8 in place; empty text stays empty.
  void apply(std::string& text) const;

 private:
  struct Compose {};
  struct Prepend {
    std::string prefix;
  };
  void add(const nlohmann::json& json);

  std::vector<std::variant<Compose, Prepend, Replacement>> stages_;
};

}  // namespace plimsoll::text
