// SPDX-License-Identifier: Apache-2.0
// Random studies that combine every feature with every other, read and run like a user's file. Invalid studies are
// refused with the place. Runs must have consistent results, whether by steps or leaps and on any number of threads.
// The cases are few and fixed; RC_PARAMS="seed=7 max_success=5000" draws others.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include "study/output/metrics_record.h"
#include "study/run/run_study.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

constexpr std::size_t kTraceRows = 25;

/// Draws the text of a study. std::mt19937_64 is the same on every platform, and so are these integer draws.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  std::string study() {
    text_.clear();
    const bool constant = one_in(6);
    add("engine",
        constant ? pick({"{constant: {prefill: 20 ms, decode: 10 ms}}", "{constant: {prefill: 0 s, decode: 0 s}}"})
                 : pick({"ideal", "vllm-0.12", "vllm-0.6", "tgi-1.1", "sglang-0.5", "trtllm-1.0", "lmi-dist-0.24"}));
    if (!constant || one_in(2)) {
      add("model", pick({"llama-2-7b", "llama-3.1-8b", "mistral-7b-v0.1", "mixtral-8x7b-v0.1", "opt-125m"}));
      add("hardware", pick({"{accelerator: h100-sxm, count: 4}", "{accelerator: a100-sxm-80gb, count: 8}", "g6e.xlarge",
                            "ml.p4d.24xlarge"}));
      if (one_in(5)) add("dtype", pick({"fp16", "bf16", "fp8", "int8", "int4", "fp32"}));
    }
    deployment();
    scheduler(constant);
    if (one_in(5)) add("engine_graphs", pick({"vllm", "[1, 2, 4, 8, 64]", "off"}));
    workload();
    if (one_in(3)) limits();
    if (one_in(3))
      add("slo",
          pick({"{p99_ttft: 1 s}", "{p90_latency: 4 s, p99_tpot: 20 ms}", "{p50_itl: 20 ms, min_goodput: 2 /s}"}));
    if (one_in(5)) add("replications", pick({"2", "3"}));
    add("seed", std::to_string(random_() % 1000));
    if (one_in(3))
      add("sweep", pick({"{deployment.tp: [1, 2, 3]}", "{deployment.replicas: [1, 2]}",
                         "{deployment.router: [random, least_kv]}", "{dtype: [fp16, fp32]}",
                         "{scheduler.max_running: [2, 8]}"}));
    return text_;
  }

 private:
  bool one_in(std::uint64_t n) { return random_() % n == 0; }
  std::string pick(std::initializer_list<const char*> values) { return values.begin()[random_() % values.size()]; }
  void add(const std::string& key, const std::string& value) { text_ += key + ": " + value + "\n"; }

  // Returns members of a map, each with a probability of one in `n`.
  std::string some(std::uint64_t n,
                   std::initializer_list<std::pair<const char*, std::initializer_list<const char*>>> members) {
    std::string map;
    for (const auto& [key, values] : members) {
      if (one_in(n)) map += (map.empty() ? "" : ", ") + std::string(key) + ": " + pick(values);
    }
    return map;
  }

  void deployment() {
    std::string map = some(2, {{"tp", {"1", "1", "2", "4"}},
                               {"replicas", {"1", "2", "3"}},
                               {"pp", {"1", "1", "1", "2"}},
                               {"router",
                                {"round_robin", "random", "least_outstanding", "power_of_two", "session", "prefix",
                                 "least_kv", "least_tokens", "scored", "dynamo", "kv_aware", "prefix_trie", "vllm_dp",
                                 "{policy: scored, active: 1, no_hit_lru: 1, stale: 0 s}",
                                 "{policy: dynamo, overlap: 2, temperature: 0.5}", "{policy: vllm_dp, stale: 1 s}"}}});
    if (one_in(3)) {
      map += (map.empty() ? "" : ", ") + std::string("failures: {mean_time_between: ") + pick({"1 s", "4 s", "50 ms"}) +
             ", restart: " + pick({"0 s", "300 ms", "2 s"}) + "}";
    }
    if (one_in(3)) {
      map += (map.empty() ? "" : ", ") + std::string("autoscaling: {max: ") + pick({"1", "2", "4"}) +
             ", metric: " + pick({"concurrency, target: 3", "invocations, target: 60"}) +
             ", start_up: " + pick({"0 s", "500 ms"}) + ", period: " + pick({"1 ms", "250 ms", "1 s"}) +
             ", out_points: " + pick({"1", "3"}) + ", in_time: " + pick({"0 s", "1 s", "100 h"}) +
             ", scale_in_cooldown: 1 s, scale_out_cooldown: " + pick({"0 s", "1 s"}) + "}";
    }
    if (!map.empty()) add("deployment", "{" + map + "}");
  }

  void scheduler(bool constant) {
    std::string map;
    if (constant || one_in(2)) {
      map = "policy: " + pick({"none", "static", "dynamic", "rolling", "orca", "tgi", "vllm_v0", "vllm_v1", "sarathi",
                               "trtllm", "sglang", "llama_cpp"});
    }
    const std::string more = some(4, {{"max_running", {"1", "3", "16"}},
                                      {"kv_blocks", {"60", "200", "5000"}},
                                      {"block_size", {"1", "16"}},
                                      {"step_token_budget", {"64", "512"}},
                                      {"prefix_caching", {"true", "false"}},
                                      {"preemption", {"swap", "recompute"}},
                                      {"batch_size", {"2", "5"}},
                                      {"max_concurrent", {"2", "20"}},
                                      {"max_total", {"300", "2000"}},
                                      {"max_input", {"100", "1500"}},
                                      {"max_queue", {"3", "50"}}});
    if (!more.empty()) map += (map.empty() ? "" : ", ") + more;
    if (!map.empty()) add("scheduler", "{" + map + "}");
  }

  void workload() {
    if (one_in(12)) {
      add("workload", "{load: {script: \"A:6+3@1 B:5+4/8 C:40+2@3\"}}");
      return;
    }
    const std::string load =
        pick({"closed_loop: {concurrency: 4}", "closed_loop: {concurrency: 20, think: 100 ms}", "poisson: {rate: 5 /s}",
              "poisson: {rate: 60 /s}", "gamma: {rate: 20 /s, cv: 3}", "constant: {rate: 10 /s}", "burst: {count: 25}",
              "jumpstart: {concurrency: 6}", "trace: {file: rows.jsonl}", "trace: {file: bare.jsonl, rate_scale: 3}",
              "trace: {file: rows.jsonl, turns: after_answers}", "trace: {file: agents.jsonl}",
              "sessions: {concurrency: 5, turns: 3, first: 200, added: 40, output: 20}",
              "sessions: {concurrency: 8, turns: {geometric: {mean: 4}}, think: {exponential: {mean: 300 ms}}, first: "
              "100, added: {lognormal: {mean: 50, cv: 1}}, output: 10, tools: {share: 0.5, gap: 20 ms, added: 90}, "
              "longest: 700}",
              "sessions: {rate: 4 /s, cv: 2, turns: 2, think: 1 s, first: 64, added: 16, output: 8, count: 9}"});
    std::string map = "load: {" + load + "}";
    const bool own_lengths = load.starts_with("sessions") || load.find("after") != std::string::npos ||
                             load.find("agents") != std::string::npos;
    if (!own_lengths && (!load.starts_with("trace") || one_in(3))) {
      map += ", lengths: " +
             pick({"{input: 40, output: 20}",
                   "{input: {lognormal: {mean: 200, cv: 1, max: 900}}, output: {geometric: {mean: 30, max: 200}}}",
                   "{input: {uniform: {min: 1, max: 400}}, output: 1}", "{trace: rows.jsonl}"});
    }
    map += ", requests: " + pick({"1", "25", "25"});
    const std::string more =
        some(5, {{"warmup", {"500 ms", "3 s"}},
                 {"duration", {"2 s", "30 s"}},
                 {"prefix", {"{groups: 2, tokens: 64}"}},
                 {"priorities", {"{0: 0.5, 3: 0.5}", "[{value: 0, share: 1}, {value: 9, share: 2}]"}}});
    if (!more.empty()) map += ", " + more;
    add("workload", "{" + map + "}");
  }

  void limits() {
    add("limits", "{timeout: " + pick({"50 ms", "1 s", "5 s"}) + ", cancel_on_timeout: " + pick({"true", "false"}) +
                      ", retries: " + pick({"0", "1", "4"}) + "}");
  }

  std::mt19937_64 random_;
  std::string text_;
};

