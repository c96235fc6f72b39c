// SPDX-License-Identifier: Apache-2.0
// What is not modelled is recognised under every product's name; the message states its effect on the figures.
#include "study/file/not_modelled.h"

#include <gmock/gmock.h>

#include <set>

#include "study/run/resolve.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class NotModelledTest : public StudyFolder {
 protected:
  std::string problem(const std::string& line) const {
    try {
      (void)read(std::string(kSmallStudy) + line + "\n");
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
};

struct Asked {
  const char* line;  // a line of a study, or a path in it
  const char* feature;
};

// kSmallStudy has 9 lines, and its own 'deployment' and 'workload'.
TEST_F(NotModelledTest, KeysAnswerWithTheEffectAtTheirPlace) {
  for (const Asked& asked :
       {Asked{"scheduler: {--enable-expert-parallel: true}", "expert parallelism"},
        Asked{"scheduler: {--data-parallel-size: 8}", "data parallelism"},
        Asked{"scheduler: {--speculative-config: '{}'}", "speculative decoding"},
        Asked{"scheduler: {option.enable_lora: true}", "LoRA"},
        Asked{"scheduler: {--enable-hierarchical-cache: true}", "a second tier"},
        Asked{"scheduler: {SPECULATE: 2}", "speculative decoding"}, Asked{"lora: {adapters: 8}", "LoRA"},
        Asked{"search: {ep: [1, 8]}", "expert parallelism"}}) {
    const std::string text = problem(asked.line);
    EXPECT_THAT(text, AllOf(HasSubstr("study.yaml:10:"), HasSubstr(asked.feature), HasSubstr("not modelled; effect: "),
                            HasSubstr("(source: "), HasSubstr("See docs/limits.md")))
        << asked.line;
  }
}

TEST_F(NotModelledTest, DeploymentsAndWorkloadsAnswerToo) {
  for (const Asked& asked : {Asked{"deployment.eplb", "expert parallelism"}, Asked{"deployment.dp", "data parallelism"},
                             Asked{"deployment.attention_dp", "data parallelism"},
                             Asked{"deployment.nodes", "a replica over several instances"},
                             Asked{"deployment.micro_batches", "pipelining"}, Asked{"deployment.mtp", "speculative"},
                             Asked{"deployment.kv_tiers", "a second tier"}, Asked{"workload.priority", "priorities"}}) {
    try {
      (void)read(kSmallStudy, {{asked.line, "4"}});
      ADD_FAILURE() << asked.line << " was accepted";
    } catch (const InputError& error) {
      EXPECT_THAT(error.text(), AllOf(HasSubstr(asked.feature), HasSubstr("not modelled; effect: ")));
    }
  }
}

// A feature that is modelled under another key is no limit; the message names that key.
TEST_F(NotModelledTest, OtherSpellingsOfPoolsNameTheKey) {
  for (const char* line : {"scheduler: {--disaggregation-mode: prefill}", "scheduler: {--kv-transfer-config: '{}'}"})
    EXPECT_THAT(problem(line), AllOf(HasSubstr("study.yaml:10:"), HasSubstr("stated as deployment.pools"))) << line;
}

// "ep: 1" and "lora: false" switch nothing on.
TEST_F(NotModelledTest, ValuesThatAskForNothingAreToldSo) {
  EXPECT_THAT(problem("scheduler: {--data-parallel-size: 1}"),
              HasSubstr("'--data-parallel-size: 1' is always the case here"));
  EXPECT_THAT(problem("lora: false"), HasSubstr("leave it out"));
  EXPECT_THAT(problem("lora: true"), ::testing::Not(HasSubstr("leave it out")));
}

TEST_F(NotModelledTest, TyposStillGetTheNearestKey) {
  EXPECT_THAT(problem("replicatoins: 2"), HasSubstr("did you mean 'replications'"));
}

TEST(NotModelled, EveryFeatureSaysEffectAndSourceAndSpellingsAreOnesOnly) {
  std::set<std::string_view> seen;
  for (const NotModelled& feature : not_modelled()) {
    EXPECT_FALSE(feature.effect.empty() || feature.source.empty() || feature.keys.empty()) << feature.name;
    for (const std::string_view key : feature.keys) {
      EXPECT_TRUE(seen.insert(key).second) << key;
      EXPECT_EQ(feature_of(key), &feature) << key;
    }
  }
}

// The page of limits has a row for each of them.
TEST(NotModelled, StandsInThePageOfLimits) {
  const std::string page = read_text(PLIMSOLL_SOURCE_DIR "/docs/limits.md");
  for (const NotModelled& feature : not_modelled())
    EXPECT_THAT(page, HasSubstr("**" + std::string(feature.name) + "**"));
}

// llama-2-7b has 32 layers: two stages of 16. Its steps pass through both, one after the other.
TEST_F(NotModelledTest, PipelineStagesAreMarked) {
  const auto reason = [&](const char* pp) {
    return resolve_point(read(kSmallStudy, {{"deployment.pp", pp}}), 0).result.extrapolates;
  };
  EXPECT_THAT(reason("2"), HasSubstr("pp 2: each step passes through all stages"));
  EXPECT_THAT(reason("1"), ::testing::Not(HasSubstr("stages")));
}

}  // namespace
}  // namespace plimsoll::study
