// SPDX-License-Identifier: Apache-2.0
// Each fault of a study is reported at its line and column, with what was found and what is allowed.
#include <gmock/gmock.h>

#include "model/error.h"
#include "study/run/resolve.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

struct BadStudy {
  const char* name;
  const char* yaml;
  std::size_t line, column;  // 0 for the file as a whole
  const char* phrase;
};

void PrintTo(const BadStudy& bad, std::ostream* out) { *out << bad.name; }

class BadStudyTest : public StudyFolder, public ::testing::WithParamInterface<BadStudy> {};

// Reading finds most faults; those of a single point are found when it is resolved.
void read_and_resolve(const Study& study) {
  const ResolvedPoint point = resolve_point(study, 0);
  if (point.impossible) throw InputError(point.impossible->where, point.impossible->reason);
}

TEST_P(BadStudyTest, IsRefusedAtItsPlace) {
  const BadStudy& bad = GetParam();
  try {
    read_and_resolve(read(bad.yaml));
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.where().file, file("study.yaml"));
    EXPECT_EQ(error.where().line, bad.line) << error.what();
    EXPECT_EQ(error.where().column, bad.column) << error.what();
    EXPECT_THAT(error.text(), ::testing::HasSubstr(bad.phrase));
  }
}

#define HEAD "model: llama-2-7b\nhardware: ml.p4d.24xlarge\nengine: tgi-1.1\n"
#define TAIL "workload:\n  load: {closed_loop: {concurrency: 4}}\n  lengths: {input: 8, output: 8}\n"

