// SPDX-License-Identifier: Apache-2.0
// Results of other tools are converted to points in our units and back. The files follow the tools' own exporters
// (docs/import.md); a wrong unit shows as a factor of a thousand.
#include "load/load_kind.h"
#include "study/exchange/foreign_formats.h"
#include "study/exchange/import_results.h"
#include "study/run/point_result.h"
#include "tests/study/study_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;

class ExchangeTest : public StudyFolder {
 protected:
  [[nodiscard]] ImportedResults import(const std::string& text, const ImportLabels& labels = {}) const {
    return import_results(write("result.json", text), labels);
  }
  [[nodiscard]] std::string refusal(const std::string& text) const {
    try {
      (void)import(text);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
};

double figure(const ImportedPoint& point, std::string_view column) {
  const Cell* cell = point.find(column);
  if (cell == nullptr) return -1;
  if (const auto* whole = std::get_if<std::int64_t>(cell)) return static_cast<double>(*whole);
  return std::get<double>(*cell);
}

std::string label(const ImportedPoint& point, std::string_view column) {
  const Cell* cell = point.find(column);
  return cell == nullptr ? "-" : plain_text(*cell);
}

constexpr const char* kVllm =
    R"({"date": "20260101-000000", "endpoint_type": "vllm", "model_id": "meta-llama/Llama-2-7b-hf",
  "num_prompts": 100, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 16, "duration": 20.0,
  "completed": 100,
  "failed": 2, "total_input_tokens": 25600, "total_output_tokens": 12800, "request_throughput": 5.0,
  "output_throughput": 640.0, "total_token_throughput": 1920.0, "mean_ttft_ms": 125.0, "median_ttft_ms": 120.0,
  "p99_ttft_ms": 250.0, "mean_tpot_ms": 20.0, "mean_itl_ms": 19.5, "p99_itl_ms": 40.0, "p90_itl_ms": 30.0,
  "mean_e2el_ms": 2665.0})";

TEST_F(ExchangeTest, VllmTimesAreMilliseconds) {
  const ImportedResults results = import(kVllm);
  ASSERT_EQ(results.points.size(), 1U);
  const ImportedPoint& p = results.points[0];
  EXPECT_EQ(results.format, "vllm");
  EXPECT_DOUBLE_EQ(figure(p, "ttft_mean_s"), 0.125);
  EXPECT_DOUBLE_EQ(figure(p, "ttft_p50_s"), 0.120);
  EXPECT_DOUBLE_EQ(figure(p, "ttft_p99_s"), 0.250);
  EXPECT_DOUBLE_EQ(figure(p, "tpot_mean_s"), 0.020);
  EXPECT_DOUBLE_EQ(figure(p, "latency_mean_s"), 2.665);
  EXPECT_DOUBLE_EQ(figure(p, "input_tokens_mean"), 256);  // 25600 / 100
  EXPECT_DOUBLE_EQ(figure(p, "output_tokens_per_s"), 640);
  EXPECT_EQ(label(p, "load_kind"), "closed_loop");  // it has no rate but a cap
  EXPECT_EQ(figure(p, "load_value"), 16);
  EXPECT_EQ(p.find("itl_p90_s"), nullptr) << "not a column of ours";
  EXPECT_THAT(results.notes, ::testing::Contains(HasSubstr("2 requests failed")));
  EXPECT_THAT(results.notes, ::testing::Contains(HasSubstr("hardware is not stated")));
}

TEST_F(ExchangeTest, VllmRatesAreOpenLoops) {
  std::string text = kVllm;
  text.replace(text.find("\"inf\""), 5, "4.5");
  EXPECT_EQ(label(import(text).points[0], "load_kind"), "poisson");
  EXPECT_EQ(figure(import(text).points[0], "load_value"), 4.5);
  text.replace(text.find("\"burstiness\": 1.0"), 17, "\"burstiness\": 0.5");
  EXPECT_EQ(label(import(text).points[0], "load_kind"), "gamma");
}

