// SPDX-License-Identifier: Apache-2.0
// Hardware in the forms that users write, in every place where a study names it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "model/error.h"
#include "study/plan/candidate.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class HardwareTest : public StudyFolder {
 protected:
  static std::string on(const std::string& hardware, const std::string& rest = "") {
    return "model: llama-2-7b\nhardware: " + hardware +
           "\nengine: tgi-1.1\n"
           "workload: {load: {poisson: {rate: 1 /s}}, lengths: {input: 8, output: 8}, requests: 10}\n" +
           rest;
  }
  static std::string label(const Study& study, std::size_t index = 0) { return study.point(index).hardware.label; }
};

TEST_F(HardwareTest, ACountOfAcceleratorsIsAMachine) {
  const Study study = read(on("8xH100"));
  EXPECT_EQ(label(study), "h100-sxm x 8");
  EXPECT_NE(study.point(0).hardware.interconnect, nullptr) << "linked as the kind usually is";
}

// The resolved form is shown, and the written study contains it, so that nothing must be guessed again.
TEST_F(HardwareTest, TheResolvedFormIsSaidAndWritten) {
  const Study study = read(on("h100 x 8"));
  EXPECT_THAT(study.notes(), Contains(HasSubstr("h100 x 8 is {accelerator: h100-sxm, count: 8}")));
  EXPECT_THAT(study.resolved_yaml(), HasSubstr("accelerator: h100-sxm"));
}

TEST_F(HardwareTest, OverridesSweepsAndSearchesTakeItToo) {
  EXPECT_EQ(label(read(on("g5.xlarge"), {{"hardware", "4 x a100"}})), "a100-sxm-80gb x 4");
  EXPECT_EQ(label(read(on("h100"), {{"hardware.count", "4"}})), "h100-sxm x 4");
  const Study swept = read(on("g5.xlarge", "sweep: {hardware: [l4, 2xl40s]}\n"));
  EXPECT_EQ(label(swept, 0), "l4 x 1");
  EXPECT_EQ(label(swept, 1), "l40s x 2");
  const Study searched =
      read(on("g5.xlarge", "search: {instances: [8xh100, l40s x 4], tp: [1], replicas: [1], objective: gpus}\n"));
  const plan::Question question = plan::make_question(searched, 0);
  ASSERT_EQ(question.candidates.size(), 2U);
  EXPECT_EQ(question.candidates[0].spec.hardware.label, "h100-sxm x 8");
  EXPECT_EQ(question.candidates[1].spec.hardware.label, "l40s x 4");
}

// One 16-bit peak is enough for a user's accelerator: those that support both types are equally fast in both.
TEST_F(HardwareTest, OneSixteenBitPeakIsThatOfBothTypes) {
  for (const char* const peak : {"{bf16: 400 TFLOP/s}", "{fp16: 400 TFLOP/s}", "400 TFLOP/s"}) {
    const PointSpec spec =
        read(on(fmt::format("{{accelerator: {{name: mine, memory: 80 GB, bandwidth: 2 TB/s, peak: {}}}}}", peak)))
            .point(0);
    EXPECT_EQ(spec.hardware.accelerator->fp16.value, 400e12) << peak;
    EXPECT_EQ(spec.hardware.accelerator->bf16.value, 400e12) << peak;
  }
  const PointSpec both =
      read(on("{accelerator: {name: mine, memory: 80 GB, bandwidth: 2 TB/s, peak: {bf16: 400 TFLOP/s, "
              "fp16: 100 TFLOP/s}}}"))
          .point(0);
  EXPECT_EQ(both.hardware.accelerator->fp16.value, 100e12);
}

TEST_F(HardwareTest, ATypoGetsTheNearestName) {
  try {
    static_cast<void>(read(on("8xh10")));
    FAIL() << "there is no h10";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean 'h100'"));
  }
}

// The front end of a benchmark's set-up belongs to the study, not the engine: none unless stated, with a note.
class FrontEndTest : public StudyFolder {
 protected:
  Study with(const std::string& engine) {
    return read("model: llama-2-7b\nhardware: h100-sxm\n" + engine +
                "workload: {load: {poisson: {rate: 1 /s}}, lengths: {input: 8, output: 8}, requests: 10}\n");
  }
};

TEST_F(FrontEndTest, IsNoneUnlessStated) {
  const Study plain = with("engine: sglang-0.5\n");
  EXPECT_EQ(plain.point(0).front_end, model::FrontEnd::none);
  EXPECT_THAT(plain.resolved_yaml(), HasSubstr("engine_front_end: none\n"));
  const Study stated = with("engine: sglang-0.5\nengine_front_end: dynamo\n");
  EXPECT_EQ(stated.point(0).front_end, model::FrontEnd::dynamo);
  EXPECT_THAT(stated.resolved_yaml(), HasSubstr("engine_front_end: dynamo\n"));
}

