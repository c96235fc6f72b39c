// SPDX-License-Identifier: Apache-2.0
// Byte-pair encoding: a piece of text starts as single characters (or bytes). Neighbours are then merged, the pair with
// the lowest rank first and the leftmost of equals, until the table has no merge for any pair.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll::text {

using TokenId = std::int32_t;

/// What a pair of neighbours becomes.
struct Merge {
  std::uint32_t rank = 0xFFFFFFFFU;  // no merge
  TokenId id = -1;
};

/// The merges by pair of tokens: a hash table with open addressing.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges);
  void set(TokenId left, TokenId right, const Merge& merge);
  [[nodiscard]] Merge find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t at = slot_of(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == kFree) return {};
    }
  }

 private:
  static constexpr std::uint64_t kFree = ~0ULL;
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  [[nodiscard]] static std::uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U | static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const {
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) >> 32U) & mask_;
  }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
};

/// Vocabulary and merges. Several threads may use one.
class BpeModel {
 public:
  /// Reads the key `model`. If `bytes`, pieces are bytes, whose characters are those of text/utf8.h. Throws
  /// InputError for another kind of model, for an option that is not supported and for an inconsistent table.
  BpeModel(const nlohmann::json& json, bool bytes);
  BpeModel(const BpeModel&) = delete;  // ids_ refers to tokens_
  BpeModel& operator=(const BpeModel&) = delete;

  [[nodiscard]] std::optional<TokenId> id_of(std::string_view token) const;
  /// Returns null for an id that the vocabulary lacks.
  [[nodiscard]] const std::string* token(TokenId id) const;
  /// Returns the largest id + 1.
  [[nodiscard]] TokenId size() const { return static_cast<TokenId>(tokens_.size()); }

 private:
  friend class BpeEncoder;
  void read_vocabulary(const nlohmann::json& json);
  void read_merges(const nlohmann::json& json);
  void read_fallbacks(const nlohmann::json& json);
  void note_joins();

  bool bytes_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, TokenId> ids_;
  MergeTable merges_{0};
  std::vector<TokenId> characters_;         // by code point below U+10000, or by byte; -1 if unknown
  std::array<TokenId, 256> byte_tokens_{};  // <0x00> to <0xFF>; -1 if missing
  std::vector<bool> joins_space_;           // by code point below U+10000: may be merged with a following U+2581
  bool divides_at_spaces_ = false;
  bool ignore_merges_ = false, byte_fallback_ = false, fuse_unknown_ = false;
  std::optional<TokenId> unknown_;
  std::size_t longest_ = 0;  // token in bytes
};

/// Encodes pieces and caches their tokens. For one thread. The model must outlive it.
class BpeEncoder {
 public:
  explicit BpeEncoder(const BpeModel& model);
  /// Appends the tokens of a piece, which must not be empty.
  void encode(std::string_view piece, std::vector<TokenId>& out);

 private:
  struct Word {
    std::uint64_t hash = 0;
    std::uint32_t key = 0, length = 0;    // in keys_; length 0: no word
    std::uint32_t value = 0, tokens = 0;  // in values_
  };
  struct Symbol {
    TokenId id;
    std::uint32_t rank;  // of the merge with the next one
    TokenId merged;
    std::int32_t previous, next;  // in a long word
  };

  void encode_words(std::string_view piece, std::vector<TokenId>& out);
  void encode_word(std::string_view word, std::vector<TokenId>& out);
  void remember(Word& slot, std::string_view word, std::span<const TokenId> tokens);
  void find_or_merge(std::string_view word, std::vector<TokenId>& out);
  void add_characters(std::string_view word);
  void add_unknown(std::string_view character, std::optional<TokenId>& pending);
  void add_symbol(TokenId id);
  void merge_short();
  void merge_long();
  void rank_pair(Symbol& left, const Symbol& right);

  const BpeModel& model_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> queue_;  // heap of rank and position
  std::vector<Word> words_;           // a cache: one word a slot
  std::string keys_;
  std::vector<TokenId> values_;
};

}  // namespace plimsoll::text