TEST_F(ExchangeTest, VllmDetailsGiveWhatWasNotSummarised) {
  const ImportedResults results =
      import(R"({"completed": 2, "num_prompts": 3, "output_throughput": 3, "request_rate": "inf",
      "max_concurrency": 2, "ttfts": [0.5, 0.25, 0], "itls": [[0.1, 0.2], [0.05], []], "output_lens": [3, 2, 0]})");
  // Latencies are 0.8 and 0.3 s; the request without tokens failed and does not count.
  EXPECT_NEAR(figure(results.points[0], "latency_mean_s"), 0.55, 1e-12);
  EXPECT_NEAR(figure(results.points[0], "latency_per_token_mean_s"), (0.8 / 3 + 0.3 / 2) / 2, 1e-12);
}

TEST_F(ExchangeTest, LinesAreSoManyPoints) {
  const ImportedResults results =
      import("{\"mean_ttft_ms\": 1, \"max_concurrency\": 1}\n\n{\"mean_ttft_ms\": 2, \"max_concurrency\": 2}\n");
  ASSERT_EQ(results.points.size(), 2U);
  EXPECT_EQ(figure(results.points[1], "load_value"), 2);
}

TEST_F(ExchangeTest, AiperfUnitsAreRead) {
  const char* const metrics =
      R"("request_throughput": {"unit": "requests/sec", "avg": 2}, "request_count": {"unit": "requests", "avg": 50},
      "time_to_first_token": {"unit": "%s", "avg": 40, "p99": 90}, "inter_token_latency": {"unit": "ms", "avg": 8},
      "input_config": {"loadgen": {"concurrency": 4, "request_rate": null}})";
  std::string text = metrics;
  text.replace(text.find("%s"), 2, "ms");
  EXPECT_DOUBLE_EQ(figure(import("{" + text + "}").points[0], "ttft_p99_s"), 0.09);
  EXPECT_DOUBLE_EQ(figure(import("{" + text + "}").points[0], "tpot_mean_s"), 0.008);
  EXPECT_EQ(figure(import("{" + text + "}").points[0], "load_value"), 4);
  text = metrics;
  text.replace(text.find("%s"), 2, "ns");
  EXPECT_DOUBLE_EQ(figure(import("{\"records\": {" + text + "}}").points[0], "ttft_mean_s"), 40e-9);
  text = metrics;
  text.replace(text.find("%s"), 2, "weeks");
  EXPECT_THAT(refusal("{" + text + "}"),
              HasSubstr("time_to_first_token: found the unit 'weeks', expected ms, s, us or ns"));
}

TEST_F(ExchangeTest, GuidellmHasAPointABenchmark) {
  const auto benchmark = [](const char* strategy, double latency) {
    return fmt::format(
        R"({{"config": {{"strategy": {}}}, "scheduler_metrics": {{"measure_start_time": 100.0,
        "measure_end_time": 160.0,
        "requests_made": {{"successful": 30, "errored": 0}}}},
        "metrics": {{"request_latency": {{"successful": {{"mean": {},
        "percentiles": {{"p50": 1.5, "p99": 3}}}}}}, "time_to_first_token_ms": {{"successful": {{"mean": 80}}}},
        "time_per_output_token_ms": {{"successful": {{"mean": 20, "percentiles": {{"p90": 24}}}}}},
        "inter_token_latency_ms": {{"successful": {{"mean": 19}}}},
        "request_concurrency": {{"successful": {{"mean": 7.5}}}}}}}})",
        strategy, latency);
  };
  const ImportedResults results = import(R"({"metadata": {"version": 2, "guidellm_version": "0.4"}, "benchmarks": [)" +
                                         benchmark(R"({"type_": "constant", "rate": 2.5})", 2) + "," +
                                         benchmark(R"({"type_": "throughput"})", 4) + "]}");
  ASSERT_EQ(results.points.size(), 2U);
  EXPECT_DOUBLE_EQ(figure(results.points[0], "latency_mean_s"), 2);  // request_latency is already in seconds
  EXPECT_DOUBLE_EQ(figure(results.points[0], "latency_p99_s"), 3);
  EXPECT_DOUBLE_EQ(figure(results.points[0], "ttft_mean_s"), 0.08);
  EXPECT_DOUBLE_EQ(figure(results.points[0], "tpot_mean_s"),
                   0.019);  // its inter-token latency is a mean over each request
  EXPECT_DOUBLE_EQ(figure(results.points[0], "latency_per_token_p90_s"),
                   0.024);  // its time per output token includes the first token
  EXPECT_DOUBLE_EQ(figure(results.points[0], "duration_s"), 60);
  EXPECT_EQ(label(results.points[0], "load_kind"), "constant");
  EXPECT_DOUBLE_EQ(figure(results.points[1], "load_value"), 7.5);
  EXPECT_THAT(results.notes, ::testing::Contains(HasSubstr("mean concurrency")));
}

