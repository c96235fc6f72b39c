// SPDX-License-Identifier: Apache-2.0
#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "text/json_fields.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

constexpr std::size_t kPlane = 0x10000;  // code points with a direct table
constexpr std::string_view kSpaceMark = "\u2581";
constexpr std::uint32_t kNoMerge = Merge{}.rank;
constexpr TokenId kLargestId = 1 << 24;

}  // namespace

MergeTable::MergeTable(std::size_t merges) : slots_(std::bit_ceil(2 * merges + 2)), mask_(slots_.size() - 1) {}

void MergeTable::set(TokenId left, TokenId right, const Merge& merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t at = slot_of(key);
  while (slots_[at].key != kFree && slots_[at].key != key) at = (at + 1) & mask_;
  slots_[at] = {key, merge};
}

BpeModel::BpeModel(const Json& json, bool bytes) : bytes_(bytes) {
  const std::string type = optional_text(json, "type", "model");
  if (!type.empty() && type != "BPE")
    throw InputError(fmt::format("the model {} is not supported; allowed: BPE", type));
  const Json& dropout = field(json, "dropout");
  if (dropout.is_number() && dropout.get<double>() > 0) throw InputError("model.dropout is not supported");
  for (const char* const name : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!optional_text(json, name, "model").empty()) throw InputError(fmt::format("model.{} is not supported", name));
  ignore_merges_ = flag(json, "ignore_merges", false, "model");
  byte_fallback_ = flag(json, "byte_fallback", false, "model");
  fuse_unknown_ = flag(json, "fuse_unk", false, "model");
  read_vocabulary(json);
  read_merges(json);
  read_fallbacks(json);
  if (!bytes_) note_joins();
}

void BpeModel::read_vocabulary(const Json& json) {
  const Json& vocabulary = field(json, "vocab");
  if (!vocabulary.is_object()) throw InputError("model.vocab: expected an object of tokens and ids");
  std::size_t size = 0;
  for (const auto& [token, id] : vocabulary.items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > kLargestId)
      throw InputError(
          fmt::format("model.vocab: the id of '{}' is not a whole number from 0 to {}", token, kLargestId));
    size = std::max(size, id.get<std::size_t>() + 1);
  }
  tokens_.resize(size);
  for (const auto& [token, id] : vocabulary.items()) tokens_[id.get<std::size_t>()] = token;
  ids_.reserve(size);
  for (std::size_t id = 0; id < size; ++id) {
    if (tokens_[id].empty()) continue;
    ids_.emplace(tokens_[id], static_cast<TokenId>(id));
    longest_ = std::max(longest_, tokens_[id].size());
  }
}

// A merge is "left right", or a list of the two.
void BpeModel::read_merges(const Json& json) {
  const Json& list = field(json, "merges");
  if (!list.is_array()) throw InputError("model.merges: expected a list");
  merges_ = MergeTable(list.size());
  const auto id = [this](const std::string& token) {
    const auto found = id_of(token);
    if (!found) throw InputError(fmt::format("model.merges: the vocabulary lacks '{}'", token));
    return *found;
  };
  std::uint32_t rank = 0;
  for (const Json& item : list) {
    std::string left, right;
    if (item.is_string()) {
      const auto& text = item.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
        throw InputError(fmt::format("model.merges: found '{}', allowed: two tokens with a space between", text));
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
      left = item[0].get<std::string>();
      right = item[1].get<std::string>();
    } else {
      throw InputError("model.merges: expected lists of two tokens");
    }
    const TokenId first = id(left), second = id(right);
    merges_.set(first, second, {rank++, id(left + right)});
  }
}

