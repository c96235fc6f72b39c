// SPDX-License-Identifier: Apache-2.0
#include "endpoints/prompts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

namespace plimsoll::endpoints {
namespace {

constexpr PromptSpec spec(std::uint64_t serial, sched::Tok input) { return {serial, input, {}, 0}; }

TEST(Prompts, IdsHaveTheLengthAndAvoidTheEndsOfTheVocabulary) {
  const Prompts prompts(1, 32'000);
  const std::vector<std::int32_t> ids = prompts.ids(spec(3, 5000));
  EXPECT_EQ(ids.size(), 5000U);
  EXPECT_GE(*std::min_element(ids.begin(), ids.end()), 4000);
  EXPECT_LT(*std::max_element(ids.begin(), ids.end()), 28'000);
}

// A server's prefix cache compares whole blocks, so the first block must differ between runs and between requests.
TEST(Prompts, ANonceRepeatsARunAndNothingElseDoes) {
  const auto first = [](std::uint64_t nonce, std::uint64_t serial) {
    return Prompts(nonce, 32'000).ids(spec(serial, 16));
  };
  EXPECT_EQ(first(1, 3), first(1, 3));
  EXPECT_NE(first(1, 3), first(2, 3));
  EXPECT_NE(first(1, 3), first(1, 4));
}

// Every point of a sweep numbers its requests from 0.
TEST(Prompts, OfAnotherPointOrReplicationAreOthers) {
  const Prompts prompts(1, 32'000);
  EXPECT_NE(prompts.salted(0).ids(spec(0, 16)), prompts.salted(1).ids(spec(0, 16)));
  EXPECT_EQ(prompts.salted(1).ids(spec(0, 16)), Prompts(1, 32'000).salted(1).ids(spec(0, 16)));
}

// Blocks of 16 tokens: two are shared, the rest belongs to the request.
TEST(Prompts, SharedPrefixesAreSharedAndEndWhereTheyEnd) {
  const Prompts prompts(1, 32'000);
  const std::array<std::uint64_t, 2> hashes{7, 8}, other{7, 9};
  const auto ids = [&](std::uint64_t serial, std::span<const std::uint64_t> of) {
    return prompts.ids({serial, 48, of, 16});
  };
  const std::vector<std::int32_t> a = ids(1, hashes), b = ids(2, hashes), c = ids(3, other);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 32, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 32, a.end(), b.begin() + 32));
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 16, c.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 16, a.begin() + 32, c.begin() + 16));
}

std::int64_t words(const std::string& text) {
  std::istringstream in(text);
  std::int64_t count = 0;
  for (std::string word; in >> word;) ++count;
  return count;
}

// Tokenizers that count by words, by characters, and by both, with templates. A text may miss its length by a token.
TEST(Prompts, LearnWhatATokenizerMakesOfATextWithinOnePerCent) {
  struct Tokenizer {
    double added, word, character;
  };
  for (const Tokenizer& t : {Tokenizer{10, 1.3, 0}, {0, 0, 0.25}, {4, 1, 0.02}, {0, 1, 0}, {25, 0.3, 0.1}}) {
    Prompts prompts(1, 0);
    const auto counted = [&](const std::string& text) {
      const double tokens =
          t.added + t.word * static_cast<double>(words(text)) + t.character * static_cast<double>(text.size());
      return static_cast<sched::Tok>(std::ceil(tokens));
    };
    for (const bool are_long : {false, true})
      for (const std::int64_t count : {8, 48})
        prompts.learn(Prompts::sample(count, are_long), counted(Prompts::sample(count, are_long)));
    prompts.learn(prompts.text(spec(0, 512)), counted(prompts.text(spec(0, 512))));
    for (const sched::Tok input : {100, 512, 4000})
      EXPECT_NEAR(counted(prompts.text(spec(7, input))), input, 0.01 * input) << t.added << ' ' << t.word;
  }
}

// Without a count, a word is a token.
TEST(Prompts, ATextHasAWordForEachTokenAtFirst) {
  EXPECT_EQ(words(Prompts(1, 0).text(spec(3, 20))), 20);
  EXPECT_EQ(words(Prompts(1, 0).text(spec(3, 1))), 1);
}

// Two requests share 32 tokens: their texts begin alike for about as many words, and then differ.
TEST(Prompts, SharedPrefixesOfTextsAreShared) {
  const Prompts prompts(1, 0);
  const std::array<std::uint64_t, 2> hashes{7, 8};
  const std::string a = prompts.text({1, 48, hashes, 16}), b = prompts.text({2, 48, hashes, 16});
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  EXPECT_NEAR(static_cast<double>(words(a.substr(0, static_cast<std::size_t>(differ)))), 32, 1);
}

}  // namespace
}  // namespace plimsoll::endpoints