TEST_F(ExchangeTest, InferencexIsPerGpuAndInSeconds) {
  const ImportedResults results =
      import(R"([{"hw": "h100", "conc": 32, "model": "llama", "infmax_model_prefix": "70b", "framework": "vllm",
      "precision": "fp8", "tp": 4, "isl": 1024, "osl": 512, "tput_per_gpu": 300, "output_tput_per_gpu": 100,
      "mean_ttft": 0.3, "median_tpot": 0.02}])");
  EXPECT_DOUBLE_EQ(figure(results.points[0], "output_tokens_per_s"), 400);
  EXPECT_DOUBLE_EQ(figure(results.points[0], "ttft_mean_s"), 0.3);
  EXPECT_DOUBLE_EQ(figure(results.points[0], "tpot_p50_s"), 0.02);
  EXPECT_EQ(label(results.points[0], "hardware"), "h100 x 4");
}

TEST_F(ExchangeTest, LabelsOfTheCallerWin) {
  const ImportedPoint point = import(kVllm, {.model = "llama-2-7b",
                                             .hardware = "ml.p4d.24xlarge",
                                             .engine = "vllm",
                                             .dtype = "fp16",
                                             .policy = "",
                                             .tp = 4,
                                             .replicas = 2})
                                  .points[0];
  EXPECT_EQ(label(point, "model"), "llama-2-7b");
  EXPECT_EQ(label(point, "hardware"), "ml.p4d.24xlarge");
  EXPECT_EQ(figure(point, "tp"), 4);
  EXPECT_EQ(label(point, "source"), "measured");
}

