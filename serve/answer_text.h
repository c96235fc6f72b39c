// SPDX-License-Identifier: Apache-2.0
// The text of one answer of a real model, token by token, and where it ends. Text is released in whole characters, and
// never a part of what may become a stop string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <array>
#include <cstddef>
#include "sched/types.h"
#include "serve/vocabulary.h"
#include "text/tokenizer.h"

namespace plimsoll::serve {

/// What ends an answer besides its cap.
struct StopRules {
  bool ignores_ends = false;              // the vocabulary's end tokens do not end the answer
  std::vector<std::int32_t> tokens = {};  // further tokens that end it; they have no text
  std::vector<std::string> strings = {};  // none is empty; the text ends before the first one that is complete
  bool includes_stop = false;             // the text of the token or the string that ended the answer is part of it
  sched::Tok min_tokens = 0;              // nothing ends the answer before it has this many tokens
  bool skips_special = true;              // special tokens have no text
};

/// Finds the first stop string that is complete in a text that comes in parts. How the text is divided does not matter.
class StopFinder {
 public:
  explicit StopFinder(std::vector<std::string> strings) : strings_(std::move(strings)) {}
  /// Appends the text that can no longer be part of a stop string. If a stop string is now complete, appends the text
  /// before it and returns the string's index; nothing may be pushed afterwards. If `finds` is false, strings that
  /// become complete are ignored.
  [[nodiscard]] std::optional<std::size_t> push(std::string_view text, bool finds, std::string& out);
  /// Appends what was held back.
  void finish(std::string& out);

 private:
  [[nodiscard]] std::size_t beginnings(std::size_t end) const;

  std::vector<std::string> strings_;
  std::string held_;
};

class AnswerText {
 public:
  /// The vocabulary must outlive it.
  AnswerText(const Vocabulary& vocabulary, StopRules rules);

  /// Adds a token. Returns whether it ends the answer.
  [[nodiscard]] bool push(std::int32_t id);
  /// The answer has ended, by its last token or by its cap. Call it once.
  void finish();

  [[nodiscard]] sched::Tok tokens() const { return static_cast<sched::Tok>(ids_.size()); }
  [[nodiscard]] std::int32_t id(sched::Tok token) const { return ids_[static_cast<std::size_t>(token)]; }
  [[nodiscard]] bool is_special(sched::Tok token) const;
  /// Returns the text that tokens `from` to `to` made certain.
  [[nodiscard]] std::string_view text(sched::Tok from, sched::Tok to) const;

  /// Returns whether something other than the cap ended the answer.
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// Returns the string or token of StopRules that ended the answer; monostate if an end token of the model or the cap
  /// did.
  [[nodiscard]] const std::variant<std::monostate, std::int32_t, std::string>& stop_reason() const { return reason_; }

 private:
  [[nodiscard]] bool is_end(std::int32_t id);
  void take(std::string_view certain, bool finds);
  void append_text_of(std::int32_t id, std::string& out);

  const Vocabulary& vocabulary_;
  StopRules rules_;
  std::optional<text::TextStream> stream_;  // none: a synthetic vocabulary
  StopFinder finder_;
  std::vector<std::int32_t> ids_;
  std::vector<std::size_t> ends_;  // [tokens]: how much text was certain after each
  std::string text_;
  bool stopped_ = false;
  std::variant<std::monostate, std::int32_t, std::string> reason_;
};

/// The text of tokens without meaning. With its space, a word has about four characters, as a token of a prompt does.
inline constexpr std::array<std::string_view, 16> kWords = {
    "the", "sea", "is", "calm", "and", "our", "ship", "can", "take", "on", "more", "load", "to", "her", "own", "mark"};
[[nodiscard]] inline std::string_view word(std::int32_t token) {
  return kWords.at(static_cast<std::size_t>(token) % kWords.size());
}

}  // namespace plimsoll::serve
