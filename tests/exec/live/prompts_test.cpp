// SPDX-License-Identifier: Apache-2.0
// Reads prompts from files, and runs them through an engine in groups. tests/cli/forward_test.cpp tests the messages.
#include "exec/live/prompts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "exec/live/prompt_runner.h"
#include "model/error.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/sequences.h"
#include "tests/scratch.h"

namespace plimsoll::exec {
namespace {

std::vector<Prompt> read(const Scratch& scratch, const std::string& text) {
  return read_prompts(scratch.write("p.jsonl", text), {.vocabulary = 97, .positions = 8, .generated = 0});
}

TEST(Prompts, HaveTheirIdOrTheirLine) {
  const Scratch scratch;
  const std::vector<Prompt> prompts = read(
      scratch,
      "{\"tokens\": [1]}\r\n\n  \n{\"tokens\": [0, 96], \"id\": \"\\u00e9 \\\"q\\\"\"}\n{\"id\": 7, \"tokens\": [2]}");
  ASSERT_EQ(prompts.size(), 3U);
  EXPECT_EQ(prompts[0].id, "1");
  EXPECT_EQ(prompts[1].id, "é \"q\"");
  EXPECT_EQ(prompts[1].tokens, (Tokens{0, 96}));
  EXPECT_EQ(prompts[2].id, "7");
}

// An id may equal the number of another line.
TEST(Prompts, LinesAndIdsDoNotMix) {
  const Scratch scratch;
  EXPECT_NE(problem_of([&] {
              (void)read(scratch, "{\"tokens\": [1]}\n{\"id\": \"1\", \"tokens\": [2]}");
            }).find("id '1' occurs twice, first on line 1"),
            std::string::npos);
}

RC_GTEST_PROP(Prompts, ChangedBytesAreReadOrRefused, ()) {
  std::string text = "{\"id\": \"a\", \"tokens\": [1, 2, 30]}\n{\"tokens\": [96]}\n";
  const auto changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < changes; ++i) {
    char& byte = text[static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(text.size())))];
    const bool digit = byte >= '0' && byte <= '9';
    if (digit && *rc::gen::inRange(0, 4) > 0)
      byte = *rc::gen::inRange('0', static_cast<char>('9' + 1));
    else if (*rc::gen::inRange(0, 4) == 0)
      byte = *rc::gen::arbitrary<char>();
  }
  const Scratch scratch;
  try {
    for (const Prompt& prompt : read(scratch, text)) {
      RC_ASSERT(!prompt.id.empty() && !prompt.tokens.empty() && prompt.tokens.size() <= 8U);
      for (const std::int32_t token : prompt.tokens) RC_ASSERT(token >= 0 && token < 97);
    }
    RC_TAG("read");
  } catch (const InputError& error) {
    RC_ASSERT(error.where().file.ends_with("p.jsonl"));
    RC_TAG("refused");
  }
}

struct Ran {
  std::vector<std::vector<float>> logits;
  std::vector<Tokens> tokens;
  EngineConfig config;
};
Ran run(const model::Architecture& architecture, const std::vector<Prompt>& prompts, PromptRun run) {
  Ran ran;
  ran.config.architecture = architecture;
  ran.config.weight_dtype = ran.config.kv_dtype = model::DType::fp32;
  ran.config.poison = true;
  ran.logits.resize(prompts.size());
  run.on_logits = [&](std::size_t prompt, std::int64_t row, std::span<const float> values) {
    EXPECT_EQ(static_cast<std::size_t>(row * architecture.shape.vocab), ran.logits[prompt].size())
        << "rows come in order";
    ran.logits[prompt].insert(ran.logits[prompt].end(), values.begin(), values.end());
  };
  make_room(prompts, run, ran.config);
  Engine engine(ran.config, *random_weights(architecture, 1));
  ran.tokens = run_prompts(engine, prompts, run);
  return ran;
}

// On the CPU a row does not depend on the rest of the batch, so groups can be compared bit by bit.
TEST(PromptRunner, ManyPromptsRunInGroups) {
  const model::Architecture a = tiny_model("llama3");
  std::vector<Prompt> prompts;
  for (std::uint64_t i = 0; i < 300; ++i)
    prompts.push_back({std::to_string(i), random_tokens(i, 1 + i % 5, a.shape.vocab)});
  PromptRun settings;
  settings.generate = 3;
  const Ran all = run(a, prompts, settings);
  EXPECT_EQ(all.config.sequences, 256);
  for (const std::size_t i : {0U, 255U, 256U, 299U}) {
    const Ran alone = run(a, {prompts[i]}, settings);
    EXPECT_EQ(all.tokens[i], alone.tokens[0]) << i;
    EXPECT_EQ(all.tokens[i].size(), 3U);
    EXPECT_EQ(all.logits[i], alone.logits[0]) << i;
  }
}

// 2500 tokens exceed the 2048 rows of a forward; the last logits must equal those of pieces of 500.
TEST(PromptRunner, LongPromptsAreCut) {
  model::Architecture a = tiny_model("llama");
  a.shape.max_position = 4096;
  const std::vector<Prompt> prompts = {{"short", random_tokens(1, 3, a.shape.vocab)},
                                       {"long", random_tokens(2, 2500, a.shape.vocab)}};
  PromptRun settings;
  settings.generate = 2;
  const Ran whole = run(a, prompts, settings);
  settings.chunk = 500;
  settings.block_tokens = 0;
  const Ran pieces = run(a, prompts, settings);
  EXPECT_EQ(whole.config.step_rows, 2048);
  EXPECT_EQ(pieces.config.block_tokens, 2501);
  ASSERT_EQ(whole.logits[1].size(), 2500U * static_cast<std::size_t>(a.shape.vocab));
  double most = 0;
  for (std::size_t i = 0; i < whole.logits[1].size(); ++i)
    most = std::max(most, static_cast<double>(std::abs(whole.logits[1][i] - pieces.logits[1][i])));
  EXPECT_LE(most, 1e-5);
  EXPECT_EQ(whole.tokens, pieces.tokens);
}

TEST(PromptRunner, StopsWhenToldTo) {
  const model::Architecture a = tiny_model("llama");
  const std::vector<Prompt> prompts = {{"a", {1, 2, 3}}};
  PromptRun settings;
  settings.generate = 10;
  double last = 0;
  settings.on_progress = [&](double done) {
    EXPECT_GT(done, last);
    last = done;
    return done < 0.5;
  };
  // 3 rows of the prompt and 9 decodes are 12 rows, so half of the work is done at the third decode.
  EXPECT_EQ(run(a, prompts, settings).tokens[0].size(), 4U);
  settings.on_progress = [&](double done) {
    last = done;
    return true;
  };
  EXPECT_EQ(run(a, prompts, settings).tokens[0].size(), 10U);
  EXPECT_EQ(last, 1.0);
}

}  // namespace
}  // namespace plimsoll::exec
