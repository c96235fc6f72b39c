// SPDX-License-Identifier: Apache-2.0
#include "calibration/serving_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "validation/compare.h"
#include "validation/report.h"

namespace plimsoll::calibration {
namespace {

std::shared_ptr<const configs::Catalogue> shipped_catalogue() {
  return std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
}

validation::Comparison figure(const std::string& metric, double measured, double predicted) {
  validation::Comparison c;
  c.metric = metric;
  c.measured = measured;
  c.predicted = predicted;
  return c;
}

// 20 ratios from 0.905 to 1.095: the 5 and 95 % quantiles (type 7) are 0.95 steps of 0.01 away from the ends.
TEST(ServingFit, UncertaintyIsTheQuantilesOfWhatWasLeftOut) {
  std::vector<validation::Comparison> errors;
  for (int i = 0; i < 20; ++i) errors.push_back(figure("tpot_mean_s", 0.905 + 0.01 * i, 1));
  errors.push_back(figure("ttft_mean_s", 1.5, 1));
  std::vector<const validation::Comparison*> all;
  for (const validation::Comparison& c : errors) all.push_back(&c);
  const model::TimeUncertainty u = uncertainty_of(all);
  EXPECT_NEAR(u.decode_low, 0.905 + 0.0095, 1e-9);
  EXPECT_NEAR(u.decode_high, 1.095 - 0.0095, 1e-9);
  EXPECT_DOUBLE_EQ(u.prefill_high, 1.5);
  EXPECT_DOUBLE_EQ(u.prefill_low, 1);  // the band contains the prediction
}

// A throughput twice as high as predicted means half the time.
TEST(ServingFit, ThroughputCountsAsItsInverse) {
  const validation::Comparison c = figure("output_tokens_per_s", 2, 1);
  EXPECT_DOUBLE_EQ(uncertainty_of({&c}).decode_low, 0.5);
  EXPECT_DOUBLE_EQ(uncertainty_of({&c}).decode_high, 1);
}

TEST(ServingFit, CoverageCountsFiguresThatHaveABand) {
  std::vector<validation::Comparison> figures = {figure("tpot_mean_s", 1, 1.1), figure("tpot_mean_s", 1, 1.1),
                                                 figure("tpot_mean_s", 1, 1.1)};
  figures[0].low = 0.9;
  figures[0].high = 1.2;
  figures[1].low = 1.05;  // the measured 1 lies below
  EXPECT_DOUBLE_EQ(coverage_of(figures), 0.5);
}

// Eleven figures are predicted as 1, with a band from 1 / 1.1 to 1.1. Nine measurements are inside the band; one is 1.1
// exp(0.2), one 1.1 exp(0.5). Widening the band by the tenth smallest distance, 0.2, puts nine tenths inside.
TEST(ServingFit, BandsWidenUntilNineTenthsAreHeld) {
  std::vector<validation::Comparison> figures(11, figure("tpot_mean_s", 1, 1));
  for (validation::Comparison& c : figures) {
    c.low = 1 / 1.1;
    c.high = 1.1;
  }
  figures[9].measured = 1.1 * std::exp(0.2);
  figures[10].measured = 1.1 * std::exp(0.5);
  std::vector<BandMiss> misses;
  for (const validation::Comparison& c : figures)
    misses.push_back({&c, {.decode_low = 1 / 1.1, .decode_high = 1.1, .prefill_low = 1, .prefill_high = 1}});
  const Widening by = widening_of(misses);
  EXPECT_NEAR(by.decode, 0.2, 1e-9);  // the tenth of eleven
  EXPECT_NEAR(widened(misses[0].factors, by).decode_high, 1.1 * std::exp(0.2), 1e-9);
  EXPECT_DOUBLE_EQ(widened({}, {.decode = -1, .prefill = -1}).decode_high,
                   1);  // the band still contains the prediction
}

// All tables, replica counts and loads of one configuration are left out together.
TEST(ServingFit, AConfigurationIsOneInAllTables) {
  validation::MeasuredPoint a, b;
  a.model = b.model = "llama-2-7b";
  a.tp = b.tp = 4;
  a.load_value = 1;
  b.load_value = 512;
  b.replicas = 2;
  EXPECT_EQ(configuration_of(a), configuration_of(b));
  b.tp = 8;
  EXPECT_NE(configuration_of(a), configuration_of(b));
}

// The limit that docs/validation.md sets: "At most 12 numbers fitted to TGI cells."
TEST(ServingFit, FewNumbersAreFitted) {
  for (const ServingModel& m : serving_models())
    EXPECT_LE(m.numbers.size() + (m.scan.empty() ? 0 : 1), 12U) << m.engine;
}

// The program can repeat the fit of every profile in the catalogue that states its runs.
TEST(ServingFit, TheProgramFitsEveryFittedProfile) {
  const auto all = shipped_catalogue();
  for (const configs::Listing& listing : all->list("engines")) {
    const auto profile = all->engine(listing.name)->profile;
    if (!profile->calibrated || !profile->like.empty() || profile->ranges.empty()) continue;
    const ServingModel& model = serving_model(listing.name);
    EXPECT_TRUE(has_engine(serving_tables(model), model.engine)) << listing.name;
    if (model.other_version.empty()) continue;
    EXPECT_EQ(serving_model(model.other_version).other_version, model.engine);
  }
}

TEST(ServingFit, AVersionIsANumberWithAPointInTheSource) {
  EXPECT_EQ(version_of("vllm 0.12.0"), "0.12.0");
  EXPECT_EQ(version_of("SGLang 0.5.6.post2 fp8_block"), "0.5.6.post2");
  EXPECT_EQ(version_of("JumpStart post, Llama 2 7B by number of instances"), "");
}

// TGI's profile is fitted to three of the five JumpStart tables.
TEST(ServingFit, OwnTablesArePredictedByTheFitOfThePublishedOnes) {
  const std::vector<validation::MeasuredTable> published = validation::jumpstart_tables();
  const auto names = [&](std::vector<validation::MeasuredTable> given) {
    std::vector<std::string> all;
    for (const validation::MeasuredTable& table : with_fitted_tables(given, serving_model("tgi-1.1")))
      all.push_back(table.name);
    return all;
  };
  validation::MeasuredTable own = published[0];
  own.name = "mine";
  EXPECT_EQ(names({own}), (std::vector<std::string>{"mine", "jumpstart-by-instance", "jumpstart-by-tp",
                                                    "jumpstart-by-instance-count"}));
  EXPECT_EQ(names({published[3], published[1]}),
            (std::vector<std::string>{"jumpstart-min-latency", "jumpstart-by-tp", "jumpstart-by-instance",
                                      "jumpstart-by-instance-count"}));
  EXPECT_EQ(names(published).size(), published.size());
}

TEST(ServingFit, AnEngineWithoutDataIsRefusedByName) { EXPECT_THROW((void)serving_model("ideal"), InputError); }

// Two of the source's 212 rows have no concurrency. The rows are plain studies with `engine_front_end`: the profiles
// know the rest. With them, every engine meets the targets of docs/validation.md: median errors below 6 % for the time
// per token and below 20 % for the time to first token. If vLLM's users stayed in lockstep, it would be 124 %.
TEST(ServingFit, TimesOnH100ArePredicted) {
  const std::vector<validation::MeasuredTable> tables = serving_tables(serving_model("vllm-0.12"));
  ASSERT_EQ(tables.front().points.size(), 210U);
  const std::vector<validation::Comparison> comparisons = validation::compare(tables, shipped_catalogue(), {});
  std::map<std::string, std::vector<const validation::Comparison*>> tpot, ttft;
  for (const validation::Comparison& c : comparisons)
    for (const std::string& group : {c.point->engine, std::string("all")})
      (c.metric == "tpot_mean_s" ? tpot : ttft)[group].push_back(&c);
  ASSERT_EQ(ttft.size(), 4U);
  for (const auto& [engine, group] : tpot) EXPECT_LT(summarise(group).median, 0.06) << engine;
  for (const auto& [engine, group] : ttft) EXPECT_LT(summarise(group).median, 0.20) << engine;
  EXPECT_LT(summarise(tpot.at("all")).median, 0.035);
  EXPECT_LT(summarise(ttft.at("all")).median, 0.12);
}

// Each run with clients that a profile was fitted to is within the profile's ranges, so the profile counts as
// calibrated for it. (A GB200 is priced by the tables of a B200, which is said too.)
TEST(ServingFit, EveryFittedRunLiesWithinTheRangesOfItsProfile) {
  for (const ServingModel& model : serving_models()) {
    std::vector<validation::MeasuredTable> tables = serving_tables(model);
    std::erase_if(tables, [&](const validation::MeasuredTable& t) {
      return std::find(model.tables.begin(), model.tables.end(), t.name) == model.tables.end();
    });
    for (validation::MeasuredTable& table : tables)
      std::erase_if(table.points, [&](const validation::MeasuredPoint& p) {
        return configs::canonical_name(p.engine) != model.engine || p.load_kind == "burst";
      });
    for (const validation::Comparison& c : validation::compare(tables, shipped_catalogue(), {}))
      EXPECT_EQ(c.extrapolates.find("outside the fitted range"), std::string::npos)
          << configuration_of(*c.point) << ": " << c.extrapolates;
  }
}

// Four configurations of one engine: enough to leave one out, and fast to simulate.
std::vector<validation::MeasuredTable> few_runs() {
  std::vector<validation::MeasuredTable> tables = serving_tables(serving_model("vllm-0.12"));
  std::vector<validation::MeasuredPoint>& points = tables.front().points;
  std::erase_if(points,
                [](const validation::MeasuredPoint& p) { return configs::canonical_name(p.engine) != "vllm-0.12"; });
  std::vector<std::string> names;
  for (const validation::MeasuredPoint& p : points)
    if (std::find(names.begin(), names.end(), configuration_of(p)) == names.end()) names.push_back(configuration_of(p));
  names.resize(4);
  std::erase_if(points, [&](const validation::MeasuredPoint& p) {
    return std::find(names.begin(), names.end(), configuration_of(p)) == names.end();
  });
  return tables;
}

TEST(ServingFit, LeavesOutTheSameWithAnyNumberOfThreads) {
  const std::vector<validation::MeasuredTable> tables = few_runs();
  const auto left_out = [&](int jobs) {
    const ServingProblem problem(serving_model("vllm-0.12"), tables, shipped_catalogue(),
                                 {.jobs = jobs, .control = nullptr, .progress = {}});
    return problem.leave_one_out(problem.fit());
  };
  const ServingFit one = left_out(1), two = left_out(2);
  ASSERT_GE(one.comparisons.size(), 8U);
  EXPECT_EQ(validation::comparison_csv(one.comparisons), validation::comparison_csv(two.comparisons));
  EXPECT_EQ(one.simulations, two.simulations);
  for (const validation::Comparison& c : one.comparisons)
    EXPECT_TRUE(c.is_in_band().has_value());  // every left-out figure has a band
}

// Cancelling also works while bands are computed, which once could not be interrupted.
TEST(ServingFit, StopsWhereverItIsCancelled) {
  const std::vector<validation::MeasuredTable> tables = few_runs();
  for (const std::string stage : {"fitting", "leaving out", "propagating"}) {
    study::RunControl control;
    const ServingProblem problem(serving_model("vllm-0.12"), tables, shipped_catalogue(),
                                 {.jobs = 2, .control = &control, .progress = [&](const std::string& text) {
                                    if (text.starts_with(stage)) control.cancel();
                                  }});
    EXPECT_THROW((void)problem.leave_one_out(problem.fit()), ServingCancelled) << stage;
  }
}

}  // namespace
}  // namespace plimsoll::calibration
