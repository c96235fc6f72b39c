// SPDX-License-Identifier: Apache-2.0
#include "configs/yaml_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string parse_problem(const std::string& text) {
  return problem_of([&] { (void)Document::from_text(text, "f.yaml"); });
}

TEST(YamlDocument, ConvertsValues) {
  const Document document = Document::from_text(
      "tp: 4\nratio: 1.2\ntimeout: 60 s\nmemory: 80 GiB\nlink: 32 GB/s\npeak: 312 TFLOP/s\nrate: 4 /s\nprice: 3 USD\n"
      "dtype: bfloat16\non: true\nname: \"12\"\nempty:\nlist: [1, 2]\n",
      "f.yaml");
  const Node root = document.root();
  EXPECT_EQ(root.at("tp").as_integer(1, 8), 4);
  EXPECT_EQ(root.at("ratio").as_number(), 1.2);
  EXPECT_EQ(root.at("timeout").as_seconds().count(), 60);
  EXPECT_EQ(root.at("memory").as_bytes().value, 85899345920.);
  EXPECT_EQ(root.at("link").as_bytes_per_second().value, 32e9);
  EXPECT_EQ(root.at("peak").as_flops_per_second().value, 312e12);
  EXPECT_EQ(root.at("rate").as_rate().value, 4);
  EXPECT_EQ(root.at("price").as_usd().value, 3);
  EXPECT_EQ(root.at("dtype").as_dtype(), model::DType::bf16);
  EXPECT_TRUE(root.at("on").as_bool());
  EXPECT_EQ(root.at("name").as_string(), "12");
  EXPECT_TRUE(root.at("empty").is_null());
  EXPECT_EQ(root.at("list").items().size(), 2U);
  EXPECT_EQ(root.items()[2].key, "timeout");
}

TEST(YamlDocument, NamesThePlaceTheFindAndWhatIsAllowed) {
  struct Case {
    const char* text;
    std::function<void(const Node&)> read;
    const char* message;
  };
  static constexpr std::array<std::string_view, 3> kKeys = {"replicas", "router", "tp"};
  const Case table[] = {
      {"tp: 4\nreplica: 2\n", [](const Node& n) { n.require_known_keys(kKeys); },
       "f.yaml:2:1: unknown key 'replica'; did you mean 'replicas'? Allowed: replicas, router, tp"},
      {"tp: 4\nzzzzzzz: 2\n", [](const Node& n) { n.require_known_keys(kKeys); },
       "f.yaml:2:1: unknown key 'zzzzzzz'. Allowed: replicas, router, tp"},
      {"[1, 2]", [](const Node& n) { n.require_known_keys(kKeys); },
       "f.yaml:1:1: found a list of 2, expected a map with the keys"},
      {"limits:\n  timeout: 60\n", [](const Node& n) { (void)n.at("limits").at("timeout").as_seconds(); },
       "f.yaml:2:12: found '60': a unit is missing; write for example '60 s'"},
      {"t: 5 parsecs", [](const Node& n) { (void)n.at("t").as_seconds(); },
       "f.yaml:1:4: found '5 parsecs': unknown unit 'parsecs'"},
      {"t: -5 s", [](const Node& n) { (void)n.at("t").as_seconds(); },
       "f.yaml:1:4: found '-5 s': must not be negative"},
      {"t: .nan s", [](const Node& n) { (void)n.at("t").as_seconds(); },
       "f.yaml:1:4: found '.nan s': expected a number and a unit"},
      {"t: nan s", [](const Node& n) { (void)n.at("t").as_seconds(); },
       "f.yaml:1:4: found 'nan s': expected a finite number"},
      {"t: 1e300 s", [](const Node& n) { (void)n.at("t").as_seconds(); },
       "f.yaml:1:4: found '1e300 s': out of range, 0 to 1e+09"},
      {"t: 1e999 s", [](const Node& n) { (void)n.at("t").as_seconds(); },
       "f.yaml:1:4: found '1e999 s': the number is out of range"},
      {"n: nan", [](const Node& n) { (void)n.at("n").as_number(); },
       "f.yaml:1:4: found 'nan', expected a finite number"},
      {"n: 1e300", [](const Node& n) { (void)n.at("n").as_number(); },
       "f.yaml:1:4: found 1e300, expected a number from -1e+18"},
      {"n: 1e300", [](const Node& n) { (void)n.at("n").as_integer(); },
       "f.yaml:1:4: found '1e300', expected a whole number"},
      {"n: 2.5", [](const Node& n) { (void)n.at("n").as_integer(); },
       "f.yaml:1:4: found '2.5', expected a whole number"},
      {"n: 0", [](const Node& n) { (void)n.at("n").as_integer(1); },
       "f.yaml:1:4: found 0, expected a whole number of at least 1"},
      {"n: 9", [](const Node& n) { (void)n.at("n").as_integer(1, 8); },
       "f.yaml:1:4: found 9, expected a whole number from 1 to 8"},
      {"n: {a: 1}", [](const Node& n) { (void)n.at("n").as_integer(); },
       "f.yaml:1:4: found a map of 1 keys, expected a whole number"},
      {"a: 1\nn:\nb: 1\n", [](const Node& n) { (void)n.at("n").as_integer(); },
       "f.yaml:2:1: found nothing, expected a whole number"},
      {"b: yes", [](const Node& n) { (void)n.at("b").as_bool(); }, "f.yaml:1:4: found 'yes', expected true or false"},
      {"d: fp12", [](const Node& n) { (void)n.at("d").as_dtype(); },
       "f.yaml:1:4: found 'fp12', expected one of fp32, fp16, bf16"},
      {"r: roter", [](const Node& n) { (void)n.at("r").as_one_of(kKeys); },
       "f.yaml:1:4: found 'roter' (did you mean 'router'?), expected one of replicas, router, tp"},
      {"a: 1\nb:\n  c: 1\n", [](const Node& n) { (void)n.at("b").at("d"); }, "f.yaml:3:3: key 'd' is missing"},
      {"a: 5", [](const Node& n) { (void)n.at("a").find("x"); }, "f.yaml:1:4: found '5', expected a map (key: value)"},
      {"a: 5", [](const Node& n) { (void)n.at("a").items(); }, "f.yaml:1:4: found '5', expected a list or a map"},
  };
  for (const Case& c : table)
    EXPECT_THAT(problem_of([&] { c.read(Document::from_text(c.text, "f.yaml").root()); }), StartsWith(c.message))
        << c.text;
}

