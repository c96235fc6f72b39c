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
    if (expected[i].contains("fails"))
      EXPECT_FALSE(found.problem.empty()) << i;
    else
      EXPECT_EQ(found.problem, expected[i].value("problem", "")) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Chats,
                         ::testing::Values("chatml", "llama2", "llama3", "mistral", "gemma", "phi", "qwen", "language",
                                           "values", "blocks"));

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
  EXPECT_THAT(template_refusal("{{ messages.encode() }}"), HasSubstr("the method 'encode'"));
  EXPECT_THAT(template_refusal("{{ cycler is defined }}"), HasSubstr("the function 'cycler'"));
  EXPECT_THAT(template_refusal("{{ '%s' % 1 }}"), HasSubstr("the operator of a string '%'"));
  EXPECT_THAT(template_refusal("{{ x | map('wordcount') }}"), HasSubstr("the filter 'wordcount'"));
  EXPECT_THAT(template_refusal("{{ x | selectattr('y', 'sameas', 1) }}"), HasSubstr("the test 'sameas'"));
  EXPECT_THAT(template_refusal("{{ x.__class__ }}"), HasSubstr("the attribute '__class__'"));
  EXPECT_THAT(template_refusal("{{ x | upper.y }}"), HasSubstr("does not end where it should"));
  EXPECT_THAT(template_refusal("{% for x in y recursive %}{% endfor %}"), HasSubstr("recursive"));
}

TEST(ChatTemplate, BrokenTemplatesAreRefused) {
  EXPECT_THAT(template_refusal("{% if x %}"), HasSubstr("'endif' is missing"));
  EXPECT_THAT(template_refusal("{{ 'a }}"), HasSubstr("a string has no end"));
  EXPECT_THAT(template_refusal("{{ 1 + }}"), HasSubstr("a value is expected"));
  EXPECT_THAT(template_refusal("{% endfor %}"), HasSubstr("'endfor'"));
  EXPECT_THAT(template_refusal(std::string(100'000, '(')), ::testing::IsEmpty());  // text
  EXPECT_THAT(template_refusal("{{ " + std::string(100'000, '(')), HasSubstr("chat template"));
  EXPECT_THAT(template_refusal("{% raw %}"), HasSubstr("{% raw %} has no end"));
  EXPECT_THAT(template_refusal("{% raw %"), HasSubstr("has no '%}'"));
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
  EXPECT_THAT(problem("{{ 'a' + 1 }}"), HasSubstr("'+' does not take a string and a number"));
  EXPECT_THAT(problem("{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}"), HasSubstr("too deeply"));
  EXPECT_THAT(problem("{{ range(1000000) }}"), HasSubstr("100000"));
  EXPECT_THAT(problem("{{ 9223372036854775807 + 1 }}"), HasSubstr("beyond 64 bits"));
  EXPECT_THAT(problem("{{ ('x' * 100000) * 100000 }}"), HasSubstr("longer than 16 million"));
  EXPECT_EQ(problem("{{ [1, 2, 3][1::9223372036854775807] }}"), "");
  EXPECT_EQ(problem("{{ range(1, 9223372036854775807, 9223372036854775806) }}"), "");
}

TEST(ChatTemplate, AValueIsNotTakenForAnother) {
  const auto problem = [](const std::string& source) {
    return ChatTemplate(source, {}).render(ordered_json::array(), true, {}).problem;
  };
  EXPECT_THAT(problem("{{ [1].strip() }}"), HasSubstr("'strip', which is undefined"));
  EXPECT_THAT(problem("{{ none.items() }}"), HasSubstr("'items', which is undefined"));
  EXPECT_THAT(problem("{{ ', '.join([1]) }}"), HasSubstr("expected a string, found a number"));
  EXPECT_THAT(problem("{{ [1].append(2) }}"), HasSubstr("'append', which is undefined"));  // it would change the list
  EXPECT_THAT(problem("{{ [1] | select | length }}"), HasSubstr("a generator has no length"));
  EXPECT_THAT(problem("{{ [1] + (2,) }}"), HasSubstr("'+' does not take a list and a tuple"));
  EXPECT_THAT(problem("{{ 'a'.replace('a') }}"), HasSubstr("replace: the argument 'new' is missing"));
  EXPECT_THAT(problem("{{ 'a' | upper(1) }}"), HasSubstr("upper: at most 0 arguments"));
  EXPECT_THAT(problem("{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}"), HasSubstr("found the argument 'a'"));
  EXPECT_THAT(problem("{% set n = namespace(_x=1) %}"), HasSubstr("'_x'"));
}

// A namespace outlives the loop; the macro refers to variables of the loop.
TEST(ChatTemplate, AMacroOutlivesNotItsScope) {
  const std::string source =
      "{% set n = namespace() %}{% for x in [1] %}{% macro m() %}{{ x }}{% endmacro %}{% set n.m = m %}{{ n.m() }}"
      "{% endfor %}{{ n.m() }}";
  EXPECT_THAT(ChatTemplate(source, {}).render(ordered_json::array(), true, {}).problem,
              HasSubstr("macro m: the scope that defined it has ended"));
}

// Nesting and cycles would overflow the stack, or never be freed.
TEST(ChatTemplate, ValuesNestAsDeeplyAsTheStackAllows) {
  const auto problem = [](const std::string& source) {
    return ChatTemplate(source, {}).render(ordered_json::array(), true, {}).problem;
  };
  EXPECT_THAT(problem("{% set n = namespace(v=1) %}{% for i in range(100000) %}{% set n.v = [n.v] %}{% endfor %}"),
              HasSubstr("nest too deeply"));
  EXPECT_THAT(problem("{% set n = namespace() %}{% set n.v = [n] %}"), HasSubstr("cannot contain itself"));
}

// A part of `text` is a view of the argument `sep`, which must live as long.
TEST(ChatTemplate, PartitionTakesATemporarySeparator) {
  const std::string source =
      "{{ ('left of the separator' ~ '<a long separator>' ~ 'right').partition('<a long ' ~ 'separator>') }}";
  EXPECT_EQ(ChatTemplate(source, {}).render(ordered_json::array(), true, {}).text,
            "('left of the separator', '<a long separator>', 'right')");
}

// The numbers of Unicode's SpecialCasing: one character becomes several, and a sigma has a final form.
TEST(ChatTemplate, LettersChangeCaseAsInPython) {
  const auto text = [](const std::string& source) {
    return ChatTemplate(source, {}).render(ordered_json::array(), true, {}).text;
  };
  EXPECT_EQ(text("{{ 'ß ŉ ﬁ' | upper }}"), "SS ʼN FI");
  EXPECT_EQ(text("{{ 'ß'.title() }}{{ 'ﬁx'.capitalize() }}"), "SsFix");
  EXPECT_EQ(text("{{ 'ΣΑΣ ΣΑ.' | lower }}{{ 'İ' | lower | length }}"), "σας σα.2");
  EXPECT_EQ(text("{{ ' 　x '.strip() }}{{ 'a b'.split() }}"), "x['a', 'b']");
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
