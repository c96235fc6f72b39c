// SPDX-License-Identifier: Apache-2.0
// Reads prompts as token ids, one JSON object per line: {"id": "a", "tokens": [1, 2, 3]} (docs/forward.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "exec/forward_input.h"
#include "sched/types.h"

namespace plimsoll::exec {

struct OpenRequest;

struct Prompt {
  std::string id;  // from the file, otherwise the line number
  std::vector<std::int32_t> tokens;
};

/// Limits on prompts.
struct PromptLimits {
  std::int32_t vocabulary = 0;
  std::int64_t positions = 0;  // most tokens of a sequence in the model; 0: no limit
  std::int64_t generated = 0;  // tokens that follow each prompt; the last one does not go through the model
};

/// Reads a file of prompts. Throws InputError, with file and line, for a line that is not such an object, an unknown
/// key, an empty prompt, a duplicate id, a token outside the vocabulary, or a prompt longer than the context; also for
/// a file that has no prompts or is larger than 256 MiB.
[[nodiscard]] std::vector<Prompt> read_prompts(const std::string& path, const PromptLimits& limits);

// The prompt tokens of live requests: drawn, read from a file, or sent by real clients (token_requests.h). A drawn
// token depends only on (seed, request, position); in a shared prefix it depends on the block instead of the request.

class PromptSource {
 public:
  virtual ~PromptSource() = default;
  /// Ids are drawn evenly from [0, vocabulary).
  PromptSource(std::uint64_t seed, std::int64_t vocabulary) : seed_(seed), vocabulary_(vocabulary) {}
  /// Request i takes prompt i modulo their number, repeated or cut to the request's length. No prompt may be empty.
  explicit PromptSource(std::vector<std::vector<std::int32_t>> given) : given_(std::move(given)) {}

  PromptSource(const PromptSource&) = default;
  PromptSource& operator=(const PromptSource&) = default;

  /// Appends the prompt tokens of a request.
  virtual void append(const OpenRequest& request, std::vector<std::int32_t>& out) const;
  /// Returns how to sample the request's tokens; nullopt: by StepBuilderConfig::sampling.
  [[nodiscard]] virtual std::optional<Sampling> sampling(const OpenRequest& /*request*/) const { return {}; }

 private:
  [[nodiscard]] std::int32_t draw(std::uint64_t key, std::uint64_t position) const;

  std::uint64_t seed_ = 0;
  std::int64_t vocabulary_ = 1;
  std::vector<std::vector<std::int32_t>> given_;
};

}  // namespace plimsoll::exec
