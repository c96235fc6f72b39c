// SPDX-License-Identifier: Apache-2.0
#include "endpoints/chunk.h"

#include <gtest/gtest.h>

namespace plimsoll::endpoints {
namespace {

Chunk chunk(std::string_view json) {
  const std::optional<Chunk> read = read_chunk(json);
  EXPECT_TRUE(read) << json;
  return read.value_or(Chunk{});
}

TEST(Chunk, ReadsACompletionWithItsUsage) {
  const Chunk got = chunk(R"({"id":"x","choices":[{"index":0,"text":" a","logprobs":null,"finish_reason":"length"}],)"
                          R"("usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,)"
                          R"("prompt_tokens_details":{"cached_tokens":4}}})");
  EXPECT_TRUE(got.text);
  EXPECT_TRUE(got.finished);
  EXPECT_EQ(got.finish_reason, "length");
  EXPECT_EQ(got.prompt_tokens, 7);
  EXPECT_EQ(got.completion_tokens, 3);
  EXPECT_EQ(got.cached_tokens, 4);
  EXPECT_FALSE(got.error);
}

TEST(Chunk, ARoleAloneIsNoContent) {
  EXPECT_FALSE(chunk(R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})").text);
  EXPECT_TRUE(chunk(R"({"choices":[{"delta":{"content":"a"}}]})").text);
  EXPECT_TRUE(chunk(R"({"choices":[{"delta":{"reasoning_content":"a"}}]})").text);
}

// A token with an empty text still counts: its bytes may be half a character.
TEST(Chunk, CountsTokenIdsAndLogProbabilities) {
  EXPECT_EQ(chunk(R"({"choices":[{"text":"","token_ids":[5,6]}]})").ids, 2);
  EXPECT_EQ(chunk(R"({"choices":[{"text":"ab","logprobs":{"tokens":["a","b"],"token_logprobs":[-1,-2]}}]})").ids, 2);
  EXPECT_EQ(chunk(R"({"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}]}}]})").ids, 1);
}

TEST(Chunk, ReadsTgiAndLmi) {
  const Chunk token = chunk(R"({"index":1,"token":{"id":5,"text":" a","logprob":-1,"special":false}})");
  EXPECT_EQ(token.ids, 1);
  EXPECT_FALSE(token.finished);
  const Chunk last = chunk(R"({"token":{"id":6,"text":"b"},"generated_text":" ab",)"
                           R"("details":{"finish_reason":"length","generated_tokens":2}})");
  EXPECT_EQ(last.ids, 1);
  EXPECT_TRUE(last.finished);
  EXPECT_EQ(last.completion_tokens, 2);
}

TEST(Chunk, AnErrorHasItsText) {
  EXPECT_EQ(chunk(R"({"error":{"message":"too long","code":400}})").error_text, "too long");
  EXPECT_EQ(chunk(R"({"error":"overloaded","error_type":"x"})").error_text, "overloaded");
  EXPECT_FALSE(chunk(R"({"error":null,"choices":[]})").error);
}

TEST(Chunk, WhatIsNoObjectIsNone) {
  for (const char* const text : {"", "[]", "3", "null", "{", "{\"a\":}", "{} {}", "[DONE]", "{\"a\":\"\xFF\"}"})
    EXPECT_FALSE(read_chunk(text)) << text;
  EXPECT_FALSE(read_chunk("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}"));
}

TEST(Chunk, NumbersOutOfRangeAreClipped) {
  EXPECT_EQ(chunk(R"({"usage":{"completion_tokens":1e300,"prompt_tokens":-5}})").completion_tokens, 2147483647);
  EXPECT_EQ(chunk(R"({"usage":{"completion_tokens":1e300,"prompt_tokens":-5}})").prompt_tokens, 0);
}

TEST(ErrorMessage, IsFoundInTheBodiesOfEveryInterface) {
  EXPECT_EQ(error_message(R"({"error":{"message":"a","type":"t"}})"), "a");
  EXPECT_EQ(error_message(R"({"object":"error","message":"b"})"), "b");
  EXPECT_EQ(error_message(R"({"error":"c","error_type":"validation"})"), "c");
  EXPECT_EQ(error_message(R"({"detail":"d"})"), "d");
  EXPECT_EQ(error_message("<html>e</html>"), "<html>e</html>");
  EXPECT_EQ(error_message(std::string(100'000, 'x')).size(), 4096U);
}

}  // namespace
}  // namespace plimsoll::endpoints
