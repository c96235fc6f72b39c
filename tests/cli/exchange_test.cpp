// SPDX-License-Identifier: Apache-2.0
// plimsoll import and export, run as a user does, with the commands of docs/import.md.
#include <gmock/gmock.h>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ExchangeCommandTest : public CommandTest {
 protected:
  // A run of `vllm bench serve --save-result`: 120 requests at 2 /s, 200 + 100 tokens each, times in milliseconds.
  std::string vllm_result() {
    return write("vllm-result.json", R"({"date": "20261121-120000", "backend": "vllm", "model_id": "llama-2-7b",
 "num_prompts": 120, "request_rate": 2.0, "max_concurrency": 8, "duration": 60.0, "completed": 120,
 "total_input_tokens": 24000, "total_output_tokens": 12000, "request_throughput": 2.0, "output_throughput": 200.0,
 "total_token_throughput": 600.0, "mean_ttft_ms": 20.0, "median_ttft_ms": 18.0, "p99_ttft_ms": 40.0,
 "mean_tpot_ms": 12.0, "median_tpot_ms": 11.0, "p99_tpot_ms": 16.0})");
  }
};

// Labels that look like numbers were once parsed as numbers, which ended the program.
TEST_F(ExchangeCommandTest, LabelsSayWhatTheFileLeavesOut) {
  const Outcome imported =
      run("import " + vllm_result() + " --hardware \"h100-sxm x 2\" --dtype bf16 --tp 2 --replicas 1 --out " +
          file("imported"));
  ASSERT_EQ(imported.exit, 0) << imported.output;
  const std::string points = read_text(file("imported/points.csv"));
  EXPECT_THAT(points, AllOf(HasSubstr("h100-sxm x 2"), HasSubstr("requests_completed")));
  const Outcome validated = run("validate " + file("imported/points.csv"));
  EXPECT_EQ(validated.exit, 0) << validated.output;
}

// A quoted pattern reaches the program unexpanded; one call may import files of different tools and a table.
TEST_F(ExchangeCommandTest, ManyFilesGoIntoOneTable) {
  const std::string one = vllm_result();
  write("second-result.json", read_text(one));
  write("mine.csv", "model,threads,input_tokens,output_tokens,first_token_ms\nllama-2-7b,4,200,100,35\n");
  const std::string labels =
      " --map ttft=first_token_ms --map concurrency=threads --engine vllm-0.12 --hardware \"h100-sxm x 1\" --dtype "
      "bf16 --out " +
      file("imported");
  const Outcome imported = run("import \"" + file("*-result.json") + "\" " + file("mine.csv") + labels);
  ASSERT_EQ(imported.exit, 0) << imported.output;
  EXPECT_THAT(imported.output, AllOf(HasSubstr("3 points (vllm, csv)"), HasSubstr("35")));
  const Outcome validated = run("validate " + file("imported/points.csv"));
  EXPECT_EQ(validated.exit, 0) << validated.output;
  const Outcome none = run("import \"" + file("no-*.json") + "\"");
  EXPECT_EQ(none.exit, 2);
  EXPECT_THAT(none.output, HasSubstr("no file matches"));
}

// One file with a burst (request_rate "inf" without a cap), a user's own model and a row without an engine.
TEST_F(ExchangeCommandTest, WhatImportWritesValidateAccepts) {
  const auto result = [&](const std::string& name, const std::string& head) {
    return " " +
           write(name, "{" + head + R"(, "num_prompts": 20, "request_rate": "inf", "duration": 6.0, "completed": 20,
 "total_input_tokens": 4000, "total_output_tokens": 2000, "request_throughput": 3.3, "output_throughput": 333.0,
 "mean_ttft_ms": 20.0})");
  };
  const std::string files = result("a.json", R"("model_id": "llama-2-7b", "backend": "vllm")") +
                            result("b.json", R"("model_id": "our-own", "backend": "vllm")") +
                            result("c.json", R"("model_id": "llama-2-7b", "backend": "openai-chat")");
  ASSERT_EQ(run("import" + files + " --hardware \"h100-sxm x 1\" --dtype bf16 --out " + file("imported")).exit, 0);
  const Outcome some = run("validate " + file("imported/points.csv"));
  EXPECT_EQ(some.exit, 0) << some.output;
  EXPECT_THAT(some.output, AllOf(HasSubstr("engine is not stated"), HasSubstr("our-own")));
  const Outcome stated = run("validate " + file("imported/points.csv") + " --model llama-2-7b --engine vllm");
  EXPECT_EQ(stated.exit, 0) << stated.output;
  EXPECT_THAT(stated.output,
              AllOf(HasSubstr("1 row is left out: model is 'our-own'"), HasSubstr("2 of 3 rows are compared")));
  const Outcome none = run("validate " + file("imported/points.csv") + " --model our-own");
  EXPECT_EQ(none.exit, 0) << none.output;
  EXPECT_THAT(none.output, AllOf(HasSubstr("throughput: none predicted"), ::testing::Not(HasSubstr("0.0 %")),
                                 HasSubstr("warning: no row can be predicted: ")));
  const Outcome other = run("validate " + file("imported/points.csv") + " --model mixtral-8x7b");
  EXPECT_EQ(other.exit, 2) << other.output;
  EXPECT_THAT(other.output, HasSubstr("no row can be compared"));
}

