// SPDX-License-Identifier: Apache-2.0
// A prompt as the scheduler sees it: how many tokens it has, and a hash for each of its whole blocks, so that prompts
// that begin alike share cached blocks. Nothing of its text is kept.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "sched/types.h"

namespace plimsoll::serve {

class PromptCounter {
 public:
  /// A token of text is `chars_per_token` characters (not bytes), the last one perhaps fewer. `block_tokens`: tokens
  /// that a hash stands for; 0: none are made.
  PromptCounter(double chars_per_token, sched::Tok block_tokens)
      : chars_per_token_(chars_per_token), block_tokens_(block_tokens) {}

  /// Adds a text, which begins with a token of its own. `text` is valid UTF-8.
  void add_text(std::string_view text);
  /// Adds `count` tokens known by `value` alone.
  void add_token(std::uint64_t value, std::int64_t count = 1);

  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  /// Of the whole blocks, each of all tokens up to the block's end.
  [[nodiscard]] std::vector<std::uint64_t> take_hashes() { return std::move(hashes_); }

 private:
  double chars_per_token_;
  sched::Tok block_tokens_;
  std::int64_t tokens_ = 0;
  std::uint64_t path_ = 0;
  std::vector<std::uint64_t> hashes_;
};

}  // namespace plimsoll::serve