struct Outcome {
  std::string csv;  // all points
  std::map<std::size_t, FinishedPoint> points;
};

Outcome run(const Study& study, int jobs, bool stepwise) {
  RunSettings settings;
  settings.jobs = jobs;
  settings.stepwise = stepwise;
  settings.keep_requests = settings.keep_decisions = true;
  Outcome outcome;
  settings.on_point = [&outcome](FinishedPoint& point) { outcome.points[point.result.index] = point; };
  const StudyResult result = run_study(study, settings);
  outcome.csv = points_csv(study.swept_keys(), result.points);
  return outcome;
}

void expect_figures(const PointResult& point) {
  if (!point.metrics) {
    EXPECT_FALSE(point.infeasible.empty());
    return;
  }
  const std::vector<std::string> columns = point_columns(std::vector<std::string>(point.swept.size()));
  const std::vector<Cell> cells = point_row(point);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (const auto* number = std::get_if<double>(&cells[i])) {
      EXPECT_GE(*number, -1e-9) << columns[i];
    } else if (const auto* count = std::get_if<std::int64_t>(&cells[i])) {
      EXPECT_GE(*count, 0) << columns[i];
    }
  }
  sched::PointMetrics metrics = *point.metrics;
  metrics.slo_values.clear();                          // infinite if requests failed
  const std::string record = metrics_record(metrics);  // covers all fields; cells are blank if a figure is not a number
  EXPECT_EQ(record.find("nan"), std::string::npos) << record;
  EXPECT_EQ(record.find("inf"), std::string::npos) << record;
  EXPECT_LE(metrics.kv_used_peak, 1 + 1e-9);
}

