// SPDX-License-Identifier: Apache-2.0
#include "endpoints/prompts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace plimsoll::endpoints {
namespace {

// Common words. For nearly all tokenizers, most of them are one token.
constexpr std::array<std::string_view, 128> kWords{
    "time",      "year",       "people",      "way",       "day",    "man",       "thing",  "woman",   "life",
    "child",     "world",      "school",      "state",     "family", "student",   "group",  "country", "problem",
    "hand",      "part",       "place",       "case",      "week",   "company",   "system", "program", "question",
    "work",      "government", "number",      "night",     "point",  "home",      "water",  "room",    "mother",
    "area",      "money",      "story",       "fact",      "month",  "lot",       "right",  "study",   "book",
    "eye",       "job",        "word",        "business",  "issue",  "side",      "kind",   "head",    "house",
    "service",   "friend",     "father",      "power",     "hour",   "game",      "line",   "end",     "member",
    "law",       "car",        "city",        "community", "name",   "president", "team",   "minute",  "idea",
    "kid",       "body",       "information", "back",      "parent", "face",      "others", "level",   "office",
    "door",      "health",     "person",      "art",       "war",    "history",   "party",  "result",  "change",
    "morning",   "reason",     "research",    "girl",      "guy",    "moment",    "air",    "teacher", "force",
    "education", "foot",       "boy",         "age",       "policy", "music",     "market", "sense",   "nation",
    "plan",      "college",    "interest",    "death",     "course", "effect",    "use",    "class",   "control",
    "field",     "role",       "effort",      "rate",      "heart",  "drug",      "show",   "leader",  "light",
    "voice",     "wife"};

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators. OOPSLA 2014).
std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EB;
  return value ^ (value >> 31U);
}

}  // namespace

Prompts Prompts::salted(std::uint64_t salt) const {
  Prompts other = *this;
  other.nonce_ = mix(mix(nonce_) + salt);
  return other;
}

// A token depends on the run and the request, in a shared prefix on the run and the block.
std::uint64_t Prompts::key(const PromptSpec& spec, sched::Tok position, std::uint64_t& within) const {
  const auto block =
      spec.hash_block_tokens > 0 ? static_cast<std::size_t>(position / spec.hash_block_tokens) : spec.hashes.size();
  if (block < spec.hashes.size()) {
    within = static_cast<std::uint64_t>(position % spec.hash_block_tokens);
    return mix(mix(nonce_) ^ spec.hashes[block] ^ 0x70726566);
  }
  within = static_cast<std::uint64_t>(position);
  return mix(mix(nonce_ + 1) ^ mix(spec.serial));
}

std::vector<std::int32_t> Prompts::ids(const PromptSpec& spec) const {
  std::vector<std::int32_t> out(static_cast<std::size_t>(spec.input));
  if (!given_.empty()) {
    const std::vector<std::int32_t>& from = given_[spec.serial % given_.size()];
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = from[i % from.size()];
    return out;
  }
  const std::int64_t margin = vocabulary_ / 8, range = std::max<std::int64_t>(1, vocabulary_ - 2 * margin);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint64_t within = 0;
    const std::uint64_t draw = mix(key(spec, static_cast<sched::Tok>(i), within) + within);
    out[i] = static_cast<std::int32_t>(margin + static_cast<std::int64_t>(draw % static_cast<std::uint64_t>(range)));
  }
  return out;
}

std::int64_t Prompts::words_for(sched::Tok input) const {
  return std::max<std::int64_t>(1, std::llround((input - added_) / per_word_));
}

std::string Prompts::text(const PromptSpec& spec) const {
  std::string out;
  const std::int64_t words = words_for(spec.input);
  const double position_of_word = static_cast<double>(spec.input) / static_cast<double>(words);
  for (std::int64_t i = 0; i < words; ++i) {
    // The place of the word among the tokens decides whether it belongs to a shared prefix.
    const auto position = static_cast<sched::Tok>(position_of_word * static_cast<double>(i));
    std::uint64_t within = 0;
    const std::uint64_t draw = mix(key(spec, position, within) + static_cast<std::uint64_t>(i));
    if (i > 0) out += ' ';
    out += kWords[draw % kWords.size()];
  }
  return out;
}

// A line through the first count and the sum of those of other lengths: tokens = added + per word x words.
void Prompts::learn(sched::Tok input, sched::Tok tokens) {
  const auto words = static_cast<double>(words_for(input));
  if (first_words_ == 0) {
    first_words_ = words;
    first_tokens_ = tokens;
    per_word_ = std::max(0.05, tokens / words);
    return;
  }
  if (std::abs(words - first_words_) < 0.5 * first_words_) return;
  words_seen_ = words_seen_ * 0.9 + words;
  tokens_seen_ = tokens_seen_ * 0.9 + tokens;
  const double weight = words_seen_ / words;  // how many such prompts the sums hold
  per_word_ = std::max(0.05, (tokens_seen_ / weight - first_tokens_) / (words_seen_ / weight - first_words_));
  added_ = std::max(0.0, first_tokens_ - per_word_ * first_words_);
}

}  // namespace plimsoll::endpoints
