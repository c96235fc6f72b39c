// SPDX-License-Identifier: Apache-2.0
// `measure`, run as a user does, on this machine's CPU with a model of two small layers.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class MeasureTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (IsSkipped()) return;
    write("config.json", R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
      "num_key_value_heads": 2, "intermediate_size": 176, "vocab_size": 97, "max_position_embeddings": 512})");
  }
  // Six blocks of 16 tokens: three requests of the script do not fit at the same time.
  [[nodiscard]] std::string study(const std::string& load, const std::string& more = "") const {
    return write("study.yaml",
                 "model: ./config.json\ndtype: fp32\nhardware: this-machine\nengine: plimsoll-cpu\n"
                 "scheduler: {policy: vllm_v1, kv_blocks: 6, max_running: 4}\nworkload:\n  load: " +
                     load + "\n" + more);
  }
  [[nodiscard]] std::string script() const { return study("{script: \"A:20+20@1 B:30+10@1 C:25+25@2 D:3+40@3\"}"); }
  [[nodiscard]] std::string closed_loop(const std::string& more = "") const {
    return study("{closed_loop: {concurrency: 2}}", "  lengths: {input: 20, output: 8}\n  requests: 6\n" + more);
  }
};

// The policies are those that admit a request of the script to such a small pool.
TEST_F(MeasureTest, AScriptIsDecidedAsInTheSimulator) {
  for (const char* policy : {"vllm_v1", "vllm_v0", "sarathi", "tgi", "trtllm", "sglang"}) {
    const std::string options = script() + " --decisions --set scheduler.policy=" + policy + " --out ";
    const Outcome measured = run("measure " + options + file("measured"));
    ASSERT_EQ(measured.exit, 0) << measured.output;
    ASSERT_EQ(run("simulate " + options + file("simulated")).exit, 0);
    EXPECT_EQ(read_text(file("measured/decisions.txt")), read_text(file("simulated/decisions.txt"))) << policy;
    EXPECT_THAT(read_text(file("measured/decisions.txt")), HasSubstr("P[A:20")) << policy;
  }
}

TEST_F(MeasureTest, ALiveRunIsReplayedFromItsFolder) {
  const std::string study = closed_loop("sweep: {workload.concurrency: [1, 3]}\n");
  const Outcome measured = run("measure " + study + " --decisions --out " + file("out"));
  ASSERT_EQ(measured.exit, 0) << measured.output;
  for (const std::string point : {"0", "1"}) {
    const Outcome replayed = run("simulate --replay " + file("out/events-" + point + ".jsonl"), "2>/dev/null");
    EXPECT_EQ(replayed.exit, 0);
    EXPECT_EQ(replayed.output, read_text(file("out/decisions-" + point + "-r0.txt")));
  }
  ASSERT_EQ(run("simulate --replay " + file("out/events-1.jsonl") + " --out " + file("again")).exit, 0);
  EXPECT_EQ(read_text(file("again/decisions-1-r0.txt")), read_text(file("out/decisions-1-r0.txt")));

  const std::string events = read_text(file("out/events-1.jsonl"));
  write("out/cut.jsonl", events.substr(0, events.size() / 2));
  const Outcome cut = run("simulate --replay " + file("out/cut.jsonl"));
  EXPECT_EQ(cut.exit, 2);
  EXPECT_THAT(cut.output, HasSubstr("cut.jsonl:"));
  EXPECT_EQ(std::count(cut.output.begin(), cut.output.end(), '\n'), 1) << cut.output;
}

// The prefill pool runs in a process of its own; what was decided on both sides follows from the events.
TEST_F(MeasureTest, PoolsRunInTwoProcesses) {
  const std::string pools = "deployment: {pools: {prefill: {replicas: 1}, decode: {replicas: 2}}}\n";
  const std::string study = closed_loop(pools + "sweep: {workload.concurrency: [1, 3]}\n");
  const Outcome measured = run("measure " + study + " --set scheduler.kv_blocks=60 --decisions --out " + file("out"));
  ASSERT_EQ(measured.exit, 0) << measured.output;
  EXPECT_THAT(measured.output, HasSubstr("prefill pool in another process: 1 replica"));
  EXPECT_THAT(read_text(file("out/points.csv")), HasSubstr("prefill 1 + decode 2"));
  for (const std::string point : {"0", "1"}) {
    ASSERT_EQ(run("simulate --replay " + file("out/events-" + point + ".jsonl") + " --out " + file("again")).exit, 0);
    for (const std::string replica : {"-r0.txt", "-r1.txt", "-r2.txt"}) {
      const std::string name = "/decisions-" + point + replica;
      EXPECT_EQ(read_text(file("again") + name), read_text(file("out") + name)) << name;
    }
  }
}

TEST_F(MeasureTest, PoolsThatAreNotExecutedAreRefused) {
  const std::string study = closed_loop("deployment: {pools: {prefill: {replicas: 1}, decode: {replicas: 1}}}\n");
  const auto refusal = [&](const std::string& options) {
    const Outcome outcome = run("measure " + study + " " + options);
    EXPECT_EQ(outcome.exit, 2) << outcome.output;
    return outcome.output;
  };
  EXPECT_THAT(refusal("--set deployment.transfer.overlap=layer"), HasSubstr("layer is simulated but not executed"));
  EXPECT_THAT(refusal("--trace-ops --out " + file("out")), HasSubstr("records one process"));
  EXPECT_THAT(refusal("--set deployment.pools.decode.tp=2"), HasSubstr("pools of different tp"));
  EXPECT_EQ(run("pool-member").exit, 2);
}

