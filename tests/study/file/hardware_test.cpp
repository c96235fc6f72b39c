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

}  // namespace
}  // namespace plimsoll::study
