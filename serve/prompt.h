// SPDX-License-Identifier: Apache-2.0
// A prompt as the scheduler sees it: its number of tokens, and a hash for each full block, so that prompts with the
// same beginning share cached blocks. Keeps none of the text.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "sched/types.h"

namespace plimsoll::serve {

/// Returns a number for each token of a text that is counted: the same for the same characters. A token is
/// `chars_per_token` characters (not bytes); the last one may be shorter. `text` must be valid UTF-8.
[[nodiscard]] std::vector<std::uint64_t> counted_tokens(std::string_view text, double chars_per_token);

class PromptCounter {
 public:
  /// `chars_per_token` as for counted_tokens(). `block_tokens` is the number of tokens that a hash represents; 0 for no
  /// hashes.
  PromptCounter(double chars_per_token, sched::Tok block_tokens)
      : chars_per_token_(chars_per_token), block_tokens_(block_tokens) {}

  /// Adds a text, which starts a new token. `text` must be valid UTF-8.
  void add_text(std::string_view text);
  /// Adds `count` tokens that are identified by `value` alone.
  void add_token(std::uint64_t value, std::int64_t count = 1);

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// Returns the hashes of the full blocks. Each hash covers all tokens up to the end of its block.
  [[nodiscard]] std::vector<std::uint64_t> take_hashes() { return std::move(hashes_); }

 private:
  double chars_per_token_;
  sched::Tok block_tokens_;
  std::int64_t tokens_ = 0;
  std::uint64_t path_ = 0;
  std::vector<std::uint64_t> hashes_;
};

}  // namespace plimsoll::serve
