// SPDX-License-Identifier: Apache-2.0
// One message of a streamed answer: how many tokens it brings, whether the answer ends, what went wrong. Texts are not
// kept, except an error's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::endpoints {

struct Chunk {
  bool text = false;          // the content is not empty
  std::int32_t ids = 0;       // token ids, or tokens with log probabilities; 0: none are named
  bool finished = false;      // a reason to finish is given
  std::string finish_reason;  // at most 32 characters
  std::optional<std::int32_t> prompt_tokens, completion_tokens, cached_tokens;  // of usage
  bool error = false;                                                           // the message reports an error
  std::string error_text;                                                       // at most 4096 bytes, as sent
  bool operator==(const Chunk&) const = default;
};

/// Reads a message of any interface of api.h. Nothing if it is no JSON object, or nested deeper than 64 levels. Never
/// throws.
[[nodiscard]] std::optional<Chunk> read_chunk(std::string_view json);

/// The text of an error's body: the message in JSON of any interface, else the body itself.
[[nodiscard]] std::string error_message(std::string_view body);

}  // namespace plimsoll::endpoints
