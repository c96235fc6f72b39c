// SPDX-License-Identifier: Apache-2.0
// Prompts as token ids in a file, one JSON object a line: {"id": "a", "tokens": [1, 2, 3]} (docs/forward.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::exec {

struct Prompt {
  std::string id;  // of the file, else the number of its line
  std::vector<std::int32_t> tokens;
};

/// What prompts must keep to.
struct PromptLimits {
  std::int32_t vocabulary = 0;
  std::int64_t positions = 0;  // tokens that go through the model at most; 0: no limit
  std::int64_t generated = 0;  // tokens that follow each prompt; the last one does not go through the model
};

/// Throws InputError with file and line: no object of this form, an unknown key, an empty prompt, an id that stands
/// twice, tokens that the vocabulary or the context has no room for, a file without prompts or larger than 256 MiB.
[[nodiscard]] std::vector<Prompt> read_prompts(const std::string& path, const PromptLimits& limits);

}  // namespace plimsoll::exec