TEST_F(ExchangeTest, BadFilesAreRefusedByPlace) {
  EXPECT_THAT(refusal("{\"mean_ttft_ms\": 1,\n \"a\": }"), HasSubstr("result.json:2: is not valid JSON here"));
  EXPECT_THAT(refusal("{\"mean_ttft_ms\": \"fast\", \"max_concurrency\": 1}"),
              HasSubstr("mean_ttft_ms: found \"fast\", expected a number of 0 or more"));
  EXPECT_THAT(refusal("{\"mean_ttft_ms\": -3}"), HasSubstr("mean_ttft_ms: found -3"));
  EXPECT_THAT(refusal("{\"something\": 1}"),
              HasSubstr("holds no results of a known tool; expected those of vllm, aiperf, guidellm, inferencex"));
  EXPECT_THAT(refusal(""), HasSubstr("is not valid JSON here"));
  EXPECT_THAT(refusal("[]"), HasSubstr("holds no results"));
  EXPECT_THAT(refusal("{\"metadata\": {\"guidellm_version\": 1}, \"benchmarks\": [{\"metrics\": {}}]}"),
              HasSubstr("holds neither a throughput nor a mean latency"));
  EXPECT_THAT(refusal(std::string(100, '[') + std::string(100, ']')), HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(refusal("{\"ttfts\": [1, 2], \"itls\": [[1]], \"output_lens\": [2, 2], \"output_throughput\": 1}"),
              HasSubstr("found 2 ttfts, 1 itls and 2 output_lens"));
}

TEST_F(ExchangeTest, WhatIsExportedIsImportedAgain) {
  const std::vector<ImportedPoint> points = import(kVllm).points;
  for (const std::string_view format : export_formats()) {
    const ImportedPoint back = import(exported_text(format, points)).points[0];
    for (const char* column : {"ttft_mean_s", "tpot_mean_s", "latency_mean_s", "output_tokens_per_s", "requests_per_s",
                               "load_value", "duration_s"})
      EXPECT_NEAR(figure(back, column), figure(points[0], column), 1e-9) << format << ' ' << column;
    EXPECT_EQ(label(back, "load_kind"), "closed_loop") << format;
  }
}

/// Returns a point of a random load with a value in most columns of points.csv; for a script the load value is blank.
ImportedPoint drawn_point(std::string_view kind) {
  using load::LoadQuantity;
  const LoadQuantity quantity = load::load_kind_named(kind).quantity;
  const auto drawn = [](int low, int high) { return *rc::gen::inRange(low, high); };
  ImportedPoint p;
  for (const std::string& column : point_columns({})) {
    if (column == "load_kind") {
      p.cells.emplace_back(column, std::string(kind));
    } else if (column == "load_value") {
      if (load::is_whole(quantity))
        p.cells.emplace_back(column, std::int64_t{drawn(1, 1000)});
      else if (quantity != LoadQuantity::none)
        p.cells.emplace_back(column, drawn(1, 4000) / 16.0);
    } else if (is_text_column(column)) {
      p.cells.emplace_back(column, fmt::format("{} \"{}\", {}", column, drawn(0, 9), kind));
    } else if (column == "stable" || column == "slo_met" || column == "extrapolates") {
      p.cells.emplace_back(column, drawn(0, 2) == 1);
    } else if (column == "arrival_cv") {
      if (kind == "gamma") p.cells.emplace_back(column, drawn(1, 40) / 7.0);
    } else if (column == "tp" || column == "replicas" || (column.starts_with("requests_") && !column.ends_with("_s"))) {
      p.cells.emplace_back(column, std::int64_t{drawn(1, 1000)});
    } else if (column.ends_with("_s") || column.ends_with("_mean") || drawn(0, 2) == 1) {
      p.cells.emplace_back(column, drawn(1, 100000) / 63.0);
    }
  }
  return p;
}

// import(export(x)) = x for every kind of load and every column, down to the last digit.
RC_GTEST_FIXTURE_PROP(ExchangeTest, EveryKindOfLoadComesBack, ()) {
  const std::string_view kind =
      load::load_kind_names()[*rc::gen::inRange<std::size_t>(0, load::load_kind_names().size())];
  const ImportedPoint point = drawn_point(kind);
  for (const std::string_view format : export_formats()) {
    const ImportedPoint back = import(exported_text(format, {point})).points.at(0);
    RC_LOG() << format << ' ' << kind << '\n';
    RC_ASSERT(imported_csv({back}) == imported_csv({point}));
  }
}

// Checks the members that the other tool reads, without our own ones: neither an open load nor a burst has a number of
// clients.
TEST_F(ExchangeTest, OnlyClosedLoopsAreAConcurrency) {
  for (const std::string_view kind : load::load_kind_names()) {
    const ImportedPoint point{{{"load_kind", std::string(kind)},
                               {"load_value", 4.0},
                               {"requests_completed", std::int64_t{4}},
                               {"ttft_mean_s", 1.0}}};
    const bool closed = load::load_kind_named(kind).load_class == load::LoadClass::closed;
    EXPECT_EQ(exported_text("vllm", {point}).find("\"max_concurrency\":null") == std::string::npos, closed) << kind;
    EXPECT_EQ(exported_text("aiperf", {point}).find("\"concurrency\"") != std::string::npos, closed) << kind;
  }
  const ImportedPoint burst{{{"load_kind", std::string("burst")},
                             {"load_value", 50.0},
                             {"requests_completed", std::int64_t{50}},
                             {"ttft_mean_s", 1.0}}};
  EXPECT_THAT(exported_text("vllm", {burst}),
              HasSubstr("\"request_rate\":\"inf\",\"max_concurrency\":null,\"num_prompts\":50.0"));
  EXPECT_THAT(exported_text("aiperf", {burst}),
              HasSubstr("\"arrival_pattern\":\"concurrency_burst\",\"request_count\":50.0"));
  const ImportedPoint trace{{{"load_kind", std::string("trace")}, {"load_value", 4.0}, {"ttft_mean_s", 1.0}}};
  EXPECT_THAT(exported_text("vllm", {trace}), HasSubstr("\"request_rate\":null"));
  EXPECT_THAT(exported_text("aiperf", {trace}), HasSubstr("\"fixed_schedule\":true"));
}

// In vLLM, burstiness is the shape of the gaps' gamma distribution, whose coefficient of variation is 1 / sqrt(shape).
TEST_F(ExchangeTest, TheSpreadOfArrivalsIsKept) {
  std::string text = kVllm;
  text.replace(text.find("\"inf\""), 5, "4.5");
  text.replace(text.find("\"burstiness\": 1.0"), 17, "\"burstiness\": 0.25");
  const ImportedResults results = import(text);
  EXPECT_EQ(figure(results.points[0], "arrival_cv"), 2);
  EXPECT_THAT(exported_text("vllm", results.points), HasSubstr("\"burstiness\":0.25"));
  // Older files have the column only if it was swept.
  const std::vector<ImportedPoint> older = read_points_csv(write(
      "older.csv", "workload.load.gamma.cv,source,model,load_kind,load_value,ttft_mean_s\n2,measured,m,gamma,4,1\n"));
  EXPECT_THAT(exported_text("vllm", older), HasSubstr("\"burstiness\":0.25"));
  EXPECT_EQ(figure(import(exported_text("vllm", older)).points.at(0), "arrival_cv"), 2);
}

// A run without a stated rate is not a burst: the file does not state the load.
TEST_F(ExchangeTest, NeitherRateNorCapIsNoLoad) {
  std::string text = kVllm;
  text.replace(text.find("\"inf\""), 5, "null");
  EXPECT_EQ(label(import(text).points[0], "load_kind"), "closed_loop");  // because of the cap
  text.replace(text.find("\"max_concurrency\": 16"), 21, "\"max_concurrency\": null");
  EXPECT_EQ(import(text).points[0].find("load_kind"), nullptr);
}

// SGLang writes Python's JSON: an infinite rate is Infinity, a mean of nothing NaN. Texts must not be changed.
TEST_F(ExchangeTest, PythonNumbersOfSglangAreRead) {
  const ImportedPoint p = import(R"({"backend": "sglang", "request_rate": Infinity, "max_concurrency": null,
    "num_prompts": 20, "completed": 20, "output_throughput": 640.5, "mean_e2e_latency_ms": 2500.0,
    "mean_ttft_ms": 100, "mean_tpot_ms": NaN, "tag": "NaN \" Infinity"})")
                              .points.at(0);
  EXPECT_EQ(label(p, "engine"), "sglang");
  EXPECT_EQ(label(p, "load_kind"), "burst");
  EXPECT_EQ(figure(p, "load_value"), 20);
  EXPECT_EQ(figure(p, "latency_mean_s"), 2.5);
  EXPECT_EQ(p.find("tpot_mean_s"), nullptr);
  EXPECT_THAT(refusal("{\"mean_ttft_ms\": 1,\n\"tag\": nan}"), HasSubstr(":2"));  // not Python's spelling
}

