// SPDX-License-Identifier: Apache-2.0
// The lexer of chat templates: Jinja with trim_blocks and lstrip_blocks, as transformers sets it up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
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

/// Splits a template into tokens. Throws InputError, with the line, if the source is malformed.
[[nodiscard]] std::vector<LexToken> lex_template(std::string source);

/// Reads tokens one by one. The last one has the kind `end` and is returned repeatedly. Errors name the token's line.
class TokenReader {
 public:
  using Kind = LexToken::Kind;
  explicit TokenReader(std::vector<LexToken> tokens) : tokens_(std::move(tokens)) {}

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void refuse(std::string_view construct, const std::string& name) const;

  [[nodiscard]] const LexToken& peek(std::size_t ahead = 0) const;
  const LexToken& take();
  void skip(std::size_t count = 1) { at_ += count; }
  void put_back() { --at_; }
  [[nodiscard]] bool is_op(std::string_view text) const { return peek().kind == Kind::op && peek().text == text; }
  [[nodiscard]] bool is_name(std::string_view text) const { return peek().kind == Kind::name && peek().text == text; }
  /// Each consumes the token if it matches, and returns whether it did.
  bool take_op(std::string_view text) { return is_op(text) && (++at_, true); }
  bool take_name(std::string_view text) { return is_name(text) && (++at_, true); }
  /// Each consumes the token, or throws InputError if it does not match.
  void expect_op(std::string_view text);
  std::string expect_identifier();
  void expect_block_end();

 protected:
  [[nodiscard]] const std::vector<LexToken>& tokens() const { return tokens_; }

 private:
  std::vector<LexToken> tokens_;
  std::size_t at_ = 0;
};

}  // namespace plimsoll::text
