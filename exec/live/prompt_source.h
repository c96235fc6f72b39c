// SPDX-License-Identifier: Apache-2.0
// The prompt tokens of live requests, drawn or read from a file. A drawn token depends on (seed, request, position)
// alone; in a shared prefix it depends on the block instead of the request.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sched/types.h"

namespace plimsoll::exec {

class PromptSource {
 public:
  /// Ids are drawn evenly from [0, vocabulary).
  PromptSource(std::uint64_t seed, std::int64_t vocabulary) : seed_(seed), vocabulary_(vocabulary) {}
  /// Request i takes prompt i modulo their number, repeated or cut to the request's length. No prompt may be empty.
  explicit PromptSource(std::vector<std::vector<std::int32_t>> given) : given_(std::move(given)) {}

  /// Appends the `input` prompt tokens of request `serial`; hashes as in sched::NewRequest.
  void append(std::uint64_t serial, sched::Tok input, std::span<const std::uint64_t> hashes,
              sched::Tok hash_block_tokens, std::vector<std::int32_t>& out) const;

 private:
  [[nodiscard]] std::int32_t draw(std::uint64_t key, std::uint64_t position) const;

  std::uint64_t seed_ = 0;
  std::int64_t vocabulary_ = 1;
  std::vector<std::vector<std::int32_t>> given_;
};

}  // namespace plimsoll::exec