TEST_F(ExchangeTest, PointsFilesReadBack) {
  const std::vector<ImportedPoint> points =
      import(kVllm,
             {.model = "a, \"b\"", .hardware = "", .engine = "", .dtype = "", .policy = "", .tp = {}, .replicas = {}})
          .points;
  const std::string text = imported_csv(points);
  EXPECT_EQ(imported_csv(read_points_csv(write("points.csv", text))), text);
  EXPECT_THROW((void)read_points_csv(write("bad.csv", "source,model,load_kind,ttft_mean_s\nmeasured,m,poisson,soon\n")),
               InputError);
  EXPECT_THROW((void)read_points_csv(write("short.csv", "source,model,load_kind\nmeasured,m\n")), InputError);
}

// ---- tables of any tool -------------------------------------------------------------------------------------------

class TableTest : public ExchangeTest {
 protected:
  [[nodiscard]] ImportedResults table(const std::string& text, const std::vector<std::string>& maps = {}) const {
    return import_results(write("mine.csv", text), {}, maps);
  }
  [[nodiscard]] std::string refused(const std::string& text, const std::vector<std::string>& maps = {}) const {
    try {
      (void)table(text, maps);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(TableTest, ColumnsAreKnownByTheirNamesAndUnits) {
  const ImportedResults results = table(
      "model,concurrency,Mean TTFT (ms),p90_ttft_s,tpot_us,E2E Latency "
      "[s],output_tokens_per_s,prompt_tokens,osl,p75_ttft_ms,colour\n"
      "llama-2-7b,4,125,0.2,20000,2.5,640,256,128,1,blue\n"
      "llama-2-7b,8,250,0.4,25000,3.5,,256,128,1,red\n");
  EXPECT_EQ(results.format, "csv");
  ASSERT_EQ(results.points.size(), 2U);
  const ImportedPoint& p = results.points[0];
  EXPECT_EQ(label(p, "source"), "measured");
  EXPECT_EQ(label(p, "model"), "llama-2-7b");
  EXPECT_EQ(label(p, "load_kind"), "closed_loop");
  EXPECT_DOUBLE_EQ(figure(p, "load_value"), 4);
  EXPECT_DOUBLE_EQ(figure(p, "ttft_mean_s"), 0.125);
  EXPECT_DOUBLE_EQ(figure(p, "ttft_p90_s"), 0.2);
  EXPECT_DOUBLE_EQ(figure(p, "tpot_mean_s"), 0.02);
  EXPECT_DOUBLE_EQ(figure(p, "latency_mean_s"), 2.5);
  EXPECT_DOUBLE_EQ(figure(p, "output_tokens_per_s"), 640);
  EXPECT_DOUBLE_EQ(figure(p, "input_tokens_mean"), 256);
  EXPECT_DOUBLE_EQ(figure(p, "output_tokens_mean"), 128);
  EXPECT_EQ(results.points[1].find("output_tokens_per_s"), nullptr);  // blank means not measured
}

// The two columns have the same time; the unit is at the end of the name or after a colon.
TEST_F(TableTest, MapsSayWhatAColumnIs) {
  for (const char* map : {"ttft=first_ms", "ttft_mean_s=first_ms", "mean_ttft=first_ms:ms"})
    EXPECT_DOUBLE_EQ(figure(table("first_ms\n80\n", {map}).points.at(0), "ttft_mean_s"), 0.08) << map;
  EXPECT_DOUBLE_EQ(figure(table("first\n0.08\n", {"p99_ttft=first:s", "ttft=first:s"}).points.at(0), "ttft_mean_s"),
                   0.08);
  const ImportedResults results =
      table("took,threads,ttft_ms\n2000,3,99\n", {"latency=took:ms", "concurrency=threads", "ttft=took:ms"});
  EXPECT_DOUBLE_EQ(figure(results.points.at(0), "load_value"), 3);
}

TEST_F(TableTest, ARateIsPoissonAndInfinityIsNoRate) {
  const ImportedResults results = table("request_rate,concurrency,ttft_ms\n2.5,64,80\ninf,64,80\n");
  EXPECT_EQ(label(results.points.at(0), "load_kind"), "poisson");
  EXPECT_DOUBLE_EQ(figure(results.points.at(0), "load_value"), 2.5);
  EXPECT_EQ(label(results.points.at(1), "load_kind"), "closed_loop");
  EXPECT_DOUBLE_EQ(figure(results.points.at(1), "load_value"), 64);
}

TEST_F(TableTest, WhatItCannotUseIsSaid) {
  EXPECT_THAT(table("ttft,tpot_ms\n80,20\n").notes,
              ::testing::Contains(HasSubstr("column 'ttft' is left out: its unit is unknown")));
  EXPECT_THAT(table("ttft_ms,first,took\n80,1,2\n").notes,
              ::testing::Contains(HasSubstr("columns that are not read: first, took; --map FIGURE=COLUMN[:UNIT]")));
  EXPECT_THAT(table("ttft_ms,tp\n80,2\n").notes, ::testing::Not(::testing::Contains(HasSubstr("not read"))));
  EXPECT_THAT(table("ttft_ms\n80\n\n# remark\n\"\"\n").notes,
              ::testing::Contains(HasSubstr("1 row without a throughput")));
  EXPECT_THAT(refused("a,b\n1,2\n"), HasSubstr("mine.csv:1: no column has a known figure"));
  EXPECT_THAT(refused("ttft_ms\n-80\n"),
              HasSubstr("mine.csv:2:1: ttft_mean_s: found '-80', expected a number of 0 or more"));
  EXPECT_THAT(refused("ttft_ms\nnan\n"), HasSubstr("found 'nan'"));
  EXPECT_THAT(refused("ttft_ms,tpot_ms\n80\n"), HasSubstr("mine.csv:2: found 1 fields, expected 2"));
  EXPECT_THAT(refused("ttft_ms\n80\n", {"ttft"}), HasSubstr("expected FIGURE=COLUMN"));
  EXPECT_THAT(refused("ttft_ms\n80\n", {"tftt=ttft_ms"}), HasSubstr("did you mean 'ttft'?"));
  EXPECT_THAT(refused("ttft_ms\n80\n", {"ttft=first_ms"}), HasSubstr("no column 'first_ms', found ttft_ms"));
  EXPECT_THAT(refused("ttft_ms\n80\n", {"ttft=ttft_ms:h"}), HasSubstr("unknown unit 'h', allowed: s, ms, us, ns"));
  EXPECT_THAT(refused("first\n80\n", {"ttft=first"}), HasSubstr("the unit of 'first' is unknown"));
}

TEST_F(TableTest, APointsFileOfOursIsReadBack) {
  ImportLabels labels;
  labels.hardware = "h100-sxm x 1";
  const ImportedResults once = import(kVllm, labels);
  const ImportedResults again = import_results(write("points.csv", imported_csv(once.points)));
  EXPECT_EQ(imported_csv(again.points), imported_csv(once.points));
}

// Input without an end must not be read to its end.
TEST_F(ExchangeTest, WhatNeverEndsIsRefusedAtOnce) {
  try {
    (void)import_results("/dev/zero");
    ADD_FAILURE() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/zero: holds NUL bytes"));
  }
}

// The API that a load generator uses is not an engine.
TEST_F(ExchangeTest, OpenaiIsNoEngine) {
  EXPECT_EQ(
      import(R"({"mean_ttft_ms": 1, "backend": "openai-chat", "request_throughput": 1})").points.at(0).find("engine"),
      nullptr);
}

// Spreadsheets of many countries separate fields by semicolons and write decimal commas. The same rows, however they
// are separated, are the same points.
TEST_F(ExchangeTest, OtherSeparatorsMeanTheSame) {
  const std::string commas =
      "# a comment, with a comma\nclients,ttft_ms,output_throughput,model\n4,12.5,640,\"a, b\"\n8,30,900,c\n";
  const std::string semicolons =
      "# a comment, with a comma\r\nclients;ttft_ms;output_throughput;model\r\n4;12,5;640;\"a, b\"\r\n8;30;900;c\r\n";
  const std::string tabs = "clients\tttft_ms\toutput_throughput\tmodel\n4\t12.5\t640\t\"a, b\"\n8\t30\t900\tc\n";
  const ImportedResults expected = import(commas);
  ASSERT_EQ(expected.points.size(), 2U);
  EXPECT_DOUBLE_EQ(figure(expected.points[0], "ttft_mean_s"), 0.0125);
  EXPECT_EQ(label(expected.points[0], "model"), "a, b");
  for (const std::string& text : {semicolons, tabs}) {
    const ImportedResults found = import(text);
    EXPECT_EQ(imported_csv(found.points), imported_csv(expected.points)) << text;
  }
}

TEST_F(ExchangeTest, TheHeadOfATableShowsWhatItsColumnsMean) {
  const TableHead head =
      read_table_head(write("t.csv", "when;took (ms);ttft;users\n1;2;3;4\n5;6;7;8\n9;10;11;12\n"), 2);
  EXPECT_TRUE(head.is_table);
  EXPECT_EQ(head.header, (std::vector<std::string>{"when", "took (ms)", "ttft", "users"}));
  ASSERT_EQ(head.rows.size(), 2U);
  EXPECT_EQ(head.rows[1], (std::vector<std::string>{"5", "6", "7", "8"}));
  EXPECT_EQ(head.row_count, 3U);
  EXPECT_FALSE(recognised_column("when"));
  ASSERT_TRUE(recognised_column("ttft"));
  EXPECT_EQ(recognised_column("ttft")->column, "ttft_mean_s");
  EXPECT_TRUE(recognised_column("ttft")->needs_unit);
  EXPECT_EQ(recognised_column("users")->column, "concurrency");
  EXPECT_FALSE(recognised_column("P90 TTFT (ms)")->needs_unit);
  EXPECT_FALSE(read_table_head(write("t.json", kVllm), 2).is_table);
}

}  // namespace
}  // namespace plimsoll::study
