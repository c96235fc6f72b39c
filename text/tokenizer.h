// SPDX-License-Identifier: Apache-2.0
// Text to tokens and back, as a tokenizer.json of Hugging Face's tokenizers describes: byte-pair encoding with its
// normalizers, pre-tokenizers, added tokens, template of special tokens and decoders. What is not supported is refused
// by its name when the file is read; truncation and padding are ignored.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/token_decoder.h"

namespace plimsoll::text {

/// Several threads may use one. It stays where it was made: encoders and streams refer to it.
class Tokenizer {
 public:
  /// Parses a tokenizer.json; `file` is for messages. Throws InputError.
  Tokenizer(std::string_view json, const std::string& file);
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  /// Reads a file. Throws InputError.
  [[nodiscard]] static std::unique_ptr<Tokenizer> read(const std::string& path);

  /// Returns the largest id + 1.
  [[nodiscard]] TokenId size() const { return size_; }
  [[nodiscard]] std::optional<TokenId> id_of(std::string_view token) const;
  /// Returns the token as the vocabulary spells it; null for an unknown id. An added token that is matched in
  /// normalized text is returned normalized.
  [[nodiscard]] const std::string* token(TokenId id) const;
  /// Returns whether decode() skips the token.
  [[nodiscard]] bool is_special(TokenId id) const;
  /// Returns the text of the tokens; unknown ids are skipped.
  [[nodiscard]] std::string decode(std::span<const TokenId> ids, bool skip_special) const;

 private:
  friend class TokenEncoder;
  friend class TextStream;
  void read_added_tokens(const nlohmann::json& json);
  void read_post_processor(const nlohmann::json& json);
  void read_template(const nlohmann::json& json);

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<BpeModel> model_;
  TokenDecoder decoder_;
  std::vector<TokenId> before_, after_;  // special tokens around a text
  std::map<TokenId, AddedToken> added_;
  AddedTokenFinder raw_tokens_, normalized_tokens_;
  TokenId size_ = 0;
};

/// Encodes texts and caches the tokens of words. For one thread.
class TokenEncoder {
 public:
  explicit TokenEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer), words_(*tokenizer.model_) {}

  /// Appends the tokens of a text. Bytes that are not UTF-8 count as U+FFFD. With `specials`, the special tokens of the
  /// tokenizer's template are added, such as the one that begins a sequence. Throws InputError if a regular expression
  /// needs too much memory for this text.
  void encode(std::string_view text, bool specials, std::vector<TokenId>& out);
  [[nodiscard]] std::vector<TokenId> encode(std::string_view text, bool specials);

 private:
  void encode_section(std::string_view section, bool first, std::vector<TokenId>& out);

  const Tokenizer& tokenizer_;
  BpeEncoder words_;
};

/// Turns tokens that come one by one into text. Each part is whole characters; joined, the parts are the whole text.
class TextStream {
 public:
  /// With `skip_special`, special tokens have no text.
  TextStream(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(tokenizer), skip_special_(skip_special), chain_(tokenizer.decoder_) {}

  /// Appends the text, possibly empty, that no later token can change.
  void push(TokenId id, std::string& out);
  /// Appends what was held back. Call it once, after the last token.
  void finish(std::string& out) { chain_.finish(out); }

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  DecodeChain chain_;
};

}  // namespace plimsoll::text
