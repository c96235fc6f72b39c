// SPDX-License-Identifier: Apache-2.0
// plimsoll forward, run as a user does: compares its files with those of transformers, and checks its messages.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kModels = std::string(PLIMSOLL_SOURCE_DIR) + "/tests/golden/models/";

/// A .safetensors file of f32 tensors, read without the program's own reader.
struct Tensors {
  explicit Tensors(const std::string& path) : bytes(read_text(path)) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    header = nlohmann::json::parse(bytes.substr(sizeof(length), length));
    begin = sizeof(length) + length;
  }
  [[nodiscard]] std::vector<float> values(const std::string& name) const {
    const auto from = header[name]["data_offsets"][0].get<std::size_t>(),
               to = header[name]["data_offsets"][1].get<std::size_t>();
    std::vector<float> out((to - from) / sizeof(float));
    std::memcpy(out.data(), bytes.data() + begin + from, to - from);
    return out;
  }
  std::string bytes;
  nlohmann::json header;
  std::size_t begin = 0;
};

class ForwardTest : public CommandTest {
 protected:
  static std::string fixture(const std::string& name, const std::string& more) {
    return "forward " + kModels + name + " --tokens " + kModels + name + "/prompts.jsonl --generate 12 --quiet " + more;
  }
  /// Returns the largest |difference| of logits divided by the largest |logit|, over all prompts of a fixture.
  static double error_of(const std::string& name, const std::string& out) {
    const Tensors expected(kModels + name + "/expected.safetensors"), found(out + "/logits.safetensors");
    double error = 0;
    for (const auto& [id, entry] : expected.header.items()) {
      if (id == "__metadata__") continue;
      EXPECT_EQ(found.header[id]["shape"], entry["shape"]);
      EXPECT_EQ(found.header[id]["dtype"], "F32");
      const std::vector<float> a = found.values(id), b = expected.values(id);
      double difference = 0, size = 0;
      for (std::size_t i = 0; i < b.size(); ++i) {
        difference = std::max(difference, static_cast<double>(std::abs(a[i] - b[i])));
        size = std::max(size, static_cast<double>(std::abs(b[i])));
      }
      error = std::max(error, difference / size);
    }
    return error;
  }
  Outcome with_prompt(const std::string& line, const std::string& more = "--generate 1") {
    return run("forward " + kModels + "llama --quiet --tokens " + write("prompts.jsonl", line + "\n") + " " + more);
  }
};

// Fused and grouped (Falcon), rotated in pairs (GPT-J), stored in shards (Qwen2); tests/exec/golden_test.cpp tests the
// other families.
TEST_F(ForwardTest, WritesWhatTransformersComputes) {
  for (const std::string name : {"falcon_40b", "gptj", "qwen2", "mixtral"}) {
    for (const std::string more : {"", "--tp 2 --chunk 5 --block-size max", "--chunk 1 --block-size 1 --threads 1"}) {
      const Outcome done = run(fixture(name, more + " --out " + file("out")));
      ASSERT_EQ(done.exit, 0) << done.output;
      EXPECT_LE(error_of(name, file("out")), 1e-4) << name << ' ' << more;
      EXPECT_EQ(done.output, read_text(file("out/tokens.jsonl")));
    }
  }
}

// The margins of this fixture exceed any error of f32.
TEST_F(ForwardTest, TokensAreTheGreedyOnes) {
  std::istringstream found(run(fixture("llama3", "")).output), expected(read_text(kModels + "llama3/expected.jsonl"));
  std::string a, b;
  int lines = 0;
  for (; std::getline(expected, b); ++lines) {
    ASSERT_TRUE(std::getline(found, a));
    EXPECT_EQ(nlohmann::json::parse(a)["tokens"], nlohmann::json::parse(b)["tokens"]);
    EXPECT_EQ(nlohmann::json::parse(a)["id"], nlohmann::json::parse(b)["id"]);
  }
  EXPECT_EQ(lines, 4);
}

TEST_F(ForwardTest, WeightsHaveEveryForm) {
  const std::string prompts = " --generate 3 --quiet --tokens " + kModels + "qwen2/prompts.jsonl";
  const std::string folder = run("forward " + kModels + "qwen2" + prompts).output;
  EXPECT_EQ(run("forward " + kModels + "qwen2/model.safetensors.index.json" + prompts).output, folder);
}

TEST_F(ForwardTest, AConfigAloneHasRandomWeightsOfTheSeed) {
  const std::string command =
      "forward " + kModels + "llama/config.json --generate 3 --quiet --tokens " + kModels + "llama/prompts.jsonl ";
  const std::string random = run(command).output;
  EXPECT_EQ(run(command + "--seed 1 --tp 2").output, random);
  EXPECT_NE(run(command + "--seed 2").output, random);
}

TEST_F(ForwardTest, CatalogueModelsHaveRandomWeights) {
  const Outcome done =
      run("forward Demo-Llama-40M --generate 2 --tokens " + write("p.jsonl", "{\"tokens\": [5, 31999]}\n"));
  EXPECT_EQ(done.exit, 0);
  EXPECT_THAT(done.output,
              AllOf(HasSubstr("demo-llama-40m, random weights (seed 1)"), HasSubstr("{\"id\": \"1\", \"tokens\": [")));
}

