// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes what Hugging Face's tokenizers were given (tests/golden/make_tokenizers.py).
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "model/error.h"
#include "text/utf8.h"

namespace plimsoll::text {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kFolder = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/golden/tokenizers/";

json read(const std::string& name) {
  std::ifstream in(kFolder + name);
  return json::parse(in);
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::read(kFolder + GetParam() + ".json");
  const json texts_ = read("texts.json"), expected_ = read(std::string(GetParam()) + ".expected.json");
};

TEST_P(Golden, TextsGetTheTokensOfTransformers) {
  TokenEncoder encoder(*tokenizer_);
  ASSERT_EQ(texts_.size(), expected_.size());
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const std::string text = texts_[i];
    const std::vector<TokenId> ids = expected_[i]["ids"], begun = expected_[i]["begun"];
    EXPECT_EQ(encoder.encode(text, false), ids) << texts_[i];
    EXPECT_EQ(encoder.encode(text, false), ids) << "the second time, from the cache: " << texts_[i];
    const std::vector<TokenId> whole = encoder.encode(text, true);
    ASSERT_EQ(whole.size(), ids.size() + 1);
    EXPECT_THAT(begun, ElementsAre(whole.front()));
  }
}

TEST_P(Golden, TokensGetTheTextOfTransformers) {
  for (const json& expected : expected_) {
    const std::vector<TokenId> ids = expected["ids"], random = expected["random"];
    EXPECT_EQ(tokenizer_->decode(ids, true), expected["text"].get<std::string>());
    EXPECT_EQ(tokenizer_->decode(random, false), expected["random_text"].get<std::string>()) << expected["random"];
  }
}

// Each part must be whole characters, and the parts the text of all tokens.
TEST_P(Golden, StreamsNeverCutACharacter) {
  for (const json& expected : expected_) {
    TextStream stream(*tokenizer_, false);
    std::string whole;
    for (const TokenId id : expected["random"]) {
      std::string part;
      stream.push(id, part);
      EXPECT_TRUE(is_utf8(part));
      whole += part;
    }
    stream.finish(whole);
    EXPECT_EQ(whole, expected["random_text"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Golden,
                         ::testing::Values("gpt2", "llama3", "qwen2", "o200k", "deepseek", "starcoder", "llama2",
                                           "gemma", "metaspace", "mistral", "digits"));

// A tokenizer of three letters and their merges, with further keys.
std::string with(const std::string& keys) {
  return R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})" + keys + "}";
}

std::string refusal(const std::string& text) {
  try {
    const Tokenizer tokenizer(text, "tokenizer.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(TokenizerFile, WhatIsNotSupportedIsRefusedByName) {
  EXPECT_THAT(refusal(with(R"(,"normalizer":{"type":"NFKC"})")), HasSubstr("tokenizer.json: the normalizer NFKC"));
  EXPECT_THAT(refusal(with(R"(,"pre_tokenizer":{"type":"BertPreTokenizer"})")), HasSubstr("BertPreTokenizer"));
  EXPECT_THAT(refusal(with(R"(,"decoder":{"type":"WordPiece"})")), HasSubstr("the decoder WordPiece"));
  EXPECT_THAT(refusal(with(R"(,"post_processor":{"type":"BertProcessing"})")), HasSubstr("BertProcessing"));
  EXPECT_THAT(refusal(R"({"model":{"type":"Unigram","vocab":[]}})"), HasSubstr("the model Unigram"));
  EXPECT_THAT(refusal(R"({"model":{"type":"BPE","dropout":0.1,"vocab":{},"merges":[]}})"), HasSubstr("model.dropout"));
  const std::string split = R"(,"pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":{"Regex":")";
  EXPECT_THAT(refusal(with(split + R"([\\p{L}&&[^a]]"}})")), HasSubstr("an intersection of classes '&&'"));
  EXPECT_THAT(refusal(with(split + R"((a"}})")), HasSubstr("the regular expression '(a' cannot be used"));
}

TEST(TokenizerFile, InconsistentTablesAreRefused) {
  EXPECT_THAT(refusal("{"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(R"({"model":{"vocab":{"a":0,"b":1},"merges":["a b"]}})"), HasSubstr("lacks 'ab'"));
  EXPECT_THAT(refusal(R"({"model":{"vocab":{"a":-1},"merges":[]}})"), HasSubstr("the id of 'a'"));
  EXPECT_THAT(refusal(R"({"model":{"vocab":{"a":0},"merges":["a"]}})"), HasSubstr("found 'a'"));
}

// Without a decoder, tokens are joined by spaces; unknown ids are skipped.
TEST(TokenizerFile, TheSimplestTokenizerWorks) {
  const Tokenizer tokenizer(with(""), "tokenizer.json");
  TokenEncoder encoder(tokenizer);
  EXPECT_THAT(encoder.encode("abba", true), ElementsAre(2, 1, 0));
  const std::vector<TokenId> ids{2, 77, 1};
  EXPECT_EQ(tokenizer.decode(ids, true), "ab b");
}

// Long and short words are merged by different code. Both must merge the leftmost of equal pairs first.
TEST(Bpe, LongWordsMergeAsShortOnesDo) {
  const Tokenizer tokenizer(R"({"model":{"vocab":{"a":0,"aa":1,"aaa":2,"b":3,"ab":4},"merges":["a a","aa a","a b"]}})",
                            "tokenizer.json");
  TokenEncoder encoder(tokenizer);
  // Five letters a: after (aa)(aa)a, the first aa has no a beside it, the second has: aa aaa.
  EXPECT_THAT(encoder.encode("aaaaa", false), ElementsAre(1, 2));
  std::string text;
  std::vector<TokenId> expected;
  for (int i = 0; i < 500; ++i) {
    text += "aaaaab";
    expected.insert(expected.end(), {1, 2, 3});
  }
  EXPECT_EQ(encoder.encode(text, false), expected);
}

TEST(Utf8, BrokenBytesBecomeReplacementsAsInRust) {
  const auto repaired = [](const std::string& bytes) {
    Utf8Stream stream;
    std::string out;
    for (const char c : bytes) stream.push(std::string_view(&c, 1), out);
    stream.finish(out);
    return out;
  };
  EXPECT_EQ(repaired("a\xE2\x82\xAC"
                     "b"),
            "a\u20ACb");
  EXPECT_EQ(repaired("\xE2\x82"
                     "b"),
            "\uFFFDb");                                       // the longest beginning is one replacement
  EXPECT_EQ(repaired("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");  // overlong: each byte for itself
  EXPECT_EQ(repaired("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(repaired("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(repaired("\x80\xFF"), "\uFFFD\uFFFD");
}

}  // namespace
}  // namespace plimsoll::text