TEST(YamlDocument, RefusesWhatIsNoText) {
  EXPECT_THAT(parse_problem("a: 1\nb: \xff\n"),
              StartsWith("f.yaml:2:4: byte 0xff is not text; expected YAML in UTF-8"));
  EXPECT_THAT(parse_problem("a: \xc0\xaf"), StartsWith("f.yaml:1:4: byte 0xc0"));          // overlong
  EXPECT_THAT(parse_problem("a: \xed\xa0\x80"), StartsWith("f.yaml:1:4: byte 0xed"));      // surrogate
  EXPECT_THAT(parse_problem("a: \xf4\x90\x80\x80"), StartsWith("f.yaml:1:4: byte 0xf4"));  // beyond U+10FFFF
  EXPECT_THAT(parse_problem("a: \xe2\x82"), StartsWith("f.yaml:1:4: byte 0xe2"));          // cut off
  EXPECT_THAT(parse_problem(std::string("a: 1\n\0b: 2", 10)), StartsWith("f.yaml:2:1: byte 0x00"));
  EXPECT_EQ(parse_problem("a: Größe 🚢\n"), "no error");
}

TEST(YamlDocument, RefusesWhatIsNoYaml) {
  EXPECT_THAT(parse_problem(""), StartsWith("f.yaml:1:1: the file is empty"));
  EXPECT_THAT(parse_problem("# nothing but a comment\n"), HasSubstr("the file is empty"));
  EXPECT_THAT(parse_problem("a: 1\na: 2\n"),
              StartsWith("f.yaml:2:1: key 'a' occurs twice in this map; first at line 1"));
  EXPECT_THAT(parse_problem("x: {a: 1, b: 2, a: 3}"), StartsWith("f.yaml:1:17: key 'a' occurs twice"));
  EXPECT_THAT(parse_problem("a: 1\n---\nb: 2\n"), StartsWith("f.yaml:3:1: a second YAML document"));
  EXPECT_THAT(parse_problem("a: [1, 2\n"), HasSubstr("not valid YAML"));
  for (const char* open : {"a: \"open", "a: \"open\n", "a: 'open\n\n  \n", "a: \"open\nb: 1 # more\n"})
    EXPECT_THAT(parse_problem(open), HasSubstr("not valid YAML")) << open;
  EXPECT_THAT(parse_problem("a: b: c\n"), StartsWith("f.yaml:1:5: not valid YAML"));
  EXPECT_THAT(parse_problem("a:\n  b: 1\n c: 2\n"), StartsWith("f.yaml:3:"));
  EXPECT_THAT(parse_problem("{a: 1}: 2\n"), HasSubstr("a key must be a plain word"));
  EXPECT_THAT(parse_problem("a: &x 1\n"), StartsWith("f.yaml:1:4: anchors (&name) are not allowed"));
  EXPECT_NE(parse_problem("a: *x\n"), "no error");
  EXPECT_THAT(parse_problem("a: !!python/object x\n"), StartsWith("f.yaml:1:4: tags (!name) are not allowed"));
  EXPECT_THAT(parse_problem("a: !t {b: 1}\n"), HasSubstr("tags (!name) are not allowed"));
  EXPECT_THAT(parse_problem("a: !t [1]\n"), HasSubstr("tags (!name) are not allowed"));
}

