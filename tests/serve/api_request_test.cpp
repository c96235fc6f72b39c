// SPDX-License-Identifier: Apache-2.0
#include "serve/api_request.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "serve/api_answer.h"
#include "serve/prompt.h"

namespace plimsoll::serve {
namespace {

// Characters are counted, not bytes: at two characters per token, five characters are three tokens.
TEST(PromptCounter, CountsCharacters) {
  PromptCounter prompt(2, 0);
  prompt.add_text("aé€𝄞b");
  EXPECT_EQ(prompt.tokens(), 3);
}

// At 1.5 characters per token, tokens end before characters 1, 3, 4 and 6: four tokens for six characters.
TEST(PromptCounter, TakesPartsOfCharactersToo) {
  PromptCounter prompt(1.5, 0);
  prompt.add_text("abcdef");
  EXPECT_EQ(prompt.tokens(), 4);
}

// The hash of a block represents everything up to its end: prompts that differ early share nothing later.
TEST(PromptCounter, HashesWholeBlocksOfWhatBeginsAlike) {
  const auto hashes = [](const std::vector<std::uint64_t>& ids) {
    PromptCounter prompt(4, 2);
    for (const std::uint64_t id : ids) prompt.add_token(id);
    return prompt.take_hashes();
  };
  const auto a = hashes({1, 2, 3, 4, 5}), b = hashes({1, 2, 9, 4}), c = hashes({7, 2, 3, 4});
  ASSERT_EQ(a.size(), 2U);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_NE(a[1], b[1]);
  EXPECT_NE(a[1], c[1]);
}

std::string mutated(std::string text, const std::vector<std::pair<unsigned, char>>& changes) {
  for (const auto& [place, c] : changes) text[place % text.size()] = c;
  return text;
}

// A string takes some 50 bytes beside its three of text: more than 100 000 are refused before any memory is taken.
// Numbers take little, and a prompt may have many.
TEST(ApiRequest, RefusesWhatWouldTakeFarMoreMemoryThanItsText) {
  const auto repeated = [](const std::string& text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += (i > 0 ? "," : "") + text;
    return out;
  };
  const auto read = [](const std::string& body) { return read_request(Api::completions, body, {}); };
  for (const std::string& bomb :
       {"{\"x\":[" + repeated("\"\"", 100'000) + "],\"prompt\":\"a\"}", "{\"x\":[" + repeated("[]", 100'000) + "]}",
        "{" + repeated("\"a\":1", 100'001) + "}"})
    EXPECT_NE(std::get<ApiError>(read(bomb)).message.find("more than 100000"), std::string::npos);
  EXPECT_EQ(std::get<ApiRequest>(read("{\"prompt\":[" + repeated("7", 300'000) + "]}")).input, 300'000);
  EXPECT_NE(std::get<ApiError>(read(std::string(65, '['))).message.find("deeper than 64"), std::string::npos);
}

TEST(ApiRequest, HasAPriorityOnlyIfTheClientStatesOne) {
  const auto read = [](const std::string& priority) {
    return read_request(Api::completions, R"({"prompt":"a","priority":)" + priority + "}", {});
  };
  EXPECT_EQ(std::get<ApiRequest>(read("-5")).priority, -5);
  EXPECT_EQ(std::get<ApiRequest>(read("0")).priority, 0);
  EXPECT_EQ(std::get<ApiRequest>(read("null")).priority, std::nullopt);
  for (const char* const wrong : {"\"high\"", "1.5", "2147483648", "-2147483649", "true", "[1]"})
    EXPECT_EQ(std::get<ApiError>(read(wrong)).param, "priority") << wrong;
}

// Any input gives a request, or an error whose body is JSON.
RC_GTEST_PROP(ApiRequest, AnyBytesAreReadOrRefused, ()) {
  const std::string seeds[] = {
      R"({"prompt":[1,2,3],"max_tokens":4,"stream":true,"stream_options":{"include_usage":true},"stop":["a"]})",
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_completion_tokens":9})",
      R"({"inputs":"text","parameters":{"max_new_tokens":5,"details":true}})"};
  const auto api = *rc::gen::element(Api::completions, Api::chat, Api::tgi);
  const std::string body =
      mutated(seeds[*rc::gen::inRange(0, 3)], *rc::gen::container<std::vector<std::pair<unsigned, char>>>(rc::gen::pair(
                                                  rc::gen::arbitrary<unsigned>(), rc::gen::arbitrary<char>())));
  const auto read = read_request(api, body, {.chars_per_token = 4, .hash_tokens = 16});
  if (const auto* const error = std::get_if<ApiError>(&read)) {
    RC_ASSERT(error->status == 400);
    RC_ASSERT(nlohmann::json::accept(error_body(api, *error)));
  } else {
    RC_ASSERT(std::get<ApiRequest>(read).input > 0);
  }
}

}  // namespace
}  // namespace plimsoll::serve
