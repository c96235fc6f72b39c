// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in a text before it is split: control tokens such as <|im_end|>, and others that were added to
// a vocabulary.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe.h"

namespace plimsoll::text {

struct AddedToken {
  TokenId id = -1;
  std::string content;                  // as it is stated
  std::string spelling;                 // the same, normalized if it is looked for in normalized text
  bool single_word = false;             // only if neither neighbour is a character of a word
  bool lstrip = false, rstrip = false;  // takes the spaces before, after
  bool normalized = false;              // looked for in normalized text
  bool special = false;                 // a control token
};

/// Finds added tokens in texts. Several threads may use one.
class AddedTokenFinder {
 public:
  /// Tokens without content are ignored.
  explicit AddedTokenFinder(std::vector<AddedToken> tokens = {});

  /// Splits a text from left to right. Calls part(text, token) for each token that it finds, and with null for the text
  /// between tokens. If several tokens begin at one place, the longest is taken.
  void divide(std::string_view text,
              const std::function<void(std::string_view part, const AddedToken* token)>& part) const;

 private:
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> children;
    std::int32_t token = -1;
  };
  [[nodiscard]] std::uint32_t child(std::uint32_t node, unsigned char byte) const;
  [[nodiscard]] const AddedToken* longest_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<std::uint32_t, 256> first_{};  // nodes of first bytes; 0: none
};

}  // namespace plimsoll::text
