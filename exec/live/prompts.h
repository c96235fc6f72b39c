// SPDX-License-Identifier: Apache-2.0
// Prompts as token ids in a file, one JSON object a line: {"id": "a", "tokens": [1, 2, 3]} (docs/forward.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::exec {

struct Prompt {
  std::string id;  // from the file, else the line number
  std::vector<std::int32_t> tokens;
};

/// Limits on prompts.
struct PromptLimits {
  std::int32_t vocabulary = 0;
  std::int64_t positions = 0;  // most tokens of a sequence in the model; 0: no limit
  std::int64_t generated = 0;  // tokens that follow each prompt; the last one does not go through the model
};

/// Throws InputError with file and line for a line that is not such an object, an unknown key, an empty prompt, a
/// duplicate id, a token outside the vocabulary, a prompt longer than the context, or a file that has no prompts or is
/// larger than 256 MiB.
[[nodiscard]] std::vector<Prompt> read_prompts(const std::string& path, const PromptLimits& limits);

}  // namespace plimsoll::exec
