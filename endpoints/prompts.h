// SPDX-License-Identifier: Apache-2.0
// The prompts of a measured run. Each begins with tokens that depend on the run's nonce and the request, so that no
// cache of the server can help. Where the workload shares prefixes, the prompts share exactly those.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "endpoints/api.h"
#include "sched/types.h"

namespace plimsoll::endpoints {

/// The fields of sched::NewRequest that determine a prompt.
struct PromptSpec {
  std::uint64_t serial = 0;
  sched::Tok input = 1;
  std::span<const std::uint64_t> hashes;
  sched::Tok hash_block_tokens = 0;
};

/// A model of a server's tokenizer: tokens = added + per word x words + per character x characters. Before the first
/// learn(), a word counts as a token.
class TokenModel {
 public:
  void learn(double words, double characters, double tokens);
  [[nodiscard]] double tokens(double words, double characters) const;
  /// Tokens that the server adds to every prompt, such as those of a chat template.
  [[nodiscard]] double added() const { return factors_[0]; }

 private:
  using Row = std::array<double, 3>;
  std::array<Row, 3> sums_{};  // of the normal equations: 1, words, characters
  Row products_{};
  Row factors_{0, 1, 0};
};

class Prompts {
 public:
  /// `nonce` differs from run to run. Ids are from the middle three quarters of the vocabulary, because special tokens
  /// are at its ends.
  Prompts(std::uint64_t nonce, std::int64_t vocabulary) : nonce_(nonce), vocabulary_(vocabulary) {}

  /// Returns prompts for another point or replication of the same run. They differ from these, but keep what was
  /// learnt.
  [[nodiscard]] Prompts salted(std::uint64_t salt) const;
  void set_vocabulary(std::int64_t tokens) { vocabulary_ = tokens; }
  /// Uses the prompts of a file in turn; each is repeated or cut to the length of its request.
  void give_ids(std::vector<std::vector<std::int32_t>> given) { given_ = std::move(given); }

  [[nodiscard]] std::vector<std::int32_t> ids(const PromptSpec& spec) const;
  /// Returns a text of common words that should have `input` tokens, as estimated from the server's earlier counts.
  [[nodiscard]] std::string text(const PromptSpec& spec) const;
  /// Returns a sample text for learn(): words of the list that are all short, or all long.
  [[nodiscard]] static std::string sample(std::int64_t words, bool are_long);
  /// Records that the server counted `tokens` in a text of the two functions above. Not thread-safe.
  void learn(const std::string& text, sched::Tok tokens);

 private:
  [[nodiscard]] std::uint64_t key(const PromptSpec& spec, sched::Tok position, std::uint64_t& within) const;

  std::uint64_t nonce_ = 0;
  std::int64_t vocabulary_ = 0;
  std::vector<std::vector<std::int32_t>> given_;
  TokenModel model_;
};

}  // namespace plimsoll::endpoints
