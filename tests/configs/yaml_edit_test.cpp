// SPDX-License-Identifier: Apache-2.0
// Tests Document::set, remove and dump.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "configs/yaml_document.h"
#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const Where kOrigin{"--set", 0, 0};

Document parsed(const std::string& text) { return Document::from_text(text, "f.yaml"); }

std::string after_set(const std::string& text, std::string_view path, const std::string& value) {
  Document document = parsed(text);
  document.set(path, value, kOrigin);
  return document.root().to_text();
}

TEST(YamlEdit, SetsAValueAndKeepsTheOthers) {
  EXPECT_EQ(after_set("a: {b: 1, c: 2}\nd: 3\n", "a.b", "5"), "{a: {b: 5, c: 2}, d: 3}");
  EXPECT_EQ(after_set("a: 1\n", "b", "[1, 2]"), "{a: 1, b: [1, 2]}");
  EXPECT_EQ(after_set("a: 1\n", "b", ""), "{a: 1, b: null}");
}

TEST(YamlEdit, MakesMapsOnTheWay) {
  EXPECT_EQ(after_set("a: 1\n", "b.c.d", "5"), "{a: 1, b: {c: {d: 5}}}");
  // The new map contains the value and nothing of its neighbours.
  EXPECT_EQ(after_set("a: 1\n", "b.c", "{x: 1}"), "{a: 1, b: {c: {x: 1}}}");
  EXPECT_EQ(after_set("lengths: 5\n", "lengths.input", "7"), "{lengths: {input: 7}}");
}

TEST(YamlEdit, PrefersAKeyThatHoldsDots) {
  EXPECT_EQ(after_set("sweep: {deployment.tp: [1]}\n", "sweep.deployment.tp", "[2]"), "{sweep: {deployment.tp: [2]}}");
}

TEST(YamlEdit, DoesNotChangeCopies) {
  const Document before = parsed("a: {b: 1}\n");
  Document after = before;
  after.set("a.b", "2", kOrigin);
  EXPECT_EQ(before.root().to_text(), "{a: {b: 1}}");
}

TEST(YamlEdit, ErrorsOfASetValueStandAtItsOrigin) {
  Document document = parsed("a: 1\n");
  EXPECT_THAT(problem_of([&] { document.set("a", "[1", kOrigin); }), StartsWith("--set: not valid YAML"));
  document.set("a", "{b: x}", kOrigin);
  EXPECT_THAT(problem_of([&] { (void)document.root().at("a").at("b").as_integer(); }), StartsWith("--set: found 'x'"));
}

TEST(YamlEdit, RefusesPathsWithEmptyParts) {
  for (const char* path : {"", ".", "a..b", ".a", "a.", "x."}) {
    Document document = parsed("a: {b: 1}\n");
    EXPECT_THAT(problem_of([&] { document.set(path, "1", kOrigin); }), StartsWith("--set: the path has an empty part"))
        << path;
  }
}

TEST(YamlEdit, DoesNotReplaceAListByAMap) {
  Document document = parsed("a: {list: [1, 2]}\n");
  EXPECT_THAT(problem_of([&] { document.set("a.list.0", "1", kOrigin); }), StartsWith("--set: '0' leads into a list"));
  document.set("a.list", "[3]", kOrigin);
  EXPECT_EQ(document.root().to_text(), "{a: {list: [3]}}");
}

TEST(YamlEdit, RefusesAPathWithoutEnd) {
  std::string path = "a";
  for (int i = 0; i < 100'000; ++i) path += ".a";
  Document document = parsed("a: 1\n");
  EXPECT_THAT(problem_of([&] { document.set(path, "1", kOrigin); }), HasSubstr("nested too deeply"));
  document.remove(path);
  EXPECT_EQ(document.root().to_text(), "{a: 1}");
}

TEST(YamlEdit, RemovesAValueWhereThereIsOne) {
  Document document = parsed("a: {b: 1, c: 2}\nd: 3\n");
  document.remove("a.b");
  EXPECT_EQ(document.root().to_text(), "{a: {c: 2}, d: 3}");
  document.remove("d");
  EXPECT_EQ(document.root().to_text(), "{a: {c: 2}}");
  for (const char* absent : {"x", "x.y", "a.x", "a.c.x", ""}) document.remove(absent);
  EXPECT_EQ(document.root().to_text(), "{a: {c: 2}}");
}

TEST(YamlEdit, DumpReadsBackTheSame) {
  const Document document = parsed(
      "study: Llama 2 7B, by TP\nhardware: {accelerator: a100, count: 8}\nempty: {}\nnone:\nnumber: \"12\"\ntext: 'a: "
      "b # c'\n"
      "sweep: {deployment.tp: [1, 2, 4, 8], workload.concurrency: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, "
      "2048]}\n"
      "\"Null\": \"~\"\nlist: [{a: 1}, [2, 3]]\n");
  const std::string text = document.dump();
  EXPECT_EQ(parsed(text).root().to_text(), document.root().to_text()) << text;
  for (const char* odd : {"{}", "[]", "[[\"a?\"]]", "\"---\"", "\"...\"", "\"--- a\"", "\"# a\""})
    EXPECT_EQ(parsed(parsed(odd).dump()).root().to_text(), parsed(odd).root().to_text()) << odd;
  EXPECT_THAT(text, StartsWith("study: \"Llama 2 7B, by TP\"\nhardware:\n  accelerator: a100\n  count: 8\n"));
}

// Uses any text of these characters as a key and as a value.
RC_GTEST_PROP(YamlEdit, DumpReadsBackAnyText, ()) {
  const auto characters = rc::gen::elementOf(std::string("ab1 :-#?&*!|>%@`'\"\\,[]{}~=\n\r\t\x01\x7f."));
  const auto key = *rc::gen::container<std::string>(characters), value = *rc::gen::container<std::string>(characters);
  const auto quoted = [](const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      const char* hex = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      out += std::string("\\x") + hex[byte >> 4U] + hex[byte & 0xfU];
    }
    return out + '"';
  };
  const Document document = parsed("{" + quoted(key) + ": {" + quoted(key) + ": [" + quoted(value) + "]}}");
  const Document again = parsed(document.dump());
  const Item item = again.root().items().at(0);
  RC_ASSERT(item.key == key);
  RC_ASSERT(item.value.items().at(0).key == key);
  RC_ASSERT(item.value.items().at(0).value.items().at(0).value.as_string() == value);
}

}  // namespace
}  // namespace plimsoll::configs
