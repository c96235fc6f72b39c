// SPDX-License-Identifier: Apache-2.0
// The pre-tokenizers of tokenizer.json: Split, ByteLevel, Metaspace, Digits, and Sequence of them. They divide text
// into the pieces within which a model merges tokens. Pieces flow through the stages one by one, so no list of them is
// kept.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

namespace plimsoll::text {

/// A part of a text.
struct Piece {
  std::string_view text;
  bool first = false;  // begins where the whole text does
};

/// Takes pieces that are not empty. They are valid during the call.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void take(const Piece& piece) = 0;
};

/// A stage between two sinks.
class PieceStage {
 public:
  virtual ~PieceStage() = default;
  /// Passes the parts of the piece on to `next`.
  virtual void apply(const Piece& piece, PieceSink& next) const = 0;
};

/// Divides normalized text into pieces. Several threads may use one.
class PreTokenizer {
 public:
  PreTokenizer();
  /// Reads the key `pre_tokenizer`, which may be null. Throws InputError for one that is not supported.
  explicit PreTokenizer(const nlohmann::json& json);
  ~PreTokenizer();
  PreTokenizer(PreTokenizer&& other) noexcept;
  PreTokenizer& operator=(PreTokenizer&& other) noexcept;

  /// Returns whether the pieces are bytes, each of which is a symbol of the vocabulary in the alphabet of
  /// text/utf8.h.
  [[nodiscard]] bool gives_bytes() const { return gives_bytes_; }
  /// Divides valid UTF-8; empty pieces are dropped.
  void split(const Piece& text, PieceSink& sink) const;

 private:
  void add(const nlohmann::json& json);
  void add_byte_level(const nlohmann::json& json);

  std::vector<std::unique_ptr<PieceStage>> stages_;
  bool gives_bytes_ = false;
};

}  // namespace plimsoll::text