TEST_F(MeasureTest, RowsSayThatTheyWereMeasured) {
  const Outcome measured = run("measure " + closed_loop() + " --format csv --quiet", "2>/dev/null");
  EXPECT_EQ(measured.exit, 0);
  EXPECT_THAT(measured.output, HasSubstr("\nmeasured,"));
  EXPECT_THAT(measured.output, HasSubstr(",this-machine,plimsoll-cpu,fp32,1,1,vllm_v1,closed_loop,2,20,8,6,0,0,0,"));
}

TEST_F(MeasureTest, Fp16IsExecutedAsBf16AndSaysSo) {
  const Outcome measured = run("measure " + closed_loop() + " --set dtype=fp16 --format csv");
  EXPECT_EQ(measured.exit, 0) << measured.output;
  EXPECT_THAT(measured.output, HasSubstr("fp16 is executed as bf16"));
  EXPECT_THAT(measured.output, HasSubstr("plimsoll-cpu,bf16,1,1"));
}

TEST_F(MeasureTest, TracedOpsHaveBothTimes) {
  const Outcome measured =
      run("measure " + closed_loop() + " --trace-ops --threads 2 --set deployment.tp=2 --out " + file("out"));
  ASSERT_EQ(measured.exit, 0) << measured.output;
  std::istringstream ops(read_text(file("out/ops.csv")));
  std::string line;
  std::getline(ops, line);
  EXPECT_EQ(line, "step,rank,layer,op,m,n,k,batch,context,measured_s,predicted_s");
  std::getline(ops, line);
  EXPECT_THAT(line, StartsWith("1,0,,embed,"));
  const std::string all = ops.str();
  for (const char* op : {"1,0,0,qkv,", "1,1,1,down,", "mlp_all_reduce", ",1,20,", "decode_attention"})
    EXPECT_THAT(all, HasSubstr(op));
}

TEST_F(MeasureTest, OtherHardwareNeedsAsIs) {
  const std::string other = " --set hardware=ml.g5.xlarge --format csv";
  const Outcome refused = run("measure " + closed_loop() + other);
  EXPECT_EQ(refused.exit, 2);
  EXPECT_THAT(refused.output, HasSubstr("the study is for ml.g5.xlarge, this machine is"));
  const Outcome measured = run("measure " + closed_loop() + other + " --as-is");
  EXPECT_EQ(measured.exit, 0) << measured.output;
  EXPECT_THAT(measured.output, HasSubstr(" threads,plimsoll-cpu,fp32"));
}

struct Refusal {
  const char *options, *text;
};

TEST_F(MeasureTest, WhatCannotBeExecutedIsRefusedByName) {
  const Refusal refusals[] = {
      {"--set dtype=fp8", "fp8 is simulated but not executed"},
      {"--set kv_dtype=int8", "int8 is simulated but not executed"},
      {"--set kv_dtype=fp8", "fp8 is simulated but not executed"},
      {"--set deployment.pp=2", "pp 2: pipeline stages are simulated but not executed"},
      {"--set deployment.tp=3", "tp 3 is impossible"},
      {"--set model=llama-4-scout-17b-16e", "models of the family llama4 are simulated but not executed"},
      {"--set weights=nowhere.safetensors", "nowhere.safetensors"},
      {"--set prompts=nowhere.jsonl", "nowhere.jsonl"},
      {"--set engine='{constant: {decode: 1 ms}}'", "an engine of constant cost can be simulated, not measured"},
      {"--device tpu", "--device: found 'tpu', allowed: cpu, cuda"},
      {"--threads 0", "--threads: found '0'"},
      {"--trace-ops", "state a folder with --out DIR"},
      {"--stepwise", "--stepwise is for simulations"},
  };
  for (const Refusal& refusal : refusals) {
    const Outcome outcome = run("measure " + closed_loop() + ' ' + refusal.options);
    EXPECT_EQ(outcome.exit, 2) << refusal.options << '\n' << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(refusal.text));
  }
}

TEST_F(MeasureTest, PromptsMayBeGiven) {
  write("prompts.jsonl", "{\"tokens\": [1, 2, 3]}\n{\"tokens\": [4]}\n");
  EXPECT_EQ(run("measure " + closed_loop("prompts: prompts.jsonl\n")).exit, 0);
  write("prompts.jsonl", "{\"tokens\": [1, 97]}\n");
  const Outcome outside = run("measure " + closed_loop("prompts: prompts.jsonl\n"));
  EXPECT_EQ(outside.exit, 2);
  EXPECT_THAT(outside.output, HasSubstr("prompts.jsonl:1"));
}

// There must be no note about a run that cannot begin, nor about fp16, which is not executed.
TEST_F(MeasureTest, WithoutAGpuTheMessageSaysWhatIsMissing) {
  for (const char* const more : {"", " --as-is --set dtype=fp16"}) {
    const Outcome outcome = run("measure " + closed_loop() + " --device cuda" + more);
    if (outcome.exit == 0) GTEST_SKIP() << "this machine has a GPU";
    EXPECT_EQ(outcome.exit, 3);
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("--device cpu"));
  }
}

}  // namespace
}  // namespace plimsoll::study
