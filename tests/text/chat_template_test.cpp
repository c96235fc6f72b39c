// SPDX-License-Identifier: Apache-2.0
// Renders what transformers rendered (tests/golden/make_chats.py).
#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "model/error.h"

namespace plimsoll::text {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

const std::string kChats = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/golden/chat/";

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Chats : public ::testing::TestWithParam<const char*> {};

TEST_P(Chats, ConversationsReadAsInTransformers) {
  const ordered_json golden = ordered_json::parse(contents(kChats + "expected.json"));
  SpecialTokens tokens;
  for (const auto& [name, token] : golden["tokens"].items()) tokens.emplace_back(name, token.get<std::string>());
  const ChatTemplate chat(contents(kChats + GetParam() + ".jinja"), tokens);
  const ordered_json& expected = golden["expected"][GetParam()];
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ordered_json& talk = golden["conversations"][i];
    const RenderedChat found =
        chat.render(talk["messages"], talk["opens_answer"], talk.value("variables", ordered_json()));
    EXPECT_EQ(found.text, expected[i].value("text", "")) << i << ": " << found.problem;
    EXPECT_EQ(found.problem, expected[i].value("problem", "")) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Chats,
                         ::testing::Values("chatml", "llama2", "llama3", "mistral", "gemma", "phi", "qwen",
                                           "language"));

std::string template_refusal(const std::string& source) {
  try {
    const ChatTemplate chat(source, {});
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

TEST(ChatTemplate, WhatIsOutsideTheSubsetIsRefusedByName) {
  EXPECT_THAT(template_refusal("\n{% include 'other' %}"),
              HasSubstr("line 2: the statement 'include' is not supported"));
  EXPECT_THAT(template_refusal("{{ messages | groupby('role') }}"), HasSubstr("the filter 'groupby'"));
  EXPECT_THAT(template_refusal("{{ 1 is prime }}"), HasSubstr("the test 'prime'"));
  EXPECT_THAT(template_refusal("{{ lipsum() }}"), HasSubstr("the function 'lipsum'"));
  EXPECT_THAT(template_refusal("{{ messages.append(1) }}"), HasSubstr("the method 'append'"));
  EXPECT_THAT(template_refusal("{% for x in y recursive %}{% endfor %}"), HasSubstr("recursive"));
}

TEST(ChatTemplate, BrokenTemplatesAreRefused) {
  EXPECT_THAT(template_refusal("{% if x %}"), HasSubstr("'endif' is missing"));
  EXPECT_THAT(template_refusal("{{ 'a }}"), HasSubstr("a text has no end"));
  EXPECT_THAT(template_refusal("{{ 1 + }}"), HasSubstr("a value is expected"));
  EXPECT_THAT(template_refusal("{% endfor %}"), HasSubstr("'endfor'"));
  EXPECT_THAT(template_refusal(std::string(100'000, '(')), ::testing::IsEmpty());  // text
  EXPECT_THAT(template_refusal("{{ " + std::string(100'000, '(')), HasSubstr("chat template"));
  EXPECT_THAT(template_refusal("{% raw %"), HasSubstr("{% raw %} has no end"));
  EXPECT_THAT(template_refusal("{% raw %}{% endraw"), HasSubstr("has no end"));
  EXPECT_THAT(template_refusal("{{ 1e999 }}"), HasSubstr("the number 1e999 is too large"));
  EXPECT_THAT(template_refusal("{{ x.99999999999999999999 }}"), HasSubstr("is too large"));
  EXPECT_THAT(template_refusal("\xE3"), HasSubstr("not UTF-8"));
}

// A chain nests as deep as it is long: 100 000 links would overflow the stack.
TEST(ChatTemplate, ChainsOfOperatorsAreBounded) {
  for (const std::string link : {" ~ a", " or a", " | trim", ".a"}) {
    std::string chain = "{{ a";
    for (int i = 0; i < 100'000; ++i) chain += link;
    EXPECT_THAT(template_refusal(chain + " }}"), HasSubstr("more than 10000 operators")) << link;
  }
}

// A template may fail on a conversation; the reason is a value.
TEST(ChatTemplate, AFailureNamesItsReason) {
  const auto problem = [](const std::string& source) {
    return ChatTemplate(source, {}).render(ordered_json::array(), true, {}).problem;
  };
  EXPECT_THAT(problem("{{ missing.field }}"), HasSubstr("'missing', which is undefined"));
  EXPECT_THAT(problem("{{ 'a' + 1 }}"), HasSubstr("'+' does not take a text and a number"));
  EXPECT_THAT(problem("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}"), HasSubstr("too deeply"));
  EXPECT_THAT(problem("{{ range(1000000) }}"), HasSubstr("100000"));
  EXPECT_THAT(problem("{{ 9223372036854775807 + 1 }}"), HasSubstr("beyond 64 bits"));
  EXPECT_THAT(problem("{{ ('x' * 100000) * 100000 }}"), HasSubstr("longer than 16 million"));
  EXPECT_EQ(problem("{{ [1, 2, 3][1::9223372036854775807] }}"), "");
  EXPECT_EQ(problem("{{ range(1, 9223372036854775807, 9223372036854775806) }}"), "");
}

// Texts that are too long for std::string's internal buffer, so that the sanitizer finds a read of a destroyed one. The
// results are Python's.
TEST(ChatTemplate, MethodsTakeLongTextsAndTemporaries) {
  const auto text = [](const std::string& source) {
    return ChatTemplate(source, {}).render(ordered_json::array(), true, {}).text;
  };
  const std::string given = "{{ ('an answer of the ' ~ 'assistant\u00e9 it is') | title }}";
  EXPECT_EQ(text(given), "An Answer Of The Assistant\u00e9 It Is");
  EXPECT_EQ(text("{{ ('an answer of the ' ~ 'assistant').title() }}"), "An Answer Of The Assistant");
  EXPECT_EQ(text("{{ ('AN ANSWER OF THE ' ~ 'ASSISTANT').capitalize() }}"), "An answer of the assistant");
  EXPECT_EQ(text("{{ ('  an answer of the ' ~ 'assistant  ').strip() | upper }}"), "AN ANSWER OF THE ASSISTANT");
  EXPECT_EQ(text("{{ ('an answer of the ' ~ 'assistant').split(' ') | join('-') }}"), "an-answer-of-the-assistant");
  EXPECT_EQ(text("{{ ('an answer of the ' ~ 'assistant').replace('answer', 'ask') }}"), "an ask of the assistant");
  EXPECT_EQ(text("{{ ('an answer of the ' ~ 'assistant') | list | length }}"), "26");
}

}  // namespace
}  // namespace plimsoll::text