// A profile that is derived from another version inherits its front ends; TGI was never measured behind one.
TEST_F(FrontEndTest, NeedsATime) {
  EXPECT_EQ(with("engine: vllm-0.10\nengine_front_end: dynamo\n").point(0).front_end, model::FrontEnd::dynamo);
  const auto problem = [&](const std::string& engine) {
    try {
      (void)with(engine);
    } catch (const InputError& error) {
      return error.text();
    }
    return std::string("no error");
  };
  EXPECT_EQ(problem("engine: tgi-1.1\nengine_front_end: dynamo\n"),
            "found 'dynamo', but engine tgi-1.1 was not measured behind it; allowed: none");
  EXPECT_THAT(problem("engine: tgi-1.1\nengine_front_end: nginx\n"), HasSubstr("none, dynamo"));
}

// AIConfigurator's generator of server settings derives max_num_tokens from the lengths and users that it is asked for:
// input + users + 1000 for TensorRT-LLM (by its comment), + 1500 for vLLM. A study's own limits win.
class SetUpTest : public StudyFolder {
 protected:
  PointSpec point(const std::string& engine, const std::string& rest = "", const std::string& input = "512",
                  const std::string& load = "closed_loop: {concurrency: 16}") {
    return read("model: llama-2-7b\nhardware: h100-sxm x 4\nengine: " + engine + "\nworkload: {load: {" + load +
                "}, lengths: {input: " + input + ", output: 64}, requests: 100}\n" + rest)
        .point(0);
  }
  static constexpr const char* kDynamo = "engine_front_end: dynamo\n";
};

TEST_F(SetUpTest, LimitsAStepByThePromptAndTheUsers) {
  const auto budget = [&](auto&&... words) { return point(words...).policy.step_token_budget; };
  EXPECT_EQ(budget("trtllm-1.0", kDynamo), 512 + 16 + 1000);
  EXPECT_EQ(budget("vllm-0.12", kDynamo), 512 + 16 + 1500);
  EXPECT_EQ(budget("sglang-0.5", kDynamo), 8192);  // its generator sets no limit
  EXPECT_EQ(budget("trtllm-1.0"), 8192);
  EXPECT_EQ(budget("trtllm-1.0", std::string(kDynamo) + "deployment: {replicas: 3}\n"), 512 + 6 + 1000);
  EXPECT_EQ(budget("trtllm-1.0", std::string(kDynamo) + "scheduler: {max_num_tokens: 4096}\n"), 4096);
  EXPECT_EQ(budget("trtllm-1.0", kDynamo, "{uniform: {min: 100, max: 700}}"), 700 + 16 + 1000);
  EXPECT_EQ(budget("trtllm-1.0", kDynamo, "{lognormal: {mean: 512}}"), 8192) << "no prompt is the longest";
  EXPECT_EQ(budget("trtllm-1.0", kDynamo, "512", "poisson: {rate: 1 /s}"), 8192) << "no number of users";
  EXPECT_EQ(budget("trtllm-1.0", std::string(kDynamo) + "scheduler: {policy: vllm_v1}\n"), std::nullopt);
}

// Inferred from the runs of one model: it ran one sequence less than there were users.
TEST_F(SetUpTest, LeavesASlotFewerWhereTheRunsDid) {
  const auto slots = [&](const std::string& model, const std::string& rest = kDynamo) {
    return read("model: " + model +
                "\nhardware: h100-sxm\nengine: trtllm-1.0\ndtype: bf16\nworkload: {load: {closed_loop: "
                "{concurrency: 16}}, lengths: {input: 8, output: 8}, requests: 50}\n" +
                rest)
        .point(0)
        .policy.max_running;
  };
  EXPECT_EQ(slots("llama-3.1-8b"), 15);
  EXPECT_EQ(slots("llama-3.1-8b", ""), 2048);
  EXPECT_EQ(slots("qwen3-32b"), 2048);
  EXPECT_EQ(slots("llama-3.1-8b", std::string(kDynamo) + "scheduler: {max_batch_size: 64}\n"), 64);
}

TEST_F(SetUpTest, IsSaidWithTheEngineThatWasMeasured) {
  using ::testing::Contains;
  using ::testing::Not;
  const std::string derived = "scheduler.step_token_budget is 1528",
                    other = "was not measured behind dynamo; the added time is taken from ";
  EXPECT_THAT(point("trtllm-1.0", kDynamo).load_notes, Contains(HasSubstr(derived)));
  EXPECT_THAT(point("trtllm-1.0", kDynamo).load_notes, Not(Contains(HasSubstr(other))));
  // A profile like another, and one of its own that takes the front end of another.
  EXPECT_THAT(point("vllm-0.16", kDynamo).load_notes, Contains(HasSubstr(other + "vllm-0.12")));
  EXPECT_THAT(point("vllm-0.10", kDynamo).load_notes, Contains(HasSubstr(other + "vllm-0.12")));
  EXPECT_THAT(point("trtllm-1.1", kDynamo).load_notes, Contains(HasSubstr(other + "trtllm-1.0")));
  // The drift of vLLM 0.16 is that of the fitted version.
  EXPECT_THAT(point("vllm-0.16").load_notes, Contains(HasSubstr("as in the fit of engine vllm-0.12")));
}

}  // namespace
}  // namespace plimsoll::study