TEST_F(ForwardTest, PromptsThatAreWrongHaveAPlace) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[1]", "found a list, expected an object"},
      {"{}", "tokens is missing"},
      {R"({"tokens": []})", "tokens is empty"},
      {R"({"tokens": [1, 97]})", "tokens[1]: found 97, allowed: 0 to 96"},
      {R"({"tokens": [-1]})", "tokens[0]: found -1, allowed: 0 to 96"},
      {R"({"tokens": [1.0]})", "tokens: found a number that is not whole"},
      {R"({"tokens": [[[[[)", "tokens: found a list"},
      {R"({"tokens": [1], "ids": "a"})", "unknown key 'ids', allowed: id, tokens"},
      {R"({"id": "__metadata__", "tokens": [1]})", "id: found '__metadata__', which cannot be the name of a tensor"},
      {R"({"tokens": [1]} x)", "not valid JSON at byte 17 of the line"},
      {R"({"id": "a", "tokens": [1]})", "id 'a' occurs twice, first on line 1"},
  };
  for (const auto& [line, message] : kCases) {
    const Outcome wrong = with_prompt(std::string(R"({"id": "a", "tokens": [1]})") + "\n\n" + line);
    EXPECT_EQ(wrong.exit, 2) << line;
    EXPECT_THAT(wrong.output, StartsWith("plimsoll: " + file("prompts.jsonl") + ":3: " + message)) << line;
    EXPECT_EQ(std::count(wrong.output.begin(), wrong.output.end(), '\n'), 1) << line;
  }
  EXPECT_THAT(with_prompt("").output, HasSubstr("prompts.jsonl: holds no prompts"));
}

// 128 positions: 2 of the prompt and 126 for generated tokens, the last of which does not go through the model.
TEST_F(ForwardTest, PromptsKeepToTheContext) {
  const std::string prompt = R"({"tokens": [1, 2]})";
  EXPECT_EQ(with_prompt(prompt, "--generate 127").exit, 0);
  const Outcome wrong = with_prompt(prompt, "--generate 128");
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.output, HasSubstr("prompts.jsonl:1: a prompt of 2 tokens with 128 more to generate goes through "
                                      "129 positions, but the model has 128"));
}

TEST_F(ForwardTest, WhatCannotBeRunIsNamed) {
  const std::string prompt = R"({"tokens": [1]})";
  EXPECT_THAT(with_prompt(prompt, "--generate 1 --tp 3").output, HasSubstr("4 attention heads do not divide by tp 3"));
  EXPECT_THAT(with_prompt(prompt, "").output, HasSubstr("nothing to do: expected --generate N"));
  EXPECT_THAT(with_prompt(prompt, "--generate 1 --dtype fp16").output,
              HasSubstr("--dtype: found 'fp16', allowed: f32, bf16"));
  EXPECT_THAT(with_prompt(prompt, "--generate 1 --block-size 0").output, HasSubstr("--block-size: found '0'"));
  const std::string tokens = " --generate 1 --tokens " + file("prompts.jsonl");
  EXPECT_EQ(run("forward llama-4-scout-17b-16e" + tokens).output,
            "plimsoll: llama-4-scout-17b-16e: models of the family llama4 are simulated but not executed\n");
  EXPECT_THAT(run("forward " + kModels + tokens).output, HasSubstr("models/config.json: no such file"));
  const std::string config = read_text(kModels + "llama3/config.json");
  std::filesystem::create_directories(file("ntk"));
  write("ntk/config.json", std::string(config).replace(config.find("\"llama3\""), 8, "\"ntk\""));
  EXPECT_THAT(run("forward " + file("ntk/config.json") + tokens).output,
              HasSubstr("rope_parameters.rope_type: found 'ntk'"));
}

TEST_F(ForwardTest, AHostileCheckpointIsRefusedWithTheTensor) {
  std::filesystem::create_directories(file("bad"));
  write("bad/config.json", read_text(kModels + "llama/config.json"));
  std::string bytes = read_text(kModels + "llama/model.safetensors");
  write("bad/model.safetensors", bytes.substr(0, bytes.size() - 1));
  const std::string command = "forward " + file("bad") + " --generate 1 --tokens " + kModels + "llama/prompts.jsonl";
  const Outcome cut = run(command);
  EXPECT_EQ(cut.exit, 2);
  EXPECT_THAT(cut.output, AllOf(StartsWith("plimsoll: " + file("bad/model.safetensors") + ": tensor 'model."),
                                HasSubstr("reach past the end")));
  // In an untied model, the head is a separate tensor.
  bytes.replace(bytes.find("lm_head.weight"), 14, "lm_heat.weight");
  write("bad/model.safetensors", bytes);
  EXPECT_THAT(run(command).output, EndsWith("tensor 'lm_head.weight' is missing (lm_head)\n"));
}

TEST_F(ForwardTest, NothingIsWrittenBeforeItIsWhole) {
  const std::string out = file("out");
  const Outcome wrong = with_prompt(R"({"tokens": [1]})", "--generate 1 --out " + write("taken", ""));
  EXPECT_EQ(wrong.exit, 2);
  EXPECT_THAT(wrong.output, HasSubstr("is a file, not a folder"));
  EXPECT_EQ(with_prompt(R"({"tokens": [1]})", "--out " + out).exit, 0);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(out)) names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("logits.safetensors", "tokens.jsonl"));
  EXPECT_EQ(read_text(out + "/tokens.jsonl"), "{\"id\": \"1\", \"tokens\": []}\n");
}

// Runs on a GPU if there is one; otherwise one line states what is missing.
TEST_F(ForwardTest, CudaIsThereOrSaysWhatIsMissing) {
  const Outcome done = with_prompt(R"({"tokens": [1, 2]})", "--generate 2 --device cuda");
  if (done.exit == 0) return;
  EXPECT_EQ(done.exit, 3) << done.output;
  EXPECT_THAT(done.output, StartsWith("plimsoll: "));
  EXPECT_EQ(std::count(done.output.begin(), done.output.end(), '\n'), 1);
}

}  // namespace
}  // namespace plimsoll::study
