// SPDX-License-Identifier: Apache-2.0
#include "serve/prompt.h"

#include <cmath>

namespace plimsoll::serve {

namespace {

// The finalizer of SplitMix64.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }

}  // namespace

void PromptCounter::add_token(std::uint64_t value, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    ++tokens_;
    if (block_tokens_ <= 0) continue;
    path_ = mixed(path_ + 0x9e3779b97f4a7c15ULL + mixed(value));
    if (tokens_ % block_tokens_ == 0) hashes_.push_back(path_);
  }
}

void PromptCounter::add_text(std::string_view text) {
  for (const std::uint64_t value : counted_tokens(text, chars_per_token_)) add_token(value);
}

// Token k ends before character floor((k + 1) * chars_per_token), counted from the text's start.
std::vector<std::uint64_t> counted_tokens(std::string_view text, double chars_per_token) {
  std::vector<std::uint64_t> out;
  std::uint64_t value = 0;
  std::int64_t characters = 0, tokens = 0;
  double end = 0;
  for (const char c : text) {
    if (begins_character(c)) {
      if (static_cast<double>(characters) >= end) {
        if (tokens > 0) out.push_back(value);
        end = std::floor(static_cast<double>(++tokens) * chars_per_token);
        value = 0x7465787400000000ULL;  // "text": keeps hashes of text apart from ids of tokens
      }
      ++characters;
    }
    value = mixed(value ^ static_cast<unsigned char>(c));
  }
  if (tokens > 0) out.push_back(value);
  return out;
}

}  // namespace plimsoll::serve
