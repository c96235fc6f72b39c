// SPDX-License-Identifier: Apache-2.0
#include "exec/live/prompts.h"

#include <algorithm>

#include "exec/live/step_order.h"
#include "exec/weights/splitmix.h"

namespace plimsoll::exec {

namespace {
// Keeps the random streams of requests apart from those of shared blocks, whose hashes may be any number.
constexpr std::uint64_t kRequest = 0x72657175657374ULL, kShared = 0x736861726564ULL;
}  // namespace

std::int32_t PromptSource::draw(std::uint64_t key, std::uint64_t position) const {
  const std::uint64_t bits = finalized(finalized(finalized(seed_) ^ key) + kSplitMixStep * (position + 1));
  return static_cast<std::int32_t>(((bits >> 32U) * static_cast<std::uint64_t>(vocabulary_)) >> 32U);
}

void PromptSource::append(const OpenRequest& request, std::vector<std::int32_t>& out) const {
  const std::vector<std::uint64_t>& hashes = request.prefix_hashes;
  const auto length = static_cast<std::size_t>(request.input);
  out.reserve(out.size() + length);
  if (!given_.empty()) {
    const std::vector<std::int32_t>& prompt = given_[request.serial % given_.size()];
    for (std::size_t i = 0; i < length; ++i) out.push_back(prompt[i % prompt.size()]);
    return;
  }
  const auto block = static_cast<std::size_t>(request.hash_block_tokens);
  const std::size_t shared = std::min(length, hashes.size() * block);
  for (std::size_t i = 0; i < shared; ++i) out.push_back(draw(finalized(hashes[i / block] ^ kShared), i % block));
  for (std::size_t i = shared; i < length; ++i) out.push_back(draw(finalized(request.serial ^ kRequest), i));
}

}  // namespace plimsoll::exec
