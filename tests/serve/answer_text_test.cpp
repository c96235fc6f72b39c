// SPDX-License-Identifier: Apache-2.0
// The text of an answer, and the strings and tokens that end it.
#include "serve/answer_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "text/utf8.h"

namespace plimsoll::serve {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

const std::string kTokenizers = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/golden/tokenizers/";

// ---- stop strings -------------------------------------------------------------------------------------------

struct Found {
  std::string text;
  std::optional<std::size_t> stop;
  bool operator==(const Found&) const = default;
};

// By the words of the header: the first end of a stop string; of those that end there, the longest.
Found by_definition(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::size_t> found;
    for (std::size_t i = 0; i < stops.size(); ++i)
      if (text.substr(0, end).ends_with(stops[i]) && (!found || stops[i].size() > stops[*found].size())) found = i;
    if (found) return {text.substr(0, end - stops[*found].size()), found};
  }
  return {text, {}};
}

// Texts of two letters, so that the beginnings of stop strings occur everywhere.
RC_GTEST_PROP(StopFinder, DivisionsOfTheTextDoNotMatter, ()) {
  const auto letters = rc::gen::container<std::string>(rc::gen::element('a', 'b'));
  const auto pieces = *rc::gen::container<std::vector<std::string>>(letters);
  const auto stops = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(rc::gen::nonEmpty(letters)));
  StopFinder finder(stops);
  Found got;
  std::string whole;
  for (const std::string& piece : pieces) {
    whole += piece;
    if (!got.stop) got.stop = finder.push(piece, true, got.text);
    // What has been released is never taken back.
    RC_ASSERT(by_definition(whole, stops).text.starts_with(got.text));
  }
  if (!got.stop) finder.finish(got.text);
  RC_ASSERT(got == by_definition(whole, stops));
}

TEST(StopFinder, HoldsBackNoMoreThanTheBeginningOfAString) {
  StopFinder finder({"END"});
  std::string out;
  EXPECT_FALSE(finder.push("theE", true, out));
  EXPECT_EQ(out, "the");
  EXPECT_FALSE(finder.push("N", true, out));
  EXPECT_FALSE(finder.push("T E", true, out));
  EXPECT_EQ(out, "theENT ");
}

// ---- answers ------------------------------------------------------------------------------------------------

// A folder with one of the golden tokenizers.
class AnswerTextTest : public ::testing::TestWithParam<const char*> {
 protected:
  AnswerTextTest() : folder_(::testing::TempDir() + "answer_text_" + GetParam()) {
    std::filesystem::create_directories(folder_);
    std::filesystem::copy_file(kTokenizers + GetParam() + ".json", folder_ + "/tokenizer.json",
                               std::filesystem::copy_options::overwrite_existing);
    vocabulary_.emplace(text::read_model_text(folder_), 1 << 20);
  }
  ~AnswerTextTest() override { std::filesystem::remove_all(folder_); }

  std::vector<std::int32_t> ids(const std::string& text) const {
    std::vector<std::int32_t> out;
    vocabulary_->encode(text, false, out);
    return out;
  }

  std::string folder_;
  std::optional<Vocabulary> vocabulary_;
};

TEST_P(AnswerTextTest, PartsAreWholeCharactersAndTogetherTheText) {
  std::ifstream in(kTokenizers + GetParam() + ".expected.json");
  for (const json& expected : json::parse(in)) {
    const std::vector<std::int32_t> random = expected["random"];
    AnswerText answer(*vocabulary_, {.skips_special = false});
    std::string parts;
    for (std::size_t i = 0; i < random.size(); ++i) {
      EXPECT_FALSE(answer.push(random[i]));
      if (i + 1 == random.size()) answer.finish();
      const auto token = static_cast<sched::Tok>(i);
      EXPECT_TRUE(text::is_utf8(answer.text(token, token + 1)));
      parts += answer.text(token, token + 1);
    }
    EXPECT_EQ(parts, expected["random_text"].get<std::string>());
    EXPECT_FALSE(answer.stopped());
  }
}

// The string begins inside one token and ends inside another, and both have characters of several bytes.
TEST_P(AnswerTextTest, AStopStringAcrossTokensAndCharactersEndsTheAnswer) {
  const std::string text = "Über die Straße gehen wir — 日本語 und weiter";
  for (const std::string stop : {"ße g", "— 日", "本", "語 u"}) {
    AnswerText answer(*vocabulary_, {.strings = {"never", stop}});
    std::size_t pushed = 0;
    const std::vector<std::int32_t> tokens = ids(text);
    const std::string decoded = vocabulary_->tokenizer()->decode(tokens, true);
    for (const std::int32_t id : tokens) {
      ++pushed;
      if (answer.push(id)) break;
    }
    answer.finish();
    ASSERT_NE(decoded.find(stop), std::string::npos);
    EXPECT_EQ(answer.text(0, answer.tokens()), decoded.substr(0, decoded.find(stop))) << stop;
    EXPECT_TRUE(answer.stopped());
    EXPECT_EQ(std::get<std::string>(answer.stop_reason()), stop);
    EXPECT_LT(pushed, tokens.size());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, AnswerTextTest, ::testing::Values("gpt2", "llama3", "llama2", "qwen2", "gemma"));

// ---- tokens that end an answer, on a synthetic vocabulary: token 2 is "is", 3 "calm", 4 "and" -------------------

AnswerText pushed(const Vocabulary& vocabulary, const StopRules& rules, const std::vector<std::int32_t>& tokens) {
  AnswerText answer(vocabulary, rules);
  for (const std::int32_t token : tokens)
    if (answer.push(token)) break;
  answer.finish();
  return answer;
}

TEST(AnswerText, AStopTokenHasNoTextUnlessItIsAskedFor) {
  const Vocabulary vocabulary(16, 4);
  const AnswerText without = pushed(vocabulary, {.tokens = {4}}, {2, 3, 4, 2});
  EXPECT_EQ(without.text(0, 3), "is calm");
  EXPECT_EQ(without.tokens(), 3);
  EXPECT_EQ(std::get<std::int32_t>(without.stop_reason()), 4);
  const AnswerText with = pushed(vocabulary, {.tokens = {4}, .includes_stop = true}, {2, 3, 4, 2});
  EXPECT_EQ(with.text(0, 3), "is calm and");
  const AnswerText string = pushed(vocabulary, {.strings = {"al"}, .includes_stop = true}, {2, 3, 4});
  EXPECT_EQ(string.text(0, 2), "is cal");
}

TEST(AnswerText, NothingEndsItBeforeItHasMinTokens) {
  const Vocabulary vocabulary(16, 4);
  const AnswerText answer = pushed(vocabulary, {.tokens = {4}, .strings = {"calm"}, .min_tokens = 4}, {4, 3, 2, 3, 4});
  EXPECT_EQ(answer.tokens(), 4);
  EXPECT_EQ(answer.text(0, 4), "and calm is ");
}

}  // namespace
}  // namespace plimsoll::serve
