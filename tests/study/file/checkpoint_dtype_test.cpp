// SPDX-License-Identifier: Apache-2.0
// The type of the weights: the study's, otherwise the checkpoint's own. Also accelerators and scaled trace lengths that
// a study states itself.
#include <gmock/gmock.h>

#include "study/run/resolve.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

using model::DType;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kAwq =
    R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "float16",
    "quantization_config": {"quant_method": "awq", "bits": 4,
    "group_size": 128}})";
constexpr const char* kLoad =
    "workload:\n  load: {closed_loop: {concurrency: 4}}\n  lengths: {input: 32, output: 8}\n  requests: 20\n";

class CheckpointDtype : public StudyFolder {
 protected:
  PointSpec spec(const std::string& head) const { return read(head + kLoad).point(0); }
  std::string problem(const std::string& head) const {
    try {
      (void)spec(head);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  void config(const char* text) const { write("config.json", text); }
};

TEST_F(CheckpointDtype, IsTheDefaultOfTheStudy) {
  config(kAwq);
  const PointSpec point = spec("model: config.json\nhardware: p5.4xlarge\n");
  EXPECT_EQ(point.weight_dtype, DType::int4);
  EXPECT_EQ(point.kv_dtype, DType::fp16);
  EXPECT_THAT(point.notes, IsEmpty());
}

// With another type, neither the scales nor the exceptions of the checkpoint apply.
TEST_F(CheckpointDtype, GivesWayToTheStudysWithANote) {
  config(kAwq);
  const PointSpec point = spec("model: config.json\ndtype: fp8\nhardware: p5.4xlarge\n");
  EXPECT_EQ(point.weight_dtype, DType::fp8);
  EXPECT_FALSE(point.shape->checkpoint.has_value());
  EXPECT_THAT(point.notes,
              Contains(AllOf(HasSubstr("dtype fp8 as stated"), HasSubstr("int4 (AWQ, 4 bits, groups of 128)"))));
}

TEST_F(CheckpointDtype, Bfloat16RunsWhereItCan) {
  config(
      R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4,
      "num_attention_heads": 4,
    "vocab_size": 1000, "torch_dtype": "bfloat16"})");
  EXPECT_EQ(spec("model: config.json\nhardware: p5.4xlarge\n").weight_dtype, DType::bf16);
  const PointSpec old = spec("model: config.json\nhardware: p3.2xlarge\n");  // a V100
  EXPECT_EQ(old.weight_dtype, DType::fp16);
  EXPECT_THAT(old.notes, Contains(HasSubstr("the checkpoint is bf16, which v100")));
}

TEST_F(CheckpointDtype, IsTheCataloguesToo) {
  EXPECT_EQ(spec("model: openai/gpt-oss-120b\nhardware: p5.48xlarge\n").weight_dtype, DType::mxfp4);
  EXPECT_EQ(spec("model: deepseek-ai/DeepSeek-R1\nhardware: p5en.48xlarge\ndeployment: {tp: 8}\n").weight_dtype,
            DType::fp8);
  EXPECT_EQ(spec("model: llama-2-7b\nhardware: p5.4xlarge\n").weight_dtype, DType::fp16);  // it states no type
}

// gpt-oss has 61 GB of experts in mxfp4, which fit one H100 of 80 GB; in bf16 they do not.
TEST_F(CheckpointDtype, DecidesWhatFits) {
  const std::string head = "model: gpt-oss-120b\nhardware: p5.4xlarge\nengine: vllm-0.12\n";
  EXPECT_FALSE(resolve_point(read(head + kLoad), 0).impossible.has_value());
  EXPECT_TRUE(resolve_point(read(head + "dtype: bf16\n" + kLoad), 0).impossible.has_value());
}

TEST_F(CheckpointDtype, FourBitTypesSayHowTheyCompute) {
  EXPECT_THAT(spec("model: llama-3.1-8b\ndtype: nvfp4\nhardware: p5.4xlarge\n").notes,
              Contains(HasSubstr("h100-sxm has no 4-bit units")));
  EXPECT_THAT(spec("model: llama-3.1-8b\ndtype: nvfp4\nhardware: {accelerator: b200-sxm}\n").notes, IsEmpty());
  EXPECT_THAT(spec("model: gpt-oss-20b\nhardware: p5.4xlarge\n").notes, Contains(HasSubstr("computed in 16")));
}

// gpt-oss has windows of 128 tokens. The 40 tokens of a request do not exceed them, 1040 do.
TEST_F(CheckpointDtype, WindowsBeyondWhichTheCacheWouldBeFreedAreMarked) {
  const std::string head = "model: gpt-oss-20b\nhardware: p5.4xlarge\nengine: vllm-0.12\n";
  const auto reason = [&](const char* input) {
    return resolve_point(
               Study(write("study.yaml", head + kLoad), {{"workload.lengths.input", input}}, shipped_catalogue()), 0)
        .result.extrapolates;
  };
  EXPECT_THAT(
      reason("1032"),
      HasSubstr(
          "the cache of windowed layers counts at full length: servers that free it beyond the window of 128 tokens"));
  EXPECT_THAT(reason("32"), Not(HasSubstr("windowed")));
}

TEST_F(CheckpointDtype, AcceleratorsAreStatedInTheStudy) {
  const PointSpec point = spec(
      "model: llama-3.1-8b\nhardware: {accelerator: {name: My GPU, memory: 96 GB, bandwidth: 3 TB/s, peak: {bf16: 500 "
      "TFLOP/s, fp8: 1 PFLOP/s}}, count: 2, interconnect: pcie-gen5}\n");
  const model::Accelerator& a = *point.hardware.accelerator;
  EXPECT_EQ(a.id, "my-gpu");
  EXPECT_EQ(a.memory_bandwidth.value, 3e12);
  EXPECT_EQ(a.fp8.value, 1e15);
  EXPECT_FALSE(a.calibrated);
  EXPECT_EQ(point.hardware.label, "my-gpu x 2");
  const auto simple = spec(
      "model: llama-3.1-8b\nhardware: {accelerator: {memory: 96 GB, memory_bandwidth: 3 TB/s, peak: 500 TFLOP/s}}\n");
  EXPECT_EQ(simple.hardware.accelerator->fp16.value, 500e12);
  EXPECT_THAT(problem("model: llama-3.1-8b\nhardware: {accelerator: {name: x}}\n"),
              AllOf(HasSubstr("study.yaml:2:25: missing: memory, bandwidth, peak"), HasSubstr("write for example")));
  EXPECT_THAT(problem("model: llama-3.1-8b\nhardware: {accelerator: {memry: 9 GB}}\n"),
              HasSubstr("did you mean 'memory'"));
}

TEST_F(CheckpointDtype, AStatedAcceleratorIsMarkedAsEstimated) {
  const std::string head =
      "model: llama-3.1-8b\nhardware: {accelerator: {name: x, memory: 96 GB, bandwidth: 3 TB/s, peak: 500 "
      "TFLOP/s}}\nengine: vllm-0.12\n";
  EXPECT_THAT(resolve_point(read(head + kLoad), 0).result.extrapolates,
              AllOf(HasSubstr("x is not calibrated"), HasSubstr("generic estimates")));
}

class LengthsScale : public StudyFolder {
 protected:
  const traces::Trace& trace(const std::string& load) {
    write("t.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,10\n1,201,1\n2,7,5\n");
    point_ = read("model: llama-2-7b\nhardware: p5.4xlarge\nworkload:\n  load: " + load + "\n").point(0);
    return *std::get<load::TraceReplay>(point_.workload.load).trace;
  }
  PointSpec point_;
};

// 1.5 x 201 = 301.5, rounded up; 0.01 x 7 is at least one token.
TEST_F(LengthsScale, MultipliesPromptsAndAnswers) {
  const traces::Trace& both = trace("{trace: {file: t.csv, lengths_scale: 1.5}}");
  EXPECT_EQ(both.records[0].input_tokens, 150);
  EXPECT_EQ(both.records[1].input_tokens, 302);
  EXPECT_EQ(both.records[0].output_tokens, 15);
  EXPECT_EQ(std::get<load::TracePairs>(point_.workload.lengths).trace.get(), &both);  // the lengths of the same rows
  const traces::Trace& prompts = trace("{trace: {file: t.csv, lengths_scale: {input: 0.01}}}");
  EXPECT_EQ(prompts.records[2].input_tokens, 1);
  EXPECT_EQ(prompts.records[2].output_tokens, 5);
}

TEST_F(LengthsScale, IsSwept) {
  write("t.csv", "arrived_at,num_prefill_tokens,num_decode_tokens\n0,100,10\n1,200,1\n");
  const Study study = read(
      "model: llama-2-7b\nhardware: p5.4xlarge\nworkload:\n  load: {trace: {file: t.csv}}\n"
      "sweep: {workload.load.trace.lengths_scale: [1, 2]}\n");
  ASSERT_EQ(study.point_count(), 2U);
  EXPECT_EQ(std::get<load::TraceReplay>(study.point(1).workload.load).trace->records[0].input_tokens, 200);
  EXPECT_EQ(std::get<load::TraceReplay>(study.point(0).workload.load).trace->records[0].input_tokens, 100);
}

}  // namespace
}  // namespace plimsoll::study