// The same holds for a table written by hand: rows that cannot be predicted do not affect the others.
TEST_F(ExchangeCommandTest, RowsOfOtherModelsAreCountedNotFatal) {
  const std::string table = write(
      "mine.csv",
      "model,hardware,engine,input_tokens,output_tokens,load_kind,load_value,requests,ttft_mean_s\n"
      "llama-2-7b,h100-sxm x 1,vllm-0.12,100,20,poisson,4,20,0.05\nour-own,h100-sxm x 1,vllm-0.12,100,20,poisson,4,"
      "20,0.05\nllama-2-7b,no-gpu,vllm-0.12,100,20,poisson,4,20,0.05\n");
  const Outcome outcome = run("validate " + table);
  EXPECT_EQ(outcome.exit, 0) << outcome.output;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("2 of 3 rows cannot be predicted; the first: unknown model 'our-own'"),
                                    HasSubstr("no-gpu")));
}

// Errors and the coverage of bands are summed over all tables; files of one name stay apart.
TEST_F(ExchangeCommandTest, SeveralTablesAreComparedTogether) {
  const std::string row =
      "model,hardware,engine,input_tokens,output_tokens,load_kind,load_value,requests,ttft_mean_s\n"
      "llama-2-7b,h100-sxm x 1,vllm-0.12,100,20,poisson,4,20,0.05\n";
  const std::string first = write("mine.csv", row);
  std::filesystem::create_directories(file("again"));
  const std::string second = write("again/mine.csv", row);
  const Outcome outcome = run("validate " + first + " " + second);
  EXPECT_EQ(outcome.exit, 0) << outcome.output;
  EXPECT_THAT(outcome.output, ::testing::ContainsRegex("\nall +ttft_mean +2 "));
  EXPECT_THAT(outcome.output, ::testing::ContainsRegex("again/mine.csv +ttft_mean +1 "));
  const Outcome mixed = run("validate " + first + " jumpstart");
  EXPECT_EQ(mixed.exit, 2);
  EXPECT_THAT(mixed.output, HasSubstr("'jumpstart': the JumpStart tables are compared by themselves"));
}

TEST_F(ExchangeCommandTest, LabelsOutOfRangeAreRefused) {
  const Outcome outcome = run("import " + vllm_result() + " --tp none");
  EXPECT_EQ(outcome.exit, 2);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("--tp"), HasSubstr("none"), HasSubstr("a whole number from 1")));
}

TEST_F(ExchangeCommandTest, AnImportedRunGoesOutAgain) {
  ASSERT_EQ(run("import " + vllm_result() + " --tp 2 --quiet --out " + file("imported")).exit, 0);
  const Outcome exported = run("export " + file("imported/points.csv") + " --as vllm");
  EXPECT_EQ(exported.exit, 0);
  EXPECT_THAT(exported.output, HasSubstr("\"mean_ttft_ms\""));  // 20 ms in, 20 ms out
  EXPECT_EQ(run("export " + file("imported/points.csv") + " --as prometheus").exit, 2);

  // 3 does not divide 32 heads, so that point has no figures. An object without figures could not be imported again.
  const std::string line = " --quiet --model llama-3.1-8b --hardware 8xh100 --rate 2 --requests 10 --input 100";
  ASSERT_EQ(run("simulate" + line + " --output 10 --tp 2,3 --out " + file("swept")).exit, 0);
  const Outcome some = run("export " + file("swept/points.csv"));
  EXPECT_THAT(some.output, HasSubstr("note: 1 of 2 points have no throughput and no mean latency: left out"));
  const std::string objects = write("swept.json", run("export --quiet " + file("swept/points.csv")).output);
  EXPECT_THAT(run("import " + objects).output, HasSubstr("1 point (vllm)"));
}

}  // namespace
}  // namespace plimsoll::study