void BpeModel::read_fallbacks(const Json& json) {
  characters_.assign(bytes_ ? 256 : kPlane, -1);
  if (bytes_) {
    for (std::size_t byte = 0; byte < 256; ++byte) characters_[byte] = id_of(byte_alphabet()[byte]).value_or(-1);
  } else {
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      const std::string& token = tokens_[id];
      if (token.empty() || token.size() != utf8_length(token[0]) || token.size() > 3) continue;
      std::size_t at = 0;
      characters_[read_code_point(token, at)] = static_cast<TokenId>(id);
    }
  }
  for (std::size_t byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = id_of(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  const std::string unknown = optional_text(json, "unk_token", "model");
  if (unknown.empty()) return;
  unknown_ = id_of(unknown);
  if (!unknown_) throw InputError(fmt::format("model.unk_token: the vocabulary lacks '{}'", unknown));
}

// A word may be cut before U+2581, which stands for a space, if no token has the character before it and U+2581 side by
// side: no merge can then cross the cut. So long texts become words even where no pre-tokenizer divides them.
void BpeModel::note_joins() {
  divides_at_spaces_ = characters_[0x2581] >= 0;
  joins_space_.assign(kPlane, false);
  for (const std::string& token : tokens_) {
    for (std::size_t at = token.find(kSpaceMark, 1); at != std::string::npos; at = token.find(kSpaceMark, at + 1)) {
      std::size_t before = last_character(std::string_view(token).substr(0, at));
      const char32_t c = read_code_point(token, before);
      if (c < kPlane) joins_space_[c] = true;
    }
  }
}

std::optional<TokenId> BpeModel::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const std::string* BpeModel::token(TokenId id) const {
  if (id < 0 || id >= size() || tokens_[static_cast<std::size_t>(id)].empty()) return nullptr;
  return &tokens_[static_cast<std::size_t>(id)];
}

namespace {

constexpr std::size_t kWords = std::size_t{1} << 16U;  // slots of the cache
constexpr std::size_t kLongestWord = 128;              // bytes of a word that is remembered
constexpr std::size_t kMostKeys = std::size_t{4} << 20U;
constexpr std::size_t kShortWord = 48;  // symbols up to which a scan is faster than a queue

std::uint64_t hash_of(std::string_view word) {
  std::uint64_t hash = word.size() * 0x9E3779B97F4A7C15ULL;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0xD6E8FEB86659FD93ULL;
    hash ^= hash >> 32U;
  };
  std::size_t at = 0;
  std::uint64_t part = 0;
  for (; at + 8 <= word.size(); at += 8) {
    std::memcpy(&part, word.data() + at, 8);
    mix(part);
  }
  part = 0;
  if (at < word.size()) std::memcpy(&part, word.data() + at, word.size() - at);
  mix(part);
  return hash;
}

}  // namespace

BpeEncoder::BpeEncoder(const BpeModel& model) : model_(model), words_(kWords) {}

void BpeEncoder::encode(std::string_view piece, std::vector<TokenId>& out) {
  if (model_.divides_at_spaces_ && !model_.ignore_merges_)
    encode_words(piece, out);
  else
    encode_word(piece, out);
}

void BpeEncoder::encode_words(std::string_view piece, std::vector<TokenId>& out) {
  std::size_t begin = 0;
  for (std::size_t space = piece.find(kSpaceMark, 1); space != std::string_view::npos;
       space = piece.find(kSpaceMark, space + 1)) {
    std::size_t before = last_character(piece.substr(0, space));
    const char32_t c = read_code_point(piece, before);
    if (c >= kPlane || model_.joins_space_[c] || model_.characters_[c] < 0) continue;
    encode_word(piece.substr(begin, space - begin), out);
    begin = space;
  }
  encode_word(piece.substr(begin), out);
}

void BpeEncoder::encode_word(std::string_view word, std::vector<TokenId>& out) {
  if (word.size() > kLongestWord) return find_or_merge(word, out);
  const std::uint64_t hash = hash_of(word);
  Word& slot = words_[hash & (kWords - 1)];
  if (slot.length == word.size() && slot.hash == hash &&
      std::memcmp(keys_.data() + slot.key, word.data(), word.size()) == 0) {
    const auto known = values_.begin() + slot.value;
    out.insert(out.end(), known, known + slot.tokens);
    return;
  }
  const std::size_t from = out.size();
  find_or_merge(word, out);
  slot.hash = hash;
  remember(slot, word, std::span(out).subspan(from));
}

// Texts of replaced words stay in memory until the whole cache is cleared.
void BpeEncoder::remember(Word& slot, std::string_view word, std::span<const TokenId> tokens) {
  if (keys_.size() + word.size() > kMostKeys) {
    const std::uint64_t hash = slot.hash;
    std::ranges::fill(words_, Word{});
    keys_.clear();
    values_.clear();
    slot.hash = hash;
  }
  slot.key = static_cast<std::uint32_t>(keys_.size());
  slot.length = static_cast<std::uint32_t>(word.size());
  slot.value = static_cast<std::uint32_t>(values_.size());
  slot.tokens = static_cast<std::uint32_t>(tokens.size());
  keys_.append(word);
  values_.insert(values_.end(), tokens.begin(), tokens.end());
}

void BpeEncoder::find_or_merge(std::string_view word, std::vector<TokenId>& out) {
  if (model_.ignore_merges_ && word.size() <= model_.longest_) {
    std::string spelt;
    if (model_.bytes_)
      for (const char c : word) spelt += byte_alphabet()[static_cast<unsigned char>(c)];
    if (const auto whole = model_.id_of(model_.bytes_ ? std::string_view(spelt) : word)) return out.push_back(*whole);
  }
  symbols_.clear();
  add_characters(word);
  if (symbols_.size() <= kShortWord)
    merge_short();
  else
    merge_long();
  for (const Symbol& symbol : symbols_) out.push_back(symbol.id);
}