// Each request ends once, with its times in order, and the counts match the requests that ended.
void expect_books(const FinishedPoint& point, bool counts_all) {
  std::map<sched::Outcome, std::int64_t> ends;
  for (std::size_t i = 0; i < point.run.requests.size(); ++i) {
    const sched::RequestRow& row = point.run.requests[i];
    EXPECT_EQ(row.id, i);
    ++ends[row.outcome];
    EXPECT_LE(0, row.arrival);
    EXPECT_LE(row.arrival, row.end);
    EXPECT_LE(row.arrival, row.dispatched);
    if (row.first_token >= 0) {
      EXPECT_LE(row.dispatched, row.first_token);
      EXPECT_LE(row.first_token, row.end);
    }
    EXPECT_LE(row.generated, row.output);
    if (row.outcome == sched::Outcome::completed) {
      EXPECT_EQ(row.generated, row.output);
    }
  }
  if (!counts_all) return;
  const sched::PointMetrics& m = *point.result.metrics;
  EXPECT_EQ(m.requests_completed, ends[sched::Outcome::completed]);
  EXPECT_EQ(m.requests_rejected, ends[sched::Outcome::rejected]);
  EXPECT_EQ(m.requests_timed_out, ends[sched::Outcome::timed_out]);
  // Engines may work on for clients that gave up, but outside the means; only leaving replicas of a fleet count.
  if (!m.replica_s) {
    EXPECT_LE(m.kv_used_mean + m.kv_wasted_mean, 1 + 1e-9);
  }
}

void expect_close(Nanos a, Nanos b) {
  EXPECT_LE(std::abs(static_cast<double>(a - b)), std::max(2.0, 1e-9 * static_cast<double>(a)));
}

void expect_steps(const FinishedPoint& leaps, const FinishedPoint& steps) {
  EXPECT_EQ(leaps.run.logs, steps.run.logs);
  ASSERT_EQ(leaps.run.requests.size(), steps.run.requests.size());
  for (std::size_t i = 0; i < leaps.run.requests.size(); ++i) {
    const sched::RequestRow &a = leaps.run.requests[i], &b = steps.run.requests[i];
    EXPECT_EQ(a.outcome, b.outcome);
    EXPECT_EQ(a.generated, b.generated);
    EXPECT_EQ(a.replica, b.replica);
    expect_close(a.first_token, b.first_token);
    expect_close(a.end, b.end);
  }
  const auto near = [](double a, double b, const char* what) {
    EXPECT_NEAR(a, b, std::max(2e-9, 1e-9 * std::abs(a))) << what;
  };
  const sched::PointMetrics &m = *leaps.result.metrics, &n = *steps.result.metrics;
  near(m.batch_mean, n.batch_mean, "batch_mean");
  near(m.kv_used_mean, n.kv_used_mean, "kv_used_mean");
  near(m.kv_used_peak, n.kv_used_peak, "kv_used_peak");
  near(m.itl.mean.value_or(0), n.itl.mean.value_or(0), "itl");
  near(m.time_kv_s, n.time_kv_s, "time_kv_s");
  near(m.time_weights_s, n.time_weights_s, "time_weights_s");
  EXPECT_EQ(m.preemptions, n.preemptions);
  EXPECT_EQ(m.steady.verdict, n.steady.verdict);
}

