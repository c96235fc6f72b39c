// SPDX-License-Identifier: Apache-2.0
#include "exec/prompt_source.h"

#include <algorithm>

namespace plimsoll::exec {

namespace {
// Keeps the tokens of requests apart from those of shared blocks, whose hashes may be any number.
constexpr std::uint64_t kRequest = 0x72657175657374ULL, kShared = 0x736861726564ULL;

// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators. OOPSLA 2014).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}
}  // namespace

std::int32_t PromptSource::draw(std::uint64_t key, std::uint64_t position) const {
  const std::uint64_t bits = mix(mix(mix(seed_) ^ key) + 0x9e3779b97f4a7c15ULL * (position + 1));
  return static_cast<std::int32_t>(((bits >> 32U) * static_cast<std::uint64_t>(vocabulary_)) >> 32U);
}

void PromptSource::append(std::uint64_t serial, sched::Tok input, std::span<const std::uint64_t> hashes,
                          sched::Tok hash_block_tokens, std::vector<std::int32_t>& out) const {
  const auto length = static_cast<std::size_t>(input);
  out.reserve(out.size() + length);
  if (!given_.empty()) {
    const std::vector<std::int32_t>& prompt = given_[serial % given_.size()];
    for (std::size_t i = 0; i < length; ++i) out.push_back(prompt[i % prompt.size()]);
    return;
  }
  const auto block = static_cast<std::size_t>(hash_block_tokens);
  const std::size_t shared = std::min(length, hashes.size() * block);
  for (std::size_t i = 0; i < shared; ++i) out.push_back(draw(mix(hashes[i / block] ^ kShared), i % block));
  for (std::size_t i = shared; i < length; ++i) out.push_back(draw(mix(serial ^ kRequest), i));
}

}  // namespace plimsoll::exec