constexpr BadStudy kBadStudies[] = {
    {"UnknownKey", HEAD "deploymnt: {tp: 1}\n" TAIL, 4, 1, "did you mean 'deployment'"},
    {"KeyOfTheLoadBesideIt", HEAD TAIL "sweep: {workload.rte: [1 /s]}\n", 7, 24,
     "did you mean 'rate'? Write load: {poisson"},
    {"UnknownNestedKey", HEAD "deployment: {tpp: 1}\n" TAIL, 4, 14, "did you mean 'tp'"},
    {"UnknownModel", "model: lama-2-7b\nhardware: ml.p4d.24xlarge\n" TAIL, 1, 8, "did you mean 'llama-2-7b'"},
    {"UnknownInstance", "model: llama-2-7b\nhardware: ml.p4d.25xlarge\n" TAIL, 2, 11, "p4d.24xlarge"},
    {"UnknownDtype", HEAD "dtype: fp17\n" TAIL, 4, 8, "expected one of fp32, fp16"},
    {"UnknownPolicy", HEAD "scheduler: {policy: tgi2}\n" TAIL, 4, 21, "did you mean 'tgi'"},
    {"UnknownRouter", HEAD "deployment: {router: lor}\n" TAIL, 4, 22, "least_outstanding"},
    {"UnknownSchedulerKey", HEAD "scheduler: {MAX_BATCH_PREFIL_TOKENS: 1}\n" TAIL, 4, 13, "MAX_BATCH_PREFILL_TOKENS"},
    {"VariantOfAnotherPolicy", HEAD "scheduler: {policy: tgi, variant: chunked}\n" TAIL, 4, 35,
     "allowed for policy tgi: v1, v3"},
    {"SettingUnderTwoNames", HEAD "scheduler: {max_running: 4, MAX_BATCH_SIZE: 8}\n" TAIL, 4, 29,
     "both set max_running"},
    {"DegreeStatedTwice", HEAD "deployment: {tp: 2}\nscheduler: {NUM_SHARD: 4}\n" TAIL, 5, 24, "deployment states 2"},
    {"ImpossibleTp", HEAD "deployment: {tp: 3}\n" TAIL, 4, 18, "32 attention heads do not divide by tp 3"},
    {"TpBeyondTheInstance", HEAD "deployment: {tp: 16}\n" TAIL, 4, 18, "ml.p4d.24xlarge has 8"},
    {"TooFewInstances", HEAD "deployment: {tp: 8, replicas: 3, instances: 2}\n" TAIL, 4, 45, "need 3 instances"},
    {"ModelTooLarge", "model: llama-2-70b\nhardware: ml.p4d.24xlarge\nengine: tgi-1.1\ndeployment: {tp: 2}\n" TAIL, 4,
     18, "GB are missing"},
    {"LimitsThatContradict", HEAD "scheduler: {max_input: 200, max_total: 100}\n" TAIL, 4, 12, "max_input is 200"},
    {"MissingUnit", HEAD TAIL "limits: {timeout: 60}\n", 7, 19, "a unit is missing"},
    {"WrongUnit", HEAD TAIL "limits: {timeout: 60 GB}\n", 7, 19, "unknown unit 'GB'"},
    {"BareSwapSpace", HEAD "scheduler: {swap_space: 4}\n" TAIL, 4, 25, "a unit is missing"},
    {"ZeroTimeout", HEAD TAIL "limits: {timeout: 0 s}\n", 7, 19, "above 0"},
    {"RateWithoutUnit", HEAD "workload:\n  load: {poisson: {rate: 4}}\n  lengths: {input: 8, output: 8}\n", 5, 26,
     "a unit is missing"},
    {"NegativeRate", HEAD "workload:\n  load: {poisson: {rate: -4 /s}}\n  lengths: {input: 8, output: 8}\n", 5, 26,
     "negative"},
    {"ZeroRate", HEAD "workload:\n  load: {poisson: {rate: 0 /s}}\n  lengths: {input: 8, output: 8}\n", 5, 26,
     "above 0"},
    {"RateThatIsNoNumber", HEAD "workload:\n  load: {poisson: {rate: nan /s}}\n  lengths: {input: 8, output: 8}\n", 5,
     26, "finite"},
    {"HugeRate", HEAD "workload:\n  load: {poisson: {rate: 1e300 /s}}\n  lengths: {input: 8, output: 8}\n", 5, 26,
     "out of range"},
    {"ZeroConcurrency", HEAD "workload:\n  load: {closed_loop: {concurrency: 0}}\n  lengths: {input: 8, output: 8}\n",
     5, 37, "from 1 to"},
    {"NoConcurrency", HEAD "workload:\n  load: {closed_loop: {}}\n  lengths: {input: 8, output: 8}\n", 5, 23,
     "concurrency: 32"},
    {"TwoLoads",
     HEAD "workload:\n  load: {burst: {count: 1}, poisson: {rate: 1 /s}}\n  lengths: {input: 8, output: 8}\n", 5, 9,
     "exactly one of"},
    {"UnknownLoad", HEAD "workload:\n  load: {poison: {rate: 1 /s}}\n  lengths: {input: 8, output: 8}\n", 5, 10,
     "did you mean 'poisson'"},
    {"NoLengths", HEAD "workload:\n  load: {burst: {count: 1}}\n", 5, 3, "'lengths' is missing"},
    {"ZeroLength", HEAD "workload:\n  load: {burst: {count: 1}}\n  lengths: {input: 0, output: 8}\n", 6, 20,
     "from 1 to"},
    {"HugeLength", HEAD "workload:\n  load: {burst: {count: 1}}\n  lengths: {input: 1e300, output: 8}\n", 6, 20,
     "whole number"},
    {"LengthsUpsideDown",
     HEAD "workload:\n  load: {burst: {count: 1}}\n  lengths: {input: {uniform: {min: 9, max: 8}}, output: 8}\n", 6, 44,
     "below min 9"},
    {"RequestsThatAreNoNumber", HEAD TAIL "  requests: NaN\n", 7, 13, "whole number"},
    {"TraceThatIsAFolder", HEAD "workload:\n  load: {trace: {file: .}}\n", 5, 24, "is a directory"},
    {"TraceThatIsMissing", HEAD "workload:\n  load: {trace: {file: nowhere.csv}}\n", 5, 24, "nowhere.csv"},
    {"ScriptWithRequests", HEAD "workload:\n  load: {script: \"A:1+1\"}\n  requests: 3\n", 6, 13,
     "excludes 'requests'"},
    {"ScriptWithWarmup", HEAD "workload:\n  load: {script: \"A:1+1\"}\n  warmup: 3 s\n", 6, 11, "excludes 'warmup'"},
    {"ScriptThatIsNone", HEAD "workload:\n  load: {script: \"A:1\"}\n", 5, 18, "script"},
    {"TimeoutBelowOneNanosecond", HEAD TAIL "limits: {timeout: 1e-12 s}\n", 7, 19, "at least 1 ns"},
    {"MoreThanAllMemory", HEAD "scheduler: {mem_fraction: 1.5}\n" TAIL, 4, 27, "above 0 and at most 1"},
    {"PriceOfNoMonth", HEAD TAIL "price_date: 2025-13\n", 7, 13, "as in 2025-04"},
    {"ScriptOnTwoReplicas", HEAD "deployment: {replicas: 2}\nworkload:\n  load: {script: \"A:1+1\"}\n", 4, 24,
     "drives one replica"},
    {"ScriptThatScales",
     HEAD "deployment: {autoscaling: {max: 2, target: 1, start_up: 1 s}}\nworkload:\n  load: {script: \"A:1+1\"}\n", 4,
     27, "excludes 'autoscaling'"},
    {"ScriptThatFails",
     HEAD "deployment: {failures: {mean_time_between: 1 h, restart: 1 s}}\nworkload:\n  load: {script: \"A:1+1\"}\n", 4,
     24, "excludes 'failures'"},
    {"ScalingTooOften", HEAD "deployment: {autoscaling: {max: 2, target: 70, start_up: 5 min, period: 1 ns}}\n" TAIL, 4,
     73, "at least 1 ms"},
    {"FailuresTooOften", HEAD "deployment: {failures: {mean_time_between: 999 us, restart: 1 s}}\n" TAIL, 4, 44,
     "at least 1 ms"},
    {"MorePeriodsThanAnyRun",
     HEAD "deployment: {autoscaling: {max: 2, target: 70, start_up: 5 min, period: 1 ms}}\n"
          "workload:\n  load: {poisson: {rate: 1 /s}}\n  lengths: {input: 8, output: 8}\n  requests: 1000000\n",
     4, 27, "found 1000000000 autoscaling periods"},
    {"MoreFailuresThanAnyRun",
     HEAD "deployment: {replicas: 8, failures: {mean_time_between: 1 ms, restart: 0 s}}\n"
          "workload:\n  load: {poisson: {rate: 1 /s}}\n  lengths: {input: 8, output: 8}\n  requests: 1000000\n",
     4, 37, "found 8000000000 failures"},
    {"DtypeOfNoUnit", "model: llama-2-7b\nhardware: {accelerator: tpu-v5e, count: 1}\ndtype: fp32\n" TAIL, 3, 8,
     "no matrix multiplication in fp32"},
    {"LoopWithoutEnd",
     "engine: {constant: {prefill: 0 s, decode: 0 s}}\nworkload:\n  load: {closed_loop: {concurrency: 4}}\n"
     "  lengths: {input: 8, output: 8}\n  duration: 1 s\n",
     3, 3, "endlessly many requests"},
    {"MoreRequestsThanAnyRun", HEAD TAIL "  requests: 1000000000\n", 7, 13,
     "expected a whole number from 1 to 100000000"},
    {"GoodputWithoutUnit", HEAD TAIL "slo: {min_goodput: 3}\n", 7, 20, "a unit is missing"},
    {"SloWithoutUnit", HEAD TAIL "slo: {p95_ttft: 1}\n", 7, 17, "a unit is missing"},
    {"UnknownSlo", HEAD TAIL "slo: {p95_tttft: 1 s}\n", 7, 7, "did you mean 'p95_ttft'"},
    {"PercentileOf100", HEAD TAIL "slo: {p100_ttft: 1 s}\n", 7, 7, "unknown key"},
    {"ZeroReplications", HEAD TAIL "replications: 0\n", 7, 15, "from 1 to"},
    {"HugeSeed", HEAD TAIL "seed: 9007199254740993\n", 7, 7, "from 0 to 9007199254740991"},
    {"NegativeSeed", HEAD TAIL "seed: -1\n", 7, 7, "at least 0"},
    {"EmptySweep", HEAD TAIL "sweep: {deployment.tp: []}\n", 7, 24, "empty list"},
    {"SweptUnknownKey", HEAD TAIL "sweep: {deployment.tpp: [1]}\n", 7, 26, "did you mean 'tp'"},
    {"SweptIntoAWord", HEAD TAIL "sweep: {model.x: [1]}\n", 7, 19, "a map of 1 keys"},
    {"SweptBadValue", HEAD TAIL "sweep: {deployment.tp: [1, x]}\n", 7, 28, "whole number"},
    {"SweptShortcutOfAnotherLoad", HEAD TAIL "sweep: {workload.rate: [1 /s]}\n", 7, 25, "no rate"},
    {"SearchObjective", HEAD TAIL "search: {objective: cheap}\n", 7, 21, "expected one of cost"},
    {"SearchReplicasTwice", HEAD TAIL "search: {replicas: [1], instance_count: [1]}\n", 7, 20,
     "excludes replicas_per_instance"},
    {"SearchCountTwice", HEAD TAIL "search: {instance_count: [1, 1]}\n", 7, 30, "1 is listed twice"},
    {"SearchMaxTwice", HEAD TAIL "search: {replicas_per_instance: [max, max]}\n", 7, 39, "max is listed twice"},
    {"SearchUnknownKey", HEAD TAIL "search: {tps: [1]}\n", 7, 10, "did you mean 'tp'"},
    {"PriceOfNothing", HEAD "prices: {ml.p4d.25xlarge: 1}\n" TAIL, 4, 10, "p4d.24xlarge"},
    {"ScalingWithoutMost", HEAD "deployment: {autoscaling: {target: 70, start_up: 5 min}}\n" TAIL, 4, 27, "max"},
    {"ScalingBackwards", HEAD "deployment: {autoscaling: {min: 4, max: 2, target: 70, start_up: 5 min}}\n" TAIL, 4, 41,
     "below min"},
    {"ScalingMetric", HEAD "deployment: {autoscaling: {max: 2, target: 70, start_up: 5 min, metric: cpu}}\n" TAIL, 4,
     73, "expected one of invocations, concurrency"},
    {"FailuresWithoutRestart", HEAD "deployment: {failures: {mean_time_between: 24 h}}\n" TAIL, 4, 24, "restart"},
    {"ConstantWithBoth", "engine: {constant: {batch: 1 s, decode: 1 s}}\n" TAIL, 1, 28, "excludes"},
    {"NotAMap", "- 1\n- 2\n", 1, 1, "a map"},
    {"Empty", "", 1, 1, "empty"},
    {"Alias", "model: &a llama-2-7b\nstudy: *a\n", 1, 8, "anchors"},
};
INSTANTIATE_TEST_SUITE_P(All, BadStudyTest, ::testing::ValuesIn(kBadStudies),
                         [](const auto& bad) { return std::string(bad.param.name); });

TEST_F(StudyFolder, AMillionPointsAreTheLimit) {
  std::string values = "1";
  for (int i = 2; i <= 1001; ++i) values += "," + std::to_string(i);
  const std::string sweep = "sweep: {seed: [" + values + "], workload.requests: [" + values + "]}\n";
  try {
    static_cast<void>(read(std::string(kTinyStudy) + sweep));
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.where().line, 8U);
    EXPECT_THAT(error.text(), ::testing::HasSubstr("more than 1000000 points"));
  }
}

TEST_F(StudyFolder, AnOverrideIsNamedInItsError) {
  const auto message = [this](const char* path, const char* value) -> std::string {
    try {
      static_cast<void>(read(kTinyStudy, {{path, value}}));
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(message("deployment.tp", "x"), "--set deployment.tp=x: found 'x', expected a whole number");
  EXPECT_THAT(message("deployment.tpp", "1"), ::testing::StartsWith("--set deployment.tpp=1: unknown key 'tpp'"));
}

}  // namespace
}  // namespace plimsoll::study
