// SPDX-License-Identifier: Apache-2.0
#include "calibration/own_fit.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "calibration/own_hardware.h"
#include "study/file/study.h"
#include "study/run/resolve.h"
#include "study/run/simulate_point.h"
#include "validation/compare.h"

namespace plimsoll::calibration {
namespace {

using ::testing::HasSubstr;
using validation::MeasuredPoint;

std::shared_ptr<configs::Catalogue> catalogue() {
  return std::make_shared<configs::Catalogue>(configs::Catalogue::default_root());
}

// A server that is like vllm-0.12 except for some values, such as "host.step" -> "2 ms".
using Changes = std::vector<std::pair<std::string, std::string>>;

configs::Document changed(const configs::Catalogue& shipped, const char* kind, const char* id, const Changes& changes) {
  configs::Document document = shipped.document(kind, id);
  for (const auto& [path, value] : changes) document.set(path, value, Where{"test", 0, 0});
  return document;
}

// Returns the measurements of a run on such a server: the simulated means, without error.
void measure(MeasuredPoint& p, const std::shared_ptr<const configs::Catalogue>& truth) {
  const study::Study study(configs::Document::from_text(validation::study_text({&p}), "study"), "study", {}, truth);
  const auto metrics = *study::simulate_point(study.point(0), {}).result.metrics;
  p.ttft_mean_s = metrics.ttft.mean;
  p.tpot_mean_s = metrics.tpot.mean;
  p.output_tokens_per_s = metrics.output_tokens_per_s;
}

MeasuredPoint run_of(std::int64_t users, std::int64_t input, std::int64_t output) {
  MeasuredPoint p;
  p.model = "llama-3.2-1b";
  p.hardware = "a100-sxm-80gb x 1";
  p.engine = "truth";
  p.dtype = "bf16";
  p.load_kind = "closed_loop";
  p.load_value = static_cast<double>(users);
  p.input_tokens = input;
  p.output_tokens = output;
  p.requests = 3 * users;
  p.where = {"runs.csv", static_cast<std::size_t>(1000 * users + input), 0};
  return p;
}

// Ten runs: eight are fitted, the third and the seventh of the order are held out.
std::vector<MeasuredPoint> ladder(const Changes& engine, const Changes& accelerator = {}) {
  const auto truth = catalogue();
  truth->add_entry("engines", "truth", changed(*truth, "engines", "vllm-0.12", engine));
  if (!accelerator.empty())
    truth->add_entry("accelerators", "secret", changed(*truth, "accelerators", "generic-cpu", accelerator));
  std::vector<MeasuredPoint> runs;
  for (const std::int64_t input : {64, 512})
    for (const std::int64_t users : {1, 2, 4, 8, 16}) {
      runs.push_back(run_of(users, input, 16));
      if (!accelerator.empty()) runs.back().hardware = "secret x 1";
      measure(runs.back(), truth);
    }
  return runs;
}

OwnEngine own_engine() {
  OwnEngine engine;
  engine.name = "mine";
  engine.like = "vllm-0.12";
  engine.data = "runs.csv";
  engine.date = "2026-11-22";
  engine.command = "plimsoll calibrate";
  return engine;
}

struct Fitted {
  OwnRuns runs;
  OwnFit fit;
};

std::unique_ptr<Fitted> fit(std::vector<MeasuredPoint> points, const OwnEngine& engine = own_engine()) {
  auto fitted = std::make_unique<Fitted>();
  fitted->runs = own_runs(std::move(points));
  fitted->fit = fit_own(engine, fitted->runs, catalogue(), {.jobs = 2, .control = nullptr, .progress = {}});
  return fitted;
}

double worst_error(const OwnFit& fit, bool fitted) {
  double worst = 0;
  for (std::size_t i = 0; i < fit.fit.comparisons.size(); ++i)
    if (fit.fit.fitted[i] == fitted) worst = std::max(worst, std::abs(*fit.fit.comparisons[i].relative_error()));
  return worst;
}

double value_of(const OwnFit& fit, const std::string& path) {
  for (std::size_t i = 0; i < fit.model.numbers.size(); ++i)
    if (fit.model.numbers[i].path == path) return fit.fit.values[i];
  return -1;
}

std::string problem_of(std::vector<MeasuredPoint> points, const OwnEngine& engine = own_engine()) {
  try {
    (void)fit(std::move(points), engine);
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing is wrong";
}

// The paths and start values of what a fit determines.
std::map<std::string, double> numbers_for(const std::string& like, const std::string& front_end,
                                          const std::string& dtype) {
  std::vector<MeasuredPoint> points;
  for (const std::int64_t users : {1, 2, 4, 8, 16, 32}) {
    points.push_back(run_of(users, 128, 16));
    points.back().front_end = front_end;
    points.back().dtype = dtype;
    points.back().ttft_mean_s = points.back().tpot_mean_s = 0.01;
  }
  const model::EngineProfile profile =
      *configs::read_engine(catalogue()->document("engines", like).root(), like).profile;
  std::map<std::string, double> numbers;
  for (const ServingNumber& n : own_numbers(own_engine(), profile, own_runs(points), {}))
    numbers[n.path] = n.number.prior;
  return numbers;
}

// The shipped fits determine these values too: a fit without them would be worse than the profile that it starts from.
// A profile states the whole delay behind a front end, and what the front end adds to the other times.
TEST(OwnFit, DeterminesWhatTheProfileStatesAndTheRunsTell) {
  const auto shipped = [](const char* like) {
    return *configs::read_engine(catalogue()->document("engines", like).root(), like).profile;
  };
  const auto plain = numbers_for("sglang-0.5", "", "fp8");
  EXPECT_DOUBLE_EQ(plain.at("host.stream"), 1e6 * shipped("sglang-0.5").host_stream.count());
  EXPECT_TRUE(plain.contains("host.front_end"));
  EXPECT_FALSE(plain.contains("front_ends.dynamo.front_end"));
  EXPECT_FALSE(plain.contains("kernels.fused_quantisation"));
  const auto behind = numbers_for("trtllm-1.0", "dynamo", "fp8");
  const model::EngineProfile trtllm = shipped("trtllm-1.0");
  const model::FrontEndTime dynamo = trtllm.front_ends.at(model::FrontEnd::dynamo);
  EXPECT_DOUBLE_EQ(behind.at("front_ends.dynamo.front_end"),
                   1e3 * trtllm.arrival_time(model::FrontEnd::dynamo).delay.count());
  EXPECT_DOUBLE_EQ(behind.at("front_ends.dynamo.intake"), 1e3 * dynamo.intake.count());
  EXPECT_DOUBLE_EQ(behind.at("front_ends.dynamo.stream"), 1e6 * dynamo.stream.count());
  EXPECT_TRUE(behind.contains("kernels.fused_quantisation"));
  EXPECT_FALSE(behind.contains("host.front_end"));
  EXPECT_TRUE(numbers_for("trtllm-1.0", "", "nvfp4").contains("kernels.products.nvfp4.memory_scale"));
  EXPECT_FALSE(numbers_for("trtllm-1.0", "", "bf16").contains("kernels.products.nvfp4.memory_scale"));
}

// A profile that states the growth for single accelerators takes the fitted one for them too; else it would keep its
// own.
TEST(OwnFit, FitsTheRankGrowthOfEveryAccelerator) {
  std::vector<MeasuredPoint> points;
  for (const std::int64_t users : {1, 2, 4, 8, 16, 32}) {
    points.push_back(run_of(users, 128, 16));
    points.back().hardware = "a100-sxm-80gb x 2";
    points.back().tp = users > 4 ? 2 : 1;
    points.back().tpot_mean_s = 0.01;
  }
  model::EngineProfile like;
  like.host_rank_growth = 0.05;
  like.rank_growth_by_accelerator["a10g"] = 0.02;
  const auto numbers = own_numbers(own_engine(), like, own_runs(points), {});
  const auto growth =
      std::find_if(numbers.begin(), numbers.end(), [](const ServingNumber& n) { return n.path == "host.rank_growth"; });
  ASSERT_NE(growth, numbers.end());
  EXPECT_EQ(growth->also, std::vector<std::string>{"host.rank_growth_by_accelerator.a10g"});
}

// The known answer: a request waits 60 ms before the scheduler, not 18, and a step takes 3 ms of host time, not 0.48.
// Without error in the runs only the priors keep the fit from them.
TEST(OwnFit, RecoversTheHostTimesOfTheServer) {
  const auto fitted = fit(ladder({{"host.step", "3 ms"}, {"host.front_end", "60 ms"}}));
  EXPECT_NEAR(value_of(fitted->fit, "host.front_end"), 60, 3);
  EXPECT_NEAR(value_of(fitted->fit, "host.step"), 3, 0.3);
  EXPECT_EQ(fitted->runs.held_out().size(), 2U);
  EXPECT_LT(worst_error(fitted->fit, false), 0.03);
  EXPECT_LT(worst_error(fitted->fit, true), 0.03);
  EXPECT_TRUE(fitted->fit.warnings.empty()) << fitted->fit.warnings.front();
  // For other programs: every figure with a prediction, in and out of the fit, and the report as text.
  const std::string members = own_fit_members(fitted->fit);
  std::size_t figures = 0;
  for (std::size_t at = members.find("\"measured\":"); at != std::string::npos;
       at = members.find("\"measured\":", at + 1))
    ++figures;
  EXPECT_EQ(figures, fitted->fit.fit.comparisons.size());
  EXPECT_NE(members.find("\"fitted\":false,\"median\":"), std::string::npos) << members;
  EXPECT_NE(members.find("\"accelerator\":\"\""), std::string::npos) << "the hardware is the catalogue's";
}

// If the server's times are within a factor of five of the profile's, held-out runs are predicted well.
TEST(OwnFit, PredictsWhatItDidNotSeeOfAnyServer) {
  const struct { double step, front_end, sequence; } factors[] = {{0.2, 0.2, 0.2}, {5, 0.2, 1}, {1, 5, 5}};
  for (const auto& by : factors) {
    const Changes changes = {{"host.step", fmt::format("{:.4f} ms", 0.48 * by.step)},
                             {"host.front_end", fmt::format("{:.4f} ms", 18 * by.front_end)},
                             {"host.sequence", fmt::format("{:.4f} us", 14.6 * by.sequence)}};
    EXPECT_LT(worst_error(fit(ladder(changes))->fit, false), 0.08) << changes[0].second;
  }
}

// In one run, fewer sequences ran at once than in its simulation, so it must not affect the fit of the others.
TEST(OwnFit, ARunWithAnotherQueueIsLeftOut) {
  std::vector<MeasuredPoint> runs = ladder({{"host.step", "3 ms"}});
  *runs[4].ttft_mean_s *= 8;
  *runs[4].tpot_mean_s *= 0.8;
  *runs[4].output_tokens_per_s *= 0.6;
  const auto fitted = fit(runs);
  EXPECT_EQ(fitted->runs.fitted().size(), 7U);
  ASSERT_EQ(fitted->fit.warnings.size(), 1U);
  EXPECT_THAT(fitted->fit.warnings.front(), HasSubstr("1 run is left out of the fit"));
  EXPECT_LT(worst_error(fitted->fit, false), 0.04);
}

// If not all prompts fit the profile's pool, their waiting time is not fitted. A run whose requests wait much longer
// had another pool, so its times between tokens are those of another batch.
TEST(OwnFit, ARunWithAnotherPoolIsLeftOut) {
  const auto truth = catalogue();
  truth->add_entry("engines", "truth", changed(*truth, "engines", "vllm-0.12", {{"host.step", "3 ms"}}));
  std::vector<MeasuredPoint> runs = ladder({{"host.step", "3 ms"}});
  for (const std::int64_t users : {24, 32}) {  // the first of both is held out
    runs.push_back(run_of(users, 120000, 16));
    runs.back().requests = users;
    measure(runs.back(), truth);
  }
  *runs.back().ttft_mean_s *= 8;
  *runs.back().tpot_mean_s *= 0.5;
  *runs.back().output_tokens_per_s *= 0.4;
  const auto fitted = fit(runs);
  EXPECT_TRUE(fitted->fit.fit.beyond_pool.contains(&fitted->runs.held_out().back()));
  EXPECT_EQ(fitted->runs.fitted().size(), 8U);
  EXPECT_THAT(fitted->fit.warnings, ::testing::Contains(HasSubstr("1 run is left out of the fit")));
}

// Medians do not reveal a few wrong runs; a warning does.
TEST(OwnFit, RunsFarFromTheFitAreNamed) {
  std::vector<MeasuredPoint> runs = ladder({});
  *runs[4].tpot_mean_s *= 2.2;
  *runs[4].output_tokens_per_s /= 2;
  const auto fitted = fit(runs);
  ASSERT_FALSE(fitted->fit.warnings.empty());
  EXPECT_THAT(fitted->fit.warnings.front(), HasSubstr("1 of 8 fitted runs lies far from the fit"));
  EXPECT_THAT(fitted->fit.warnings.front(), HasSubstr("runs.csv:16064"));  // 16 users, prompts of 64 tokens
}

// A hundredfold step fits such runs, but no host is that slow: they are not of the stated hardware.
TEST(OwnFit, AHostTimeThatNoHostTakesIsNamed) {
  const auto fitted = fit(ladder({{"host.step", "200 ms"}}));
  EXPECT_THAT(fitted->fit.warnings,
              ::testing::Contains(::testing::AllOf(HasSubstr("host.step is 4"), HasSubstr("times its start value"))));
  EXPECT_THAT(fit(ladder({{"host.step", "2 ms"}}))->fit.warnings,
              ::testing::Not(::testing::Contains(HasSubstr("times its start value"))));
}

// The columns of the report stay aligned whatever the profile's name is.
TEST(OwnFit, ALongNameWidensTheReport) {
  OwnEngine engine = own_engine();
  engine.name = "an-engine-with-quite-a-long-name";
  const std::string text = own_report(fit(ladder({}), engine)->fit);
  std::size_t begin = text.find('\n') + 1;
  const std::size_t column = text.find('(', begin) - begin;
  for (; text.compare(begin, 2, "  ") == 0; begin = text.find('\n', begin) + 1)
    EXPECT_EQ(text.find('(', begin) - begin, column) << text;
}

// The model has 32 heads, which 3 ranks cannot share. The other runs decide the fit.
TEST(OwnFit, RunsThatCannotBeSimulatedAreNamed) {
  std::vector<MeasuredPoint> runs = ladder({});
  for (const std::size_t i : {4, 5}) {
    runs[i].tp = 3;
    runs[i].hardware = "a100-sxm-80gb x 3";
  }
  const auto fitted = fit(runs);
  ASSERT_FALSE(fitted->fit.warnings.empty());
  EXPECT_THAT(fitted->fit.warnings.front(), HasSubstr("2 of 10 runs cannot be simulated, so they are not fitted"));
}

// Random errors of a fifth leave the fit plausible; the runs that it did not see show them.
TEST(OwnFit, NoiseInTheHeldOutRunsIsTold) {
  std::vector<MeasuredPoint> runs = ladder({});
  for (const std::size_t i : {2, 6})  // held out
    *runs[i].tpot_mean_s *= 1.2;
  const auto fitted = fit(runs);
  EXPECT_THAT(fitted->fit.warnings, ::testing::Contains(HasSubstr("tpot_mean_s is 1")));
  EXPECT_THAT(fitted->fit.warnings, ::testing::Contains(HasSubstr("on held-out runs")));
}

// The order of rows and files does not affect which runs are fitted and which are held out.
TEST(OwnFit, PermutedRowsGiveTheSameFiles) {
  std::vector<MeasuredPoint> runs = ladder({{"host.step", "2 ms"}});
  const auto before = fit(runs)->fit.files;
  std::shuffle(runs.begin(), runs.end(), std::mt19937(7));
  EXPECT_EQ(fit(runs)->fit.files, before);
}

// Eight users of a server whose number of slots the runs do not state: the profile's four are a guess.
TEST(OwnFit, UnstatedSlotsAreNamed) {
  OwnEngine engine = own_engine();
  engine.like = "llama-cpp";
  const auto warned = [&](std::int64_t slots) {
    std::vector<MeasuredPoint> runs = ladder({{"scheduler.policy", "llama_cpp"}, {"scheduler.max_running", "16"}});
    std::erase_if(runs, [](const MeasuredPoint& p) { return p.load_value > 8; });
    for (MeasuredPoint& p : runs) p.max_running = slots;
    const auto fitted = fit(std::move(runs), engine);
    return std::any_of(fitted->fit.warnings.begin(), fitted->fit.warnings.end(), [](const std::string& text) {
      return text.find("than the 4 slots of llama-cpp") < text.size();
    });
  };
  EXPECT_TRUE(warned(0));
  EXPECT_FALSE(warned(16));
}

// Hardware that the catalogue lacks: a machine with half the bandwidth and a third of the peak of the generic one. The
// runs of one model do not separate device from host, but they determine the total times.
TEST(OwnFit, FitsAnAcceleratorThatTheCatalogueLacks) {
  const auto fitted = fit(ladder({{"host.step", "3 ms"}}, {{"memory_bandwidth", "14 GB/s"},
                                                           {"bf16", "70 GFLOP/s"},
                                                           {"fp16", "70 GFLOP/s"},
                                                           {"memory", "64 GiB"},
                                                           {"calibrated", "true"}}));
  EXPECT_EQ(fitted->fit.accelerator, "mine");
  EXPECT_LT(worst_error(fitted->fit, false), 0.08);
  const std::string& file = fitted->fit.files.at("accelerators/mine.yaml");
  EXPECT_THAT(file, HasSubstr("aliases: [\"secret\"]"));
  EXPECT_THAT(fitted->fit.warnings, ::testing::Contains(HasSubstr("memory of mine is not known")));
}

// A processor whose kernel for one row reads faster than the other, and where several rows add arithmetic to the reads:
// the form that fits llama.cpp's server.
TEST(OwnFit, AKernelForOneRowIsFound) {
  const Changes machine = {{"efficiency.gemm", "{compute: 0.75, memory: 0.3, p: 1, t0: 5 us, one_row_memory: 0.75}"},
                           {"memory_bandwidth", "30 GB/s"},
                           {"bf16", "200 GFLOP/s"},
                           {"fp16", "200 GFLOP/s"},
                           {"memory", "64 GiB"},
                           {"calibrated", "true"}};
  const auto fitted = fit(ladder({}, machine));
  EXPECT_TRUE(fitted->fit.form.one_row);
  EXPECT_LT(worst_error(fitted->fit, false), 0.08);
  EXPECT_THAT(fitted->fit.files.at("accelerators/mine.yaml"), HasSubstr("one_row_memory: 0.75"));
  EXPECT_FALSE(fit(ladder({}, {{"memory", "64 GiB"}, {"calibrated", "true"}}))->fit.form.one_row);
}

// Returns the tokens of the KV pool of a run on hardware that is fitted to `points`.
double fitted_pool(const OwnEngine& engine, std::vector<MeasuredPoint> points, MeasuredPoint run) {
  const auto own = catalogue();
  const std::optional<OwnHardware> hardware = own_hardware(engine, own_runs(std::move(points)), own);
  if (!hardware) return 0;
  own->add_entry("accelerators", "mine", hardware->draft);
  run.hardware = "mine x 1";
  run.engine = "mine";
  const study::Study study(configs::Document::from_text(validation::study_text({&run}), "study"), "study", {}, own);
  return static_cast<double>(study::point_memory(study.point(0)).kv_tokens);
}

// A small memory has smaller limits in the profile, so smaller activations, than the memory that the search starts
// with.
TEST(OwnFit, TheFittedMemoryHoldsTheServersPool) {
  OwnEngine engine = own_engine();
  engine.pool_tokens = 93184;
  const std::vector<MeasuredPoint> runs = ladder({}, {{"memory", "64 GiB"}, {"calibrated", "true"}});
  EXPECT_NEAR(fitted_pool(engine, runs, run_of(3, 256, 32)), 93184, 50);
}

// Each slot has its share of the pool, so the longest run decides even if it has few users.
TEST(OwnFit, TheAssumedMemoryHoldsTheLongestRunInEverySlot) {
  OwnEngine engine = own_engine();
  engine.like = "llama-cpp";
  std::vector<MeasuredPoint> runs = ladder({}, {{"memory", "64 GiB"}, {"calibrated", "true"}});
  std::erase_if(runs, [](const MeasuredPoint& p) { return p.input_tokens == 512 && p.load_value > 2; });
  for (MeasuredPoint& p : runs) p.max_running = 16;
  MeasuredPoint longest = run_of(1, 512, 16);
  longest.max_running = 16;
  EXPECT_GE(fitted_pool(engine, runs, longest), 16 * 528);
}

// On a machine without a GPU the host's work comes on top of the device's, and takes far longer than the profile's
// host.
TEST(OwnFit, AMachineWithoutAGpuWorksInSeries) {
  const auto fitted = fit(ladder({{"host.overlap", "none"}, {"host.step", "60 ms"}, {"host.sequence", "20 ms"}},
                                 {{"memory_bandwidth", "400 GB/s"}, {"memory", "64 GiB"}, {"calibrated", "true"}}));
  EXPECT_TRUE(fitted->fit.form.serial);
  EXPECT_THAT(fitted->fit.files.at("engines/mine.yaml"), HasSubstr("overlap: none"));
  EXPECT_LT(worst_error(fitted->fit, false), 0.05);
}

// The written files are read like any others: a point within the fitted range is calibrated, one beyond it
// extrapolates.
TEST(OwnFit, ItsRangesTellWhatExtrapolates) {
  const auto fitted = fit(ladder({{"host.step", "2 ms"}}));
  const auto own = catalogue();
  const configs::Document written = configs::Document::from_text(fitted->fit.files.at("engines/mine.yaml"), "mine");
  configs::Document merged = own->document("engines", "vllm-0.12");
  for (const configs::Item& item : written.root().items()) merged.set(item.key, item.value);
  merged.remove("like");
  own->add_entry("engines", "mine", merged);
  const auto reason = [&](std::int64_t users) {
    MeasuredPoint p = run_of(users, 64, 16);
    p.engine = "mine";
    const study::Study study(configs::Document::from_text(validation::study_text({&p}), "study"), "study", {}, own);
    return study::simulate_point(study.point(0), {}).result.extrapolates;
  };
  EXPECT_THAT(reason(8), ::testing::Not(HasSubstr("fitted range")));
  EXPECT_THAT(reason(64), HasSubstr("64 users per replica (fitted: 1 to 16)"));
}

TEST(OwnRuns, TooFewAreRefused) {
  std::vector<MeasuredPoint> runs = ladder({});
  runs.resize(kFewestRuns - 1);
  EXPECT_THAT(problem_of(runs), HasSubstr("5 different runs can be fitted, at least 6 are needed"));
  // Ten copies of a run count as one run.
  EXPECT_THAT(problem_of(std::vector<MeasuredPoint>(10, runs[0])), HasSubstr("1 different run can be fitted"));
}

// The second run of a load took twice as long as the first. One of them is wrong, and nothing shows which.
TEST(OwnRuns, RunsThatContradictEachOtherAreRefused) {
  std::vector<MeasuredPoint> runs = ladder({});
  runs.push_back(runs[3]);
  runs.back().tpot_mean_s = 2 * *runs[3].tpot_mean_s;
  runs.back().where.line = 4711;
  EXPECT_THAT(problem_of(runs), HasSubstr("runs.csv:4711 are runs of the same load, but tpot_mean_s is"));
  runs.back().tpot_mean_s = 1.2 * *runs[3].tpot_mean_s;
  EXPECT_THAT(own_runs(runs).warnings, ::testing::Contains(HasSubstr("the runs are noisy")));
}

// All runs share one profile, so the warning counts the values in which they differ.
TEST(OwnRuns, NamesWhatTheRunsMix) {
  std::vector<MeasuredPoint> runs = ladder({});
  EXPECT_THAT(own_runs(runs).warnings, ::testing::Not(::testing::Contains(HasSubstr("front ends"))));
  runs[1].front_end = "dynamo";
  EXPECT_THAT(own_runs(runs).warnings, ::testing::Contains(HasSubstr("of 2 front ends: dynamo (1), none (")));
}

// Milliseconds in a column of seconds: by Little's law no such throughput is possible.
TEST(OwnRuns, AWrongUnitIsRefused) {
  std::vector<MeasuredPoint> runs = ladder({});
  for (MeasuredPoint& p : runs) p.tpot_mean_s = 1000 * *p.tpot_mean_s;
  EXPECT_THAT(problem_of(runs), HasSubstr("10 of 10 runs have contradictory figures, perhaps a wrong unit"));
}

// One row with a mistake does not affect the others.
TEST(OwnRuns, OneContradictoryRunIsLeftOut) {
  std::vector<MeasuredPoint> runs = ladder({});
  runs[4].ttft_mean_s = 1000.0;
  const OwnRuns kept = own_runs(runs);
  EXPECT_EQ(kept.fitted().size() + kept.held_out().size(), 9U);
  EXPECT_THAT(kept.warnings, ::testing::Contains(HasSubstr("1 run is left out; runs.csv:16064")));
}

// Times that jump and fall with the load: they are consistent, but no engine behaves like this.
TEST(OwnFit, RunsOfNoEngineAreRefused) {
  std::vector<MeasuredPoint> runs = ladder({});
  for (std::size_t i = 0; i < runs.size(); ++i) {
    MeasuredPoint& p = runs[i];
    p.tpot_mean_s = i % 2 == 0 ? 0.1 : 0.004;  // less than 100 times apart: no mistaken unit
    p.ttft_mean_s = i % 3 == 0 ? 2.0 : 0.04;
    p.output_tokens_per_s =
        p.load_value * static_cast<double>(p.output_tokens) / (*p.ttft_mean_s + 15 * *p.tpot_mean_s);
  }
  EXPECT_THAT(problem_of(runs), HasSubstr("nothing is written: a profile like vllm-0.12 cannot be fitted"));
}

// The fit only tries values that an accelerator may have. So for any runs it ends with a verdict on them, and never
// with an error about a value that the user did not state.
TEST(OwnFit, NoisyOrSlowRunsGetAVerdict) {
  const Changes machine = {{"memory_bandwidth", "14 GB/s"}, {"memory", "64 GiB"}, {"calibrated", "true"}};
  std::vector<MeasuredPoint> same = ladder({}, machine), slow = same;
  for (MeasuredPoint& p : same) {  // neither lengths nor users have an effect
    p.ttft_mean_s = 0.1;
    p.tpot_mean_s = 0.02;
    p.output_tokens_per_s = p.load_value * 16 / (0.1 + 15 * 0.02);
  }
  for (MeasuredPoint& p : slow) {  // milliseconds as seconds, and no throughput that contradicts them
    p.ttft_mean_s = 1000 * *p.ttft_mean_s;
    p.tpot_mean_s = 1000 * *p.tpot_mean_s;
    p.output_tokens_per_s.reset();
  }
  for (const std::vector<MeasuredPoint>& runs : {same, slow})
    EXPECT_THAT(problem_of(runs), ::testing::AnyOf(HasSubstr("nothing is written: "), HasSubstr("nothing is wrong")));
}

// The profile keeps the server's limit only if every run states it.
TEST(OwnRuns, AllStateTheSameLimit) {
  std::vector<MeasuredPoint> runs = {run_of(1, 64, 16), run_of(2, 64, 16)};
  EXPECT_FALSE(common_max_running({}).has_value());
  EXPECT_FALSE(common_max_running(runs).has_value());
  for (MeasuredPoint& p : runs) p.max_running = 32;
  EXPECT_EQ(common_max_running(runs), 32);
  runs[1].max_running = 8;
  EXPECT_FALSE(common_max_running(runs).has_value());
}

TEST(OwnRuns, RunsOfOneEngineAreSelected) {
  std::vector<MeasuredPoint> runs = {run_of(1, 64, 16), run_of(2, 64, 16)};
  runs[0].engine = "vLLM 0.16.0";
  runs[1].engine = "SGLang 0.5.2";
  std::vector<std::string> warnings;
  EXPECT_THROW((void)runs_of_engine(runs, {"mine", "vllm-0.16"}, warnings), InputError);
  runs[1].engine = "vllm-0.16";
  EXPECT_EQ(runs_of_engine(runs, {"mine", "vllm-0.16"}, warnings).size(), 1U);
  EXPECT_THAT(warnings, ::testing::ElementsAre("1 run of 'vLLM 0.16.0' is left out"));
}

TEST(OwnFit, NamesAreOnesOwn) {
  const auto shipped = catalogue();
  for (const char* const name : {"vllm-0.12", "vllm", "../mine", "Mine", "", ".mine", "a b", "a\nb", "a_b"})
    EXPECT_THROW(check_own_name(name, *shipped), InputError) << name;
  EXPECT_NO_THROW(check_own_name("my-vllm-0.16", *shipped));
}

TEST(OwnFit, AServerHasTheNewestProfileThatIsNotNewer) {
  const auto shipped = catalogue();
  EXPECT_EQ(engine_of_server(*shipped, "vLLM", "0.16.0"), "vllm-0.16");
  EXPECT_EQ(engine_of_server(*shipped, "vLLM", "0.17.1rc2"), "vllm-0.16");
  EXPECT_EQ(engine_of_server(*shipped, "vLLM", "0.1"), "vllm-0.6");
  EXPECT_EQ(engine_of_server(*shipped, "vLLM", ""), "vllm-0.24");
  EXPECT_EQ(engine_of_server(*shipped, "SGLang", "0.5.9"), "sglang-0.5");
  EXPECT_EQ(engine_of_server(*shipped, "llama.cpp", ""), "llama-cpp");  // its builds have no versions
  EXPECT_EQ(engine_of_server(*shipped, "unheard-of", "1"), "");
}

}  // namespace
}  // namespace plimsoll::calibration
