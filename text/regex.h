// SPDX-License-Identifier: Apache-2.0
// The regular expressions of tokenizer.json, in the dialect of Oniguruma with Ruby's syntax, which Hugging Face's
// tokenizers use. They are translated to PCRE2's dialect and compiled to machine code. Classes of characters are those
// of Unicode 16, as in Oniguruma, although Debian's PCRE2 knows Unicode 14.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll::text {

/// A compiled pattern. Several threads may use one; each call finds its scratch memory by thread.
class Regex {
 public:
  struct Match {
    std::size_t begin = 0, end = 0;
  };

  /// Throws InputError, with the construct's name, for a pattern that is invalid or means something else in PCRE2.
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&& other) noexcept;
  Regex& operator=(Regex&& other) noexcept;

  /// Goes through the matches in a text, which must be valid UTF-8 and outlive the walk, from left to right.
  class Walk {
   public:
    Walk(const Regex& regex, std::string_view text);
    /// Finds the next match. An empty match directly after the one before is skipped. Throws InputError if the pattern
    /// needs too much memory for this text.
    [[nodiscard]] bool next(Match& match);

   private:
    const void* code_;
    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t last_end_ = std::string_view::npos;
  };

 private:
  friend class Walk;
  struct Code;
  std::unique_ptr<Code> code_;
};

/// Returns a pattern that matches exactly this text.
[[nodiscard]] std::string literal_pattern(std::string_view text);

// ---- translation from Oniguruma's dialect to PCRE2's (regex_dialect.cpp), for regex.cpp ------------------------

/// Characters that Unicode has added since the version of PCRE2's tables.
enum class NewerCharacters : std::uint8_t { leave_out, list };

/// Returns the same pattern in PCRE2's dialect. Throws InputError for a construct that PCRE2 lacks.
[[nodiscard]] std::string to_pcre2(const std::string& pattern, NewerCharacters newer);
/// Returns whether valid UTF-8 has a character that Unicode added in the versions 15.0 to 16.0.
[[nodiscard]] bool has_newer_character(std::string_view text);

}  // namespace plimsoll::text
