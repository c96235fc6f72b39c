// SPDX-License-Identifier: Apache-2.0
#include "endpoints/prompts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace plimsoll::endpoints {
namespace {

// Common words. In nearly all tokenizers, most of them are one token.
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

// Derives a token from the run and the request, or in a shared prefix from the run and the block.
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

// Words are drawn, except the last: that is the word of the list that comes nearest to the length. A word belongs to a
// shared prefix if its estimated position in tokens does.
std::string Prompts::text(const PromptSpec& spec) const {
  constexpr std::int64_t kMostWords = 20;  // a token
  std::string out;
  const auto error_with = [&](std::int64_t words, std::string_view word) {
    const std::size_t characters = out.size() + (words > 0 ? 1 : 0) + word.size();
    return model_.tokens(static_cast<double>(words + 1), static_cast<double>(characters)) - spec.input;
  };
  for (std::int64_t i = 0; i < kMostWords * spec.input; ++i) {
    const double so_far = model_.tokens(static_cast<double>(i), static_cast<double>(out.size()));
    const auto position = static_cast<sched::Tok>(std::clamp(so_far - model_.added(), 0.0, 1.0 * spec.input));
    std::uint64_t within = 0;
    const std::uint64_t draw = mix(key(spec, position, within) + static_cast<std::uint64_t>(i));
    std::string_view word = kWords[draw % kWords.size()];
    const bool last = error_with(i, word) >= 0;
    if (last)
      word = *std::min_element(kWords.begin(), kWords.end(), [&](std::string_view a, std::string_view b) {
        return std::abs(error_with(i, a)) < std::abs(error_with(i, b));
      });
    if (last && i > 0 && std::abs(so_far - spec.input) <= std::abs(error_with(i, word))) break;
    if (i > 0) out += ' ';
    out += word;
    if (last) break;
  }
  return out;
}

std::string Prompts::sample(std::int64_t words, bool are_long) {
  constexpr std::size_t kShort = 4, kLong = 7;  // letters
  std::string out;
  for (std::size_t i = 0; words > 0; ++i) {
    const std::string_view word = kWords[i % kWords.size()];
    if (are_long ? word.size() < kLong : word.size() > kShort) continue;
    if (!out.empty()) out += ' ';
    out += word;
    --words;
  }
  return out;
}

void Prompts::learn(const std::string& text, sched::Tok tokens) {
  const auto words = std::count(text.begin(), text.end(), ' ') + 1;
  model_.learn(static_cast<double>(words), static_cast<double>(text.size()), tokens);
}

// ---- what a tokenizer does ------------------------------------------------------------------------------------------

double TokenModel::tokens(double words, double characters) const {
  return factors_[0] + factors_[1] * words + factors_[2] * characters;
}

// Least squares of the relative errors. If the texts do not determine a factor, it stays near its initial value.
void TokenModel::learn(double words, double characters, double tokens) {
  constexpr double kRidge = 1e-6;
  constexpr Row kFirst{0, 1, 0};
  const double weight = 1 / std::max(1.0, tokens * tokens);
  const Row x{1, words, characters};
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) sums_[i][j] += weight * x[i] * x[j];
    products_[i] += weight * x[i] * tokens;
  }
  std::array<Row, 3> left = sums_;
  Row right = products_;
  for (std::size_t i = 0; i < x.size(); ++i) {
    left[i][i] += kRidge;
    right[i] += kRidge * kFirst[i];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {  // symmetric and positive: no pivots are needed
    for (std::size_t row = i + 1; row < x.size(); ++row) {
      const double part = left[row][i] / left[i][i];
      for (std::size_t j = i; j < x.size(); ++j) left[row][j] -= part * left[i][j];
      right[row] -= part * right[i];
    }
  }
  for (std::size_t i = x.size(); i-- > 0;) {
    for (std::size_t j = i + 1; j < x.size(); ++j) right[i] -= left[i][j] * factors_[j];
    factors_[i] = right[i] / left[i][i];
  }
}

}  // namespace plimsoll::endpoints