// As in Hugging Face's tokenizers: with fuse_unk, a run of unknown characters becomes one unknown token. It is added
// when a known character follows, so the bytes that replace a character come before it.
void BpeEncoder::add_characters(std::string_view word) {
  std::optional<TokenId> pending;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t begin = at;
    TokenId id = -1;
    if (model_.bytes_) {
      id = model_.characters_[static_cast<unsigned char>(word[at++])];
    } else {
      const char32_t c = read_code_point(word, at);
      const std::string_view character = word.substr(begin, at - begin);
      id = c < kPlane ? model_.characters_[c] : model_.id_of(character).value_or(-1);
    }
    if (id >= 0) {
      if (pending) add_symbol(*pending);
      pending.reset();
      add_symbol(id);
    } else {
      const std::string_view character = word.substr(begin, at - begin);
      add_unknown(model_.bytes_ ? byte_alphabet()[static_cast<unsigned char>(character[0])] : character, pending);
    }
  }
  if (pending) add_symbol(*pending);
}

void BpeEncoder::add_unknown(std::string_view character, std::optional<TokenId>& pending) {
  const auto byte_token = [this](char c) { return model_.byte_tokens_[static_cast<unsigned char>(c)]; };
  if (model_.byte_fallback_ && std::ranges::all_of(character, [&](char c) { return byte_token(c) >= 0; })) {
    for (const char c : character) add_symbol(byte_token(c));
    return;
  }
  if (!model_.unknown_) return;
  if (pending && !model_.fuse_unknown_) add_symbol(*pending);
  pending = model_.unknown_;
}

void BpeEncoder::add_symbol(TokenId id) { symbols_.push_back({id, kNoMerge, -1, -1, -1}); }

void BpeEncoder::rank_pair(Symbol& left, const Symbol& right) {
  const Merge merge = model_.merges_.find(left.id, right.id);
  left.rank = merge.rank;
  left.merged = merge.id;
}

void BpeEncoder::merge_short() {
  if (symbols_.empty()) return;
  for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) rank_pair(symbols_[i], symbols_[i + 1]);
  for (;;) {
    const auto best = std::ranges::min_element(symbols_, {}, &Symbol::rank);
    if (best->rank == kNoMerge) return;
    best->id = best->merged;
    const auto next = symbols_.erase(best + 1);
    best->rank = kNoMerge;
    if (next != symbols_.end()) rank_pair(*best, *next);
    if (best != symbols_.begin()) rank_pair(*(best - 1), *best);
  }
}

// Merges a long word with a queue and a linked list, in O(n log n). An entry of the queue is dropped as out of date if
// its pair has changed since.
void BpeEncoder::merge_long() {
  const auto entry = [](const Symbol& left, std::int32_t at) {
    return static_cast<std::uint64_t>(left.rank) << 32U | static_cast<std::uint32_t>(at);
  };
  const auto symbol = [this](std::int32_t at) -> Symbol& { return symbols_[static_cast<std::size_t>(at)]; };
  queue_.clear();
  const auto count = static_cast<std::int32_t>(symbols_.size());
  for (std::int32_t i = 0; i < count; ++i) {
    symbol(i).previous = i - 1;
    symbol(i).next = i + 1 < count ? i + 1 : -1;
    if (i + 1 == count) continue;
    rank_pair(symbol(i), symbol(i + 1));
    if (symbol(i).rank != kNoMerge) queue_.push_back(entry(symbol(i), i));
  }
  std::ranges::make_heap(queue_, std::greater{});
  const auto enter = [&](std::int32_t at) {
    Symbol& left = symbol(at);
    left.rank = kNoMerge;
    if (left.next < 0) return;
    rank_pair(left, symbol(left.next));
    if (left.rank == kNoMerge) return;
    queue_.push_back(entry(left, at));
    std::ranges::push_heap(queue_, std::greater{});
  };
  while (!queue_.empty()) {
    std::ranges::pop_heap(queue_, std::greater{});
    const std::uint64_t top = queue_.back();
    queue_.pop_back();
    const auto at = static_cast<std::int32_t>(top & 0xFFFFFFFFU);
    Symbol& left = symbol(at);
    if (left.id < 0 || left.rank != static_cast<std::uint32_t>(top >> 32U)) continue;
    Symbol& right = symbol(left.next);
    left.id = left.merged;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbol(left.next).previous = at;
    enter(at);
    if (left.previous >= 0) enter(left.previous);
  }
  std::erase_if(symbols_, [](const Symbol& gone) { return gone.id < 0; });
}

}  // namespace plimsoll::text
