// SPDX-License-Identifier: Apache-2.0
// Requests to a real model: which fields it obeys, and which it refuses by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "serve/api_request.h"

namespace plimsoll::serve {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;

class RealRequest : public ::testing::Test {
 protected:
  [[nodiscard]] std::variant<ApiRequest, ApiError> read(Api api, json fields) const {
    fields.update(api == Api::tgi    ? json{{"inputs", "abcd efgh"}}
                  : api == Api::chat ? json{{"messages", {{{"role", "user"}, {"content", "hi"}}}}}
                                     : json{{"prompt", {1, 2, 3}}});
    return read_request(api, fields.dump(), {.vocabulary = &vocabulary_, .filters = filters_});
  }
  [[nodiscard]] ApiRequest taken(Api api, const json& fields) const { return std::get<ApiRequest>(read(api, fields)); }
  [[nodiscard]] std::string refused(Api api, const json& fields) const {
    const auto result = read(api, fields);
    const auto* const error = std::get_if<ApiError>(&result);
    return error == nullptr ? "" : error->param;
  }

  Vocabulary vocabulary_{100, 4};
  bool filters_ = true;
};

TEST_F(RealRequest, StatesHowToSample) {
  const ApiRequest request = taken(Api::completions, {{"temperature", 0.5},
                                                      {"top_k", 7},
                                                      {"top_p", 0.9},
                                                      {"min_p", 0.1},
                                                      {"seed", -3},
                                                      {"stop", "END"},
                                                      {"stop_token_ids", {9, 99}},
                                                      {"min_tokens", 2},
                                                      {"ignore_eos", true}});
  EXPECT_THAT(request.tokens->prompt, ElementsAre(1, 2, 3));
  EXPECT_EQ(request.tokens->temperature, 0.5);
  EXPECT_EQ(request.tokens->top_k, 7);
  EXPECT_EQ(request.tokens->top_p, 0.9);
  EXPECT_EQ(request.tokens->min_p, 0.1);
  EXPECT_EQ(request.seed, static_cast<std::uint64_t>(-3));
  EXPECT_THAT(request.stops.strings, ElementsAre("END"));
  EXPECT_THAT(request.stops.tokens, ElementsAre(9, 99));
  EXPECT_EQ(request.stops.min_tokens, 2);
  EXPECT_TRUE(request.stops.ignores_ends);
}

// OpenAI's default is a temperature of 1; vLLM's -1 means all tokens. TGI is greedy unless something is stated.
TEST_F(RealRequest, HasTheDefaultsOfItsApi) {
  const ApiRequest plain = taken(Api::chat, {{"top_k", -1}, {"presence_penalty", 0}, {"logprobs", false}});
  EXPECT_EQ(plain.tokens->temperature, 1);
  EXPECT_EQ(plain.tokens->top_k, 0);
  EXPECT_EQ(plain.tokens->top_p, 1);
  EXPECT_EQ(plain.seed, std::nullopt);
  EXPECT_EQ(plain.tokens->prompt.size(), 5U);  // 4 for the message, and "hi"
  EXPECT_EQ(taken(Api::tgi, {}).tokens->temperature, 0);
  EXPECT_EQ(taken(Api::tgi, {{"parameters", {{"do_sample", true}}}}).tokens->temperature, 1);
  EXPECT_EQ(taken(Api::tgi, {{"parameters", {{"top_k", 5}}}}).tokens->temperature, 1);
}

TEST_F(RealRequest, RefusesByNameWhatNoModelObeys) {
  const std::pair<json, const char*> cases[] = {{{{"frequency_penalty", 1}}, "frequency_penalty"},
                                                {{{"repetition_penalty", 1.1}}, "repetition_penalty"},
                                                {{{"response_format", {{"type", "json_object"}}}}, "response_format"},
                                                {{{"logprobs", 0}}, "logprobs"},
                                                {{{"guided_regex", "a+"}}, "guided_regex"},
                                                {{{"stop", {"a", 5}}}, "stop"},
                                                {{{"stop", std::string(1025, 'a')}}, "stop"},
                                                {{{"stop", std::vector<std::string>(65, "a")}}, "stop"},
                                                {{{"stop_token_ids", {100}}}, "stop_token_ids"},
                                                {{{"stop_token_ids", 5}}, "stop_token_ids"},
                                                {{{"temperature", -0.1}}, "temperature"}};
  for (const auto& [fields, name] : cases) EXPECT_EQ(refused(Api::completions, fields), name);
  EXPECT_EQ(refused(Api::tgi, {{"parameters", {{"watermark", true}}}}), "parameters.watermark");
  EXPECT_EQ(refused(Api::tgi, {{"parameters", {{"temperature", 0}}}}), "parameters.temperature");
  EXPECT_EQ(refused(Api::completions, {{"response_format", {{"type", "text"}}}}), "");
}

TEST_F(RealRequest, FiltersAreRefusedWhereTheModelCannotObeyThem) {
  filters_ = false;
  EXPECT_EQ(refused(Api::completions, {{"top_k", 5}}), "top_k");
  EXPECT_EQ(refused(Api::completions, {{"top_p", 0.5}}), "top_p");
  EXPECT_EQ(refused(Api::tgi, {{"parameters", {{"top_k", 5}}}}), "parameters.top_k");
  EXPECT_EQ(refused(Api::completions, {{"top_k", -1}, {"top_p", 1}}), "");
}

// A text has the same ids in every position; other texts have other ids.
// The template prints what it gets of each message. A content that is null or absent is not an empty text.
TEST(RealChat, AnEarlierAnswerKeepsItsReasoning) {
  const std::string folder = ::testing::TempDir() + "real_chat";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/golden/tokenizers/gpt2.json",
                             folder + "/tokenizer.json", std::filesystem::copy_options::overwrite_existing);
  std::ofstream(folder + "/chat_template.jinja")
      << "{% for m in messages %}{{ m.role }}:{{ m.content | default('none') }}:{{ m.reasoning_content }};{% endfor %}";
  const Vocabulary vocabulary(text::read_model_text(folder), 1 << 20);
  const json chat = {{"messages",
                      {{{"role", "user"}, {"content", "hi"}},
                       {{"role", "assistant"}, {"content", nullptr}, {"reasoning", "because"}},
                       {{"role", "assistant"},
                        {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}},
                        {"reasoning_content", "why"}}}}};
  std::vector<std::int32_t> expected;
  vocabulary.encode("user:hi:;assistant:none:because;assistant:a\nb:why;", false, expected);
  const auto request = read_request(Api::chat, chat.dump(), {.vocabulary = &vocabulary, .filters = true});
  EXPECT_EQ(std::get<ApiRequest>(request).tokens->prompt, expected);
  std::filesystem::remove_all(folder);
}

TEST_F(RealRequest, ASyntheticVocabularyReadsText) {
  std::vector<std::int32_t> ids, again, other;
  vocabulary_.encode("the quick brown fox jumps", true, ids);
  vocabulary_.encode("the quick brown fox jumps", false, again);
  vocabulary_.encode("the quick brown cat jumps", false, other);
  EXPECT_EQ(ids.size(), 7U);  // 25 characters
  EXPECT_EQ(ids, again);
  EXPECT_NE(ids, other);
  for (const std::int32_t id : ids) EXPECT_TRUE(id >= 0 && id < 100);
}

}  // namespace
}  // namespace plimsoll::serve
