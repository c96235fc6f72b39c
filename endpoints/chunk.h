// SPDX-License-Identifier: Apache-2.0
// One message of a streamed answer: how many tokens it has, whether it ends the answer, and which error it reports.
// Keeps no text except that of an error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::endpoints {

struct Chunk {
  bool text = false;          // the message has content
  std::int32_t ids = 0;       // number of token ids, or of tokens with log probabilities; 0 if the message lists none
  bool finished = false;      // the message gives a finish reason
  std::string finish_reason;  // at most 32 characters
  std::optional<std::int32_t> prompt_tokens, completion_tokens, cached_tokens;  // of `usage`
  bool error = false;                                                           // the message reports an error
  std::string error_text;                                                       // at most 4096 bytes, as sent
  bool operator==(const Chunk&) const = default;
};

/// Parses a message of any interface of api.h. Returns nullopt if it is not a JSON object, or is nested deeper than 64
/// levels. Never throws.
[[nodiscard]] std::optional<Chunk> read_chunk(std::string_view json);

/// Returns the text of an error body: the message in the JSON of any interface, else the body itself.
[[nodiscard]] std::string error_message(std::string_view body);

}  // namespace plimsoll::endpoints