TEST(YamlDocument, KeepsTheEndOfTheLastText) {
  EXPECT_EQ(Document::from_text("a: |\n  x\n  y\n", "f").root().at("a").as_string(), "x\ny\n");
  EXPECT_EQ(Document::from_text("a: |+\n  x\n\n", "f").root().at("a").as_string(), "x\n\n");
  EXPECT_EQ(Document::from_text("a: x y", "f").root().at("a").as_string(), "x y");
  EXPECT_EQ(Document::from_text("a: x # y", "f").root().at("a").as_string(), "x");
  EXPECT_THROW((void)Document::from_text("a: \"x\\0y\"", "f").root().at("a").as_string(),
               InputError);  // the system would truncate this name
}

TEST(YamlDocument, RefusesTabsAsIndentation) {
  EXPECT_THAT(parse_problem("a:\n\tb: 1\n"), StartsWith("f.yaml:2:"));
  EXPECT_THAT(parse_problem("\ta: 1\n"), StartsWith("f.yaml:1:"));
  EXPECT_EQ(parse_problem("a:\t1\t# after the key a tab is a blank\n"), "no error");
}

TEST(YamlDocument, NoInputBlowsUp) {
  EXPECT_THAT(parse_problem(std::string(100'000, '[')), HasSubstr("nested deeper than 64 levels"));
  std::string nested;
  for (int i = 0; i < 200; ++i) nested += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_THAT(parse_problem(nested), HasSubstr("nested deeper than 64 levels"));
  std::string bomb = "a: &a [x, x]\n";
  for (char c = 'b'; c < 'z'; ++c)
    bomb += std::string(1, c) + ": &" + c + " [*" + char(c - 1) + ", *" + char(c - 1) + "]\n";
  EXPECT_THAT(parse_problem(bomb), HasSubstr("anchors (&name) are not allowed"));
  std::string many = "[";
  for (int i = 0; i < 300'000; ++i) many += "1,";
  EXPECT_THAT(parse_problem(many + "1]"), HasSubstr("more than 200000 values"));
  std::string keys;
  for (int i = 0; i < 90'000; ++i) keys += "k" + std::to_string(i) + ": 1\n";  // takes minutes if the time is quadratic
  EXPECT_EQ(parse_problem(keys), "no error");
}

TEST(YamlDocument, RefusesFilesThatAreNone) {
  const Scratch scratch;
  const auto problem = [](const std::string& path) { return problem_of([&] { (void)Document::from_file(path); }); };
  EXPECT_EQ(problem(scratch.path("none.yaml")), scratch.path("none.yaml") + ": no such file, expected a YAML file");
  EXPECT_EQ(problem(scratch.path()), scratch.path() + ": is a directory, expected a YAML file");
  EXPECT_THAT(problem(scratch.write("big.yaml", "a: " + std::string(5U << 20U, 'x'))), HasSubstr("larger than 4 MiB"));
  EXPECT_THAT(problem(scratch.write("empty.yaml", "")), HasSubstr("empty.yaml:1:1: the file is empty"));
  EXPECT_THAT(problem("/dev/zero"), HasSubstr("larger than 4 MiB"));
}

TEST(YamlDocument, CutsLongTextsInMessages) {
  std::string name;
  for (int i = 0; i < 100; ++i) name += "é";
  const std::string problem =
      problem_of([&] { (void)Document::from_text("a: " + name, "f").root().at("a").as_integer(); });
  EXPECT_THAT(problem, AllOf(HasSubstr("é…'"), Not(HasSubstr("\xc3…"))));
}

}  // namespace
}  // namespace plimsoll::configs
