// SPDX-License-Identifier: Apache-2.0
// The decoders of tokenizer.json: ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip, and Sequence of them.
// Tokens become text one by one; text that later tokens may still change is held back.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::text {

/// One decoder of a chain, with the state of one stream. Before a stage that joins tokens, each push() is a token;
/// after it, each is a part of one text.
class DecodeStage {
 public:
  using Next = std::function<void(std::string_view)>;
  virtual ~DecodeStage() = default;
  virtual void push(std::string_view token, const Next& next) = 0;
  /// Passes on what is held back.
  virtual void finish(const Next& next) { static_cast<void>(next); }
};

/// Makes the stages of a stream from the key `decoder`. Several threads may use one.
class TokenDecoder {
 public:
  using MakeStage = std::function<std::unique_ptr<DecodeStage>()>;

  TokenDecoder() = default;
  /// `json` may be null: tokens are then joined by spaces. Throws InputError for a decoder that is not supported.
  explicit TokenDecoder(const nlohmann::json& json);
  [[nodiscard]] std::vector<std::unique_ptr<DecodeStage>> stages() const;

 private:
  void add(const nlohmann::json& json);

  std::vector<MakeStage> makers_;
  bool joined_ = false;  // the stages so far join the tokens into one text
};

/// Runs tokens through a chain of stages.
class DecodeChain {
 public:
  explicit DecodeChain(const TokenDecoder& decoder) : stages_(decoder.stages()) {}
  /// Appends the text that is certain after this token.
  void push(std::string_view token, std::string& out) { pass(0, token, out); }
  /// Ends the stream: appends the rest.
  void finish(std::string& out);

 private:
  void pass(std::size_t stage, std::string_view token, std::string& out);

  std::vector<std::unique_ptr<DecodeStage>> stages_;
};

}  // namespace plimsoll::text
