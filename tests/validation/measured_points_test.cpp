// SPDX-License-Identifier: Apache-2.0
#include "validation/measured_points.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <regex>

#include "study/file/study.h"
#include "study/run/run_study.h"
#include "tests/scratch.h"
#include "validation/compare.h"
#include "validation/report.h"

namespace plimsoll::validation {
namespace {

constexpr const char* kHeader =
    "model,hardware,engine,dtype,tp,input_tokens,output_tokens,load_kind,load_value,output_tokens_per_s,latency_mean_"
    "s\n";

// Each test has its own folder, because the tests of this file run at the same time, as processes.
class MeasuredPoints : public ::testing::Test {
 protected:
  [[nodiscard]] MeasuredTable read(const std::string& text) const {
    return read_measured(folder_.write("measured.csv", text));
  }
  void expect_error(const std::string& text, std::size_t line, std::size_t column, const std::string& phrase) const;

 private:
  Scratch folder_;
};

void MeasuredPoints::expect_error(const std::string& text, std::size_t line, std::size_t column,
                                  const std::string& phrase) const {
  try {
    (void)read(text);
    FAIL() << "accepted: " << text;
  } catch (const InputError& error) {
    EXPECT_EQ(error.where().line, line) << error.what();
    EXPECT_EQ(error.where().column, column) << error.what();
    EXPECT_NE(std::string(error.what()).find(phrase), std::string::npos) << error.what();
  }
}

TEST_F(MeasuredPoints, BlankFiguresAreNotMeasured) {
  const MeasuredTable table =
      read(std::string("# a remark\n") + kHeader + "m,h,e,fp16,2,256,128,closed_loop,8,,1.5\r\n");
  ASSERT_EQ(table.points.size(), 1U);
  const MeasuredPoint& p = table.points.front();
  EXPECT_EQ(p.tp, 2);
  EXPECT_EQ(p.load_value, 8);
  EXPECT_FALSE(p.output_tokens_per_s.has_value());
  EXPECT_EQ(p.latency_mean_s, 1.5);
}

// Spreadsheets write a byte-order mark; a table may also be stored compressed.
TEST_F(MeasuredPoints, AByteOrderMarkIsNoPartOfTheFirstName) {
  EXPECT_EQ(read(std::string("\xEF\xBB\xBF") + kHeader + "m,h,e,fp16,2,256,128,closed_loop,8,,1.5\n").points.size(),
            1U);
}

// Runs to fit are read as a table of this form if the header matches, however a spreadsheet has written the file.
TEST_F(MeasuredPoints, ASpreadsheetsHeaderIsRecognised) {
  const Scratch folder;
  std::string header = kHeader;
  header.insert(0, "\"").insert(header.find(','), "\"");
  const std::string row = "m,h,e,fp16,2,256,128,closed_loop,8,,1.5\n";
  for (const std::string& text : {kHeader + row, "\xEF\xBB\xBF" + (kHeader + row), header + row}) {
    const std::string path = folder.write("runs.csv", text);
    std::vector<std::string> notes;
    const MeasuredTable table = read_runs(path, {}, {}, notes);
    ASSERT_EQ(table.points.size(), 1U) << text;
    EXPECT_EQ(table.points.front().model, "m");
    EXPECT_TRUE(notes.empty());
  }
}

TEST_F(MeasuredPoints, MayBeGzipped) {
  const Scratch folder;
  const std::string path = folder.path("measured.csv.gz");
  const std::string text = std::string(kHeader) + "m,h,e,fp16,2,256,128,closed_loop,8,,1.5\n";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  const MeasuredTable table = read_measured(path);
  EXPECT_EQ(table.points.size(), 1U);
  EXPECT_EQ(table.name, "measured");
}

// Server settings that differ from the engine's defaults determine what is simulated, and distinguish configurations.
TEST_F(MeasuredPoints, ServersSettingsAreSimulatedAsMeasured) {
  const MeasuredTable table = read(
      "model,hardware,engine,input_tokens,output_tokens,load_kind,load_value,kv_dtype,max_running,step_token_budget\n"
      "m,h,e,256,128,closed_loop,8,fp8,7,2048\nm,h,e,256,128,closed_loop,8,,,\n");
  const std::string stated = study_text({&table.points[0]}), blank = study_text({&table.points[1]});
  EXPECT_NE(stated.find("kv_dtype: fp8\n"), std::string::npos);
  EXPECT_NE(stated.find("scheduler: {max_running: 7, step_token_budget: 2048}\n"), std::string::npos);
  EXPECT_EQ(blank.find("kv_dtype"), std::string::npos);
  EXPECT_EQ(blank.find("scheduler"), std::string::npos);
}

TEST_F(MeasuredPoints, TheFrontEndIsTheStudys) {
  const MeasuredTable table = read(
      "model,hardware,engine,input_tokens,output_tokens,load_kind,load_value,engine_front_end\n"
      "m,h,e,1,1,closed_loop,8,dynamo\nm,h,e,1,1,closed_loop,8,\n");
  EXPECT_NE(study_text({&table.points[0]}).find("engine_front_end: dynamo\n"), std::string::npos);
  EXPECT_EQ(study_text({&table.points[1]}).find("engine_front_end"), std::string::npos);
}

// 0.8 of 1000 and of 101 tokens, rounded down as in the benchmark: 800 and 80. The mean answer is (80 + 101) / 2.
TEST_F(MeasuredPoints, UniformLengthsBeginAtTheirShare) {
  const std::string header = "model,hardware,engine,input_tokens,output_tokens,load_kind,load_value,uniform_from,";
  const MeasuredTable table = read(header +
                                   "prefix_caching\nm,h,e,1000,101,closed_loop,8,0.8,false\n"
                                   "m,h,e,1000,101,closed_loop,8,,\n");
  const std::string uniform = study_text({&table.points[0]});
  EXPECT_NE(uniform.find("lengths: {input: {uniform: {min: 800, max: 1000}}, output: {uniform: {min: 80, max: 101}}}"),
            std::string::npos)
      << uniform;
  EXPECT_NE(uniform.find("scheduler: {prefix_caching: false}\n"), std::string::npos);
  EXPECT_EQ(mean_output(table.points[0]), 90.5);
  EXPECT_NE(study_text({&table.points[1]}).find("lengths: {input: 1000, output: 101}"), std::string::npos);
  EXPECT_EQ(mean_output(table.points[1]), 101);
  expect_error(header + "tp\nm,h,e,1,1,closed_loop,1,1.5,1\n", 2, 25, "uniform_from: found '1.5', expected a share");
  expect_error(header + "prefix_caching\nm,h,e,1,1,closed_loop,1,1,off\n", 2, 27,
               "prefix_caching: found 'off', allowed");
}

// In the two groups, the bands contain the measured 0.1 s in one of two rows, and in none. The latency from the means
// is 1 + 9 x 0.1 = 1.9; the predicted 1.2 + 9 x 0.1 = 2.1 is 10.5 % too high.
TEST_F(MeasuredPoints, GroupsHaveErrorsCoverageAndLatency) {
  const MeasuredTable table = read(
      "model,hardware,engine,dtype,input_tokens,output_tokens,load_kind,load_value,ttft_mean_s,tpot_mean_s\n"
      "m,h x 8,e,fp8,1,10,closed_loop,1,1,0.1\nm,h x 4,e,fp8,1,10,closed_loop,2,1,0.1\n"
      "m,g x 8,e,fp8,1,10,closed_loop,1,1,0.1\n");
  std::vector<Comparison> all;
  for (std::size_t i = 0; i < 3; ++i) {
    Comparison ttft;
    ttft.point = &table.points[i];
    ttft.metric = "ttft_mean_s";
    ttft.measured = 1;
    ttft.predicted = 1.2;
    Comparison tpot = ttft;
    tpot.metric = "tpot_mean_s";
    tpot.measured = tpot.predicted.emplace(0.1);
    tpot.low = i == 0 ? 0.09 : 0.11;
    tpot.high = 0.12;
    all.push_back(ttft);
    all.push_back(tpot);
  }
  const std::string text = std::regex_replace(summary_text(all), std::regex("  +"), " ");
  EXPECT_NE(text.find("\nh e fp8 ttft_mean 2 20.0 % 20.0 % 20.0 % +20.0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("\nh e fp8 tpot_mean 2 0.0 % 0.0 % 0.0 % +0.0 % 50 %\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\ng e fp8 tpot_mean 1 0.0 % 0.0 % 0.0 % +0.0 % 0 %\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\ng e fp8 e2e 1 10.5 %"), std::string::npos) << text;
}

TEST_F(MeasuredPoints, FaultsAreNamedWithTheirPlace) {
  expect_error("model,hardware,engine,input_tokens,output_tokens,load_kind,load_vale\n", 1, 60,
               "did you mean 'load_value'");
  expect_error("model,hardware,engine,tp,tp\n", 1, 26, "column 'tp' occurs twice");
  expect_error("model,hardware\n", 1, 0, "'engine' is missing");
  expect_error(std::string(kHeader) + "m,h,e,fp16,nan,1,1,closed_loop,1,1,1\n", 2, 12, "tp: found 'nan'");
  expect_error(std::string(kHeader) + "m,h,e,fp16,1.5,1,1,closed_loop,1,1,1\n", 2, 12, "whole number");
  expect_error(std::string(kHeader) + "m,,e,fp16,1,1,1,closed_loop,1,1,1\n", 2, 3, "hardware: is blank");
  expect_error(std::string(kHeader) + "m,\"h,e,fp16,1,1,1,closed_loop,1,1,1\n", 2, 3, "not closed");
  expect_error(kHeader, 0, 0, "no measured point");
}

// The table of `plimsoll import --out`: more columns, under other names, and mean lengths that may be fractions.
TEST_F(MeasuredPoints, PointsOfARunAreMeasuredPoints) {
  const MeasuredTable table = read(
      "source,model,hardware,engine,dtype,tp,load_kind,load_value,input_tokens_mean,output_tokens_mean,requests_"
      "completed,ttft_p99_s,ttft_mean_s\n"
      "measured,m,h x 1,e,,2,closed_loop,16,255.6,128,100,0.5,0.125\n");
  ASSERT_EQ(table.points.size(), 1U);
  const MeasuredPoint& p = table.points.front();
  EXPECT_EQ(p.input_tokens, 256);
  EXPECT_EQ(p.output_tokens, 128);
  EXPECT_EQ(p.requests, 100);
  EXPECT_EQ(p.ttft_mean_s, 0.125);
  EXPECT_FALSE(p.latency_mean_s.has_value());
}

// The shipped tables: those of the JumpStart post have 215 rows, some with one figure and most with two.
TEST_F(MeasuredPoints, ThePublishedTablesAreWhole) {
  const std::vector<MeasuredTable> tables = jumpstart_tables();
  ASSERT_EQ(tables.size(), 5U);
  EXPECT_EQ(tables[0].points.size(), 52U);
  EXPECT_EQ(tables[1].points.size(), 76U);
  EXPECT_EQ(tables[2].points.size(), 23U);
  EXPECT_EQ(tables[3].points.size(), 32U);
  EXPECT_EQ(tables[4].points.size(), 32U);
  const auto rows = [](const char* name) {
    return read_measured(published_folder() + "/" + name + ".csv").points.size();
  };
  EXPECT_EQ(rows("serving-h100"), 210U);
  EXPECT_EQ(rows("serving-h200-b200"), 259U);
  EXPECT_EQ(rows("trtllm-max-throughput"), 50U);
  EXPECT_EQ(rows("serving-moe"), 98U);
}

// A prompt that is too long for the model must not affect the prediction of prompts that fit.
TEST_F(MeasuredPoints, WhatIsRefusedIsNotPredicted) {
  const auto catalogue = std::make_shared<const configs::Catalogue>(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  const MeasuredTable table =
      read(std::string(kHeader) + "llama-2-7b,h100-sxm x 1,vllm-0.12,fp16,1,200000,128,closed_loop,1,50,1.5\n");
  const std::vector<Comparison> comparisons = compare({table}, catalogue, {});
  ASSERT_EQ(comparisons.size(), 2U);
  for (const Comparison& c : comparisons) {
    EXPECT_FALSE(c.predicted.has_value()) << c.metric;
    EXPECT_EQ(c.reason, "all requests were rejected: max_model_len");
  }
}

// Every table that an import wrote can be read: points that can be simulated are, and the others state why not. A burst
// of 20 requests can be (vLLM's request_rate: inf without a cap); the trace of a replay is not known any more.
TEST_F(MeasuredPoints, ImportsOfEveryLoadAreReported) {
  const auto catalogue = std::make_shared<const configs::Catalogue>(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  const std::string header =
      "workload.load.gamma.cv,source,model,hardware,engine,load_kind,load_value,input_tokens_mean,output_tokens_mean,"
      "requests_completed,output_tokens_per_s\n";
  const auto reason = [&](const std::string& load, const std::string& model = "llama-2-7b") {
    const std::size_t comma = load.find(';');
    const std::string cv = comma == std::string::npos ? "" : load.substr(comma + 1);
    const MeasuredTable table = read(header + cv + ",measured," + model + ",h100-sxm x 1,vllm-0.12," +
                                     load.substr(0, comma) + ",64,16,20,500\n");
    const std::vector<Comparison> comparisons = compare({table}, catalogue, {});
    EXPECT_EQ(comparisons.size(), 1U) << load;
    return comparisons.at(0).predicted ? "predicted" : comparisons.at(0).reason;
  };
  for (const char* load : {"burst,20", "closed_loop,4", "poisson,2.5", "constant,2.5", "gamma,2.5;2"})
    EXPECT_EQ(reason(load), "predicted") << load;
  EXPECT_EQ(reason("gamma,2.5"), "arrival_cv, the spread of the gaps between a gamma load's requests, is not stated");
  EXPECT_EQ(reason("trace,4"), "load_kind is a trace, but the row does not name the file");
  EXPECT_EQ(reason("script,"), "load_kind is a script, but the row does not contain it");
  EXPECT_EQ(reason("burst,"), "load_value is not stated");
  EXPECT_EQ(reason(","), "load_kind is not stated");
  EXPECT_EQ(reason("burst,20", ""), "model is not stated");
  EXPECT_NE(reason("burst,20", "nobody/no-model").find("no-model"), std::string::npos);
}

// A row states neither a script nor a trace, nor how many sequences may run: the study does.
TEST_F(MeasuredPoints, RowsOfAStudyArePredictedAsItsPoints) {
  const auto catalogue = std::make_shared<configs::Catalogue>();
  const study::Study study(configs::Document::from_text(
                               "{engine: {constant: {prefill: 0 s, decode: 10 ms}}, scheduler: {policy: vllm_v1},\n"
                               "workload: {load: {script: 'A:4+3@1 B:4+9@1'}}, sweep: {scheduler.max_running: [1, 2]}}",
                               "study"),
                           "study", {}, catalogue);
  const std::string head =
      "model,hardware,engine,input_tokens,output_tokens,load_kind,load_value,requests_completed,"
      "output_tokens_per_s\n";
  const std::string row = ",,constant,4,6,script,,2,";
  const MeasuredTable table = read(head + row + "100\n" + row + "120\n");
  const std::vector<Comparison> found = compare_with_study(table, study, {});
  const std::vector<study::PointResult> points = study::run_study(study, {}).points;
  ASSERT_EQ(found.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found[i].predicted, points[i].metrics->output_tokens_per_s) << i;
    EXPECT_EQ(found[i].measured, i == 0 ? 100 : 120);
  }
  EXPECT_THROW((void)compare_with_study(read(head + row + "100\n"), study, {}), InputError);
  const std::string other = ",,constant,4,6,poisson,1,2,100\n";
  EXPECT_THROW((void)compare_with_study(read(head + other + other), study, {}), InputError);
}

// Rows of another sweep may have the same number of points: 10, 20 users beside 10, 40.
TEST_F(MeasuredPoints, RowsAtAnotherLoadThanTheStudysAreRefused) {
  const auto catalogue = std::make_shared<configs::Catalogue>();
  const study::Study study(
      configs::Document::from_text("{engine: {constant: {prefill: 0 s, decode: 10 ms}}, scheduler: {policy: vllm_v1},\n"
                                   "workload: {load: {closed_loop: {concurrency: 1}}, lengths: {input: 4, output: 6},\n"
                                   "requests: 10}, sweep: {workload.load.closed_loop.concurrency: [1, 2]}}",
                                   "study"),
      "study", {}, catalogue);
  const std::string head =
      "model,hardware,engine,input_tokens,output_tokens,load_kind,load_value,requests_completed,"
      "output_tokens_per_s\n";
  const auto row = [](int users) { return fmt::format(",,constant,4,6,closed_loop,{},10,100\n", users); };
  EXPECT_EQ(compare_with_study(read(head + row(1) + row(2)), study, {}).size(), 2U);
  EXPECT_THROW((void)compare_with_study(read(head + row(1) + row(4)), study, {}), InputError);
}

// relative_error = predicted / measured - 1; the mean is over absolute values, the bias over signed ones.
TEST(ErrorSummaries, AreMeansOfAbsoluteAndSignedErrors) {
  std::vector<Comparison> all(4);
  all[0].measured = 100;
  all[0].predicted = 110;
  all[1].measured = 100;
  all[1].predicted = 80;
  all[2].measured = 100;
  all[2].predicted = 130;
  all[3].measured = 100;
  const ErrorSummary s = summarise({&all[0], &all[1], &all[2], &all[3]});
  EXPECT_EQ(s.count, 3U);
  EXPECT_EQ(s.missing, 1U);
  EXPECT_NEAR(s.mean, 0.2, 1e-12);
  EXPECT_NEAR(s.median, 0.2, 1e-12);
  EXPECT_NEAR(s.bias, 0.2 / 3, 1e-12);
}

// The first engine profile: overall errors below 20 %, for latency and throughput.
TEST(JumpStart, FirstValuesAreWithinTwentyPerCentInAll) {
  const auto catalogue = std::make_shared<const configs::Catalogue>(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  const std::vector<MeasuredTable> tables = jumpstart_tables();
  const std::vector<Comparison> comparisons = compare(tables, catalogue, {});
  for (const char* metric : {"latency_per_token_p90_s", "output_tokens_per_s"}) {
    std::vector<const Comparison*> group;
    for (const Comparison& c : comparisons)
      if (c.metric == metric) group.push_back(&c);
    const ErrorSummary s = summarise(group);
    EXPECT_EQ(s.count, 183U) << metric;
    EXPECT_LT(s.mean, 0.20) << metric;
  }
  EXPECT_EQ(
      comparison_csv(comparisons).substr(0, comparison_csv(comparisons).find('\n')),
      "table,model,hardware,engine,dtype,tp,instances,input_tokens,output_tokens,load_kind,load_value,metric,predicted,"
      "measured,relative_error,lo,hi,extrapolates");
}

}  // namespace
}  // namespace plimsoll::validation