class FeatureCross : public StudyFolder {
 protected:
  FeatureCross() {
    std::string rows, bare;
    for (std::size_t i = 0; i < kTraceRows; ++i) {
      const std::size_t input = 100 + 512 * (i % 3), output = 1 + i % 40;
      std::string row = "{\"timestamp\": " + std::to_string(90 * i) + ", \"input_length\": " + std::to_string(input) +
                        ", \"output_length\": " + std::to_string(output);
      bare += row + "}\n";
      row += ", \"hash_ids\": [";
      for (std::size_t block = 0; block <= i % 3; ++block)
        row += (block > 0 ? ", " : "") + std::to_string(block < 2 ? block : i + 10);
      rows += row + "]}\n";
    }
    std::string agents;
    const std::string first = "{\"input_toks\": 120, \"output_toks\": 9, \"tool_duration_ns\": 5000000}",
                      others = ", {\"input_toks\": 200, \"output_toks\": 4}, {\"input_toks\": 90, \"output_toks\": 4}";
    for (int i = 0; i < 5; ++i)
      agents +=
          "{\"arrival_time_ns\": " + std::to_string(i) + "00000000, \"sub_requests\": [" + first + others + "]}\n";
    write("agents.jsonl", agents);
    write("rows.jsonl", rows);
    write("bare.jsonl", bare);
  }

  // Returns false if the study was refused.
  bool check(const std::string& yaml) const {
    try {
      const Study study = read(yaml);
      const Outcome leaps = run(study, 1, false), threads = run(study, 2, false), steps = run(study, 1, true);
      EXPECT_EQ(leaps.csv, threads.csv);
      const bool counts_all =
          yaml.find("warmup") == std::string::npos && yaml.find("replications") == std::string::npos;
      for (const auto& [index, point] : leaps.points) {
        expect_figures(point.result);
        if (!point.result.metrics) continue;
        expect_books(point, counts_all);
        expect_steps(point, steps.points.at(index));
      }
    } catch (const InputError& error) {
      EXPECT_FALSE(error.where().file.empty()) << error.what();
      EXPECT_FALSE(error.text().empty());
      return false;
    }
    return true;
  }
};

RC_GTEST_FIXTURE_PROP(FeatureCross, EveryStudyIsRefusedOrKeepsTheBooks, ()) {
  const std::string yaml = Draw(*rc::gen::noShrink(rc::gen::arbitrary<std::uint64_t>())).study();
  RC_CLASSIFY(check(yaml), "ran");
  if (HasFailure()) RC_FAIL(yaml);
}

// A decision ends the last request, while the engine works on for clients that have given up. With leaps and with
// steps, the measured time must end there, and not at the next event.
TEST_F(FeatureCross, TheMeasuredTimeEndsWithTheDecisionThatEndsTheRun) {
  EXPECT_TRUE(
      check("engine: vllm-0.6\nmodel: llama-2-7b\nhardware: {accelerator: h100-sxm, count: 4}\n"
            "deployment: {replicas: 3, autoscaling: {max: 2, metric: concurrency, target: 3, start_up: 500 ms, period: "
            "250 ms, out_points: 1, in_time: 0 s, scale_in_cooldown: 1 s, scale_out_cooldown: 0 s}}\n"
            "scheduler: {step_token_budget: 64, prefix_caching: false, max_concurrent: 2, max_total: 2000}\n"
            "workload: {load: {poisson: {rate: 60 /s}}, lengths: {input: {lognormal: {mean: 200, cv: 1, max: 900}}, "
            "output: {geometric: {mean: 30, max: 200}}}, requests: 25, warmup: 3 s}\n"
            "limits: {timeout: 50 ms, cancel_on_timeout: false, retries: 1}\nreplications: 2\nseed: 247\n"));
}

// If most studies were refused, the property above would prove little.
TEST_F(FeatureCross, MostStudiesRun) {
  int ran = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) ran += check(Draw(seed).study()) ? 1 : 0;
  EXPECT_GT(ran, 20);
}

}  // namespace
}  // namespace plimsoll::study
