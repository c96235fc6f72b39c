// SPDX-License-Identifier: Apache-2.0
// The lexer of chat templates: Jinja with trim_blocks and lstrip_blocks, as transformers sets it up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text {

struct LexToken {
  enum class Kind : std::uint8_t {
    text,
    begin_print,
    end_print,
    begin_block,
    end_block,
    name,
    string,
    integer,
    number,
    op,
    end
  };
  Kind kind = Kind::end;
  std::string text;  // of a string: without quotes and escapes
  std::size_t line = 1;
};

/// Throws InputError with the line for what is no template.
[[nodiscard]] std::vector<LexToken> lex_template(std::string source);

}  // namespace plimsoll::text
