// SPDX-License-Identifier: Apache-2.0
// Measured points end to end, with real threads and the real clock, on a device whose tokens are easy to check. The
// tests check nothing that depends on the speed of the machine.
#include "exec/live/measure_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>

#include "exec/live/step_workers.h"
#include "model/error.h"
#include "sim/simulate.h"
#include "tests/exec/chain_device.h"
#include "tests/sim/random_scenarios.h"

namespace plimsoll::exec {
namespace {

using sim::testing::PolicyCase;
using testing::ChainDevice;
using ::testing::HasSubstr;

struct Machine {
  explicit Machine(const load::Scenario& s) {
    for (std::int32_t i = 0; i < s.replicas; ++i) {
      devices.emplace_back(s.kv.blocks, s.kv.block_tokens, replicas.sequences);
      replicas.devices.push_back(&devices.back());
    }
  }
  LiveReplicas replicas{.devices = {}, .sequences = 32, .sampling = {}};
  std::deque<ChainDevice> devices;
  PromptSource prompts{5, testing::kVocabulary};
};

load::Scenario small_scenario(const PolicyCase& policy, std::uint64_t seed) {
  load::Scenario s = sim::testing::random_scenario(policy, seed);
  s.kv.block_tokens = 16;
  s.kv.blocks = 48;
  s.policy.model_max_len = 256;
  s.replicas = 1;
  s.limits = {};
  return s;
}

std::vector<load::ScriptRequest> random_script(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<load::ScriptRequest> requests;
  std::int64_t step = 1;
  for (int i = 0; i < 24; ++i) {
    step += static_cast<std::int64_t>(random() % 12);
    const auto output = static_cast<std::int32_t>(1 + random() % 60);
    requests.push_back({"Q" + std::to_string(i), static_cast<std::int32_t>(1 + random() % 150), output,
                        output + static_cast<std::int32_t>(random() % 2 * 20), step});
  }
  return requests;
}

class ServeTest : public ::testing::TestWithParam<PolicyCase> {};

// The pool holds five of the longest requests, so policies that can preempt will do so.
TEST_P(ServeTest, AScriptIsDecidedAsInTheSimulator) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    load::Scenario s = small_scenario(GetParam(), seed);
    s.workload.load = load::Script{random_script(seed)};
    sched::RunOptions options;
    options.keep_log = options.keep_requests = true;
    Machine machine(s);
    const sched::RunResult measured = measure_point(s, machine.replicas, machine.prompts, options);
    const sched::RunResult simulated = sim::simulate(s, options);
    ASSERT_EQ(measured.logs, simulated.logs) << "seed " << seed;
    ASSERT_EQ(measured.requests.size(), 24U);
    EXPECT_EQ(measured.metrics.preemptions, simulated.metrics.preemptions);
    EXPECT_EQ(measured.steps_run, simulated.steps_run);
  }
}

// Six blocks of four tokens: some steps only preempt, and the worker must be told which blocks that freed.
TEST_P(ServeTest, ATightPoolIsDecidedAsInTheSimulator) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    load::Scenario s = small_scenario(GetParam(), seed);
    s.kv.block_tokens = 4;
    s.kv.blocks = 6;
    s.policy.model_max_len = 64;
    s.policy.max_running = 5;
    std::vector<load::ScriptRequest> requests;
    std::mt19937_64 random(seed);
    for (int i = 0; i < 8; ++i)
      requests.push_back({std::string(1, static_cast<char>('A' + i)), static_cast<std::int32_t>(1 + random() % 20),
                          static_cast<std::int32_t>(1 + random() % 9), 12,
                          static_cast<std::int64_t>(1 + random() % 8)});
    s.workload.load = load::Script{requests};
    sched::RunOptions options;
    options.keep_log = true;
    Machine machine(s);
    ASSERT_EQ(measure_point(s, machine.replicas, machine.prompts, options).logs, sim::simulate(s, options).logs)
        << "seed " << seed;
  }
}

std::string write_events(const std::string& text) {
  const std::string file =
      (std::filesystem::temp_directory_path() / ("plimsoll-events-" + std::to_string(::getpid()))).string();
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

// Several replicas, time-outs that cancel, retries: whatever the timing was, replaying the events leads to the same
// decisions.
TEST_P(ServeTest, ALiveRunIsReproducedFromItsEvents) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    load::Scenario s = small_scenario(GetParam(), seed);
    s.workload.load = seed % 2 == 0 ? load::LoadSpec(load::Poisson{20'000}) : load::LoadSpec(load::Burst{60});
    const auto lengths = [](std::int32_t most) {
      return load::LengthDistribution{load::LengthFamily::uniform, 0, 0, 1, most};
    };
    s.workload.lengths = load::IndependentLengths{lengths(120), lengths(60)};
    s.workload.requests = 60;
    s.workload.prefix = {3, 64};
    s.kv.prefix_caching = seed > 2;
    s.replicas = seed == 2 ? 2 : 1;
    if (seed == 4) s.limits = {.timeout = Seconds(0.002), .cancel_on_timeout = true, .retries = 0};
    sched::RunOptions options;
    options.keep_log = true;
    Machine machine(s);
    const sched::RunResult measured = measure_point(s, machine.replicas, machine.prompts, options);
    const std::string file = write_events(measured.events);
    EXPECT_EQ(sim::replay(file, s), measured.logs) << "seed " << seed;
    std::filesystem::remove(file);
  }
}
INSTANTIATE_TEST_SUITE_P(Policies, ServeTest, ::testing::ValuesIn(sim::testing::kPolicyCases), sim::testing::case_name);

load::Scenario closed_loop(std::int32_t users, std::int64_t requests) {
  load::Scenario s = small_scenario({sched::PolicyKind::vllm_v1, sched::PolicyVariant::standard}, 1);
  s.policy = {};
  s.policy.policy = sched::PolicyKind::vllm_v1;
  s.workload.load = load::ClosedLoop{users, Seconds(0)};
  s.workload.lengths = load::IndependentLengths{load::FixedLength{20}, load::FixedLength{10}};
  s.workload.requests = requests;
  return s;
}

TEST(Serve, AClosedLoopServesEveryRequestInOrder) {
  load::Scenario s = closed_loop(4, 50);
  s.replicas = 2;
  Machine machine(s);
  sched::RunOptions options;
  options.keep_requests = options.keep_steps = true;
  const sched::RunResult measured = measure_point(s, machine.replicas, machine.prompts, options);
  ASSERT_EQ(measured.failure, "");
  const sched::PointMetrics& m = measured.metrics;
  EXPECT_EQ(m.requests_completed, 50);
  EXPECT_DOUBLE_EQ(m.output_tokens_per_s, 500 / m.duration_s);
  EXPECT_LE(m.in_system_mean, 4.0 + 1e-9) << "four users have at most four requests in the system";
  ASSERT_EQ(measured.requests.size(), 50U);
  for (const sched::RequestRow& row : measured.requests) {
    EXPECT_LE(row.arrival, row.dispatched);  // the intended time comes first
    EXPECT_LT(row.dispatched, row.first_token);
    EXPECT_LT(row.first_token, row.end);
    EXPECT_EQ(row.generated, 10);
  }
  for (std::int32_t replica = 0; replica < 2; ++replica) {
    Nanos last = 0;
    for (const sched::StepRow& step : measured.steps) {
      if (step.replica != replica) continue;
      EXPECT_LE(last, step.start);
      EXPECT_LE(step.start, step.end);
      last = step.end;
    }
    EXPECT_GT(last, 0) << "the router uses both replicas";
  }
}

// The parts of the latency: queueing before the first step, and the host's and the device's share of the steps.
TEST(Serve, TimesAddUpToTheLatency) {
  const load::Scenario s = closed_loop(3, 30);
  Machine machine(s);
  const sched::PointMetrics m = measure_point(s, machine.replicas, machine.prompts, {}).metrics;
  EXPECT_GE(m.time_host_s, 0);
  EXPECT_GE(m.time_queue_s, 0);
  EXPECT_EQ(m.time_kv_s, 0) << "what the device does inside a step is not known";
  EXPECT_NEAR(m.time_host_s + m.time_queue_s + m.time_other_s + m.time_preempt_s, m.latency.mean.value(), 1e-9);
}

TEST(Serve, AFailureKeepsWhatWasMeasured) {
  const load::Scenario s = closed_loop(1, 50);
  Machine machine(s);
  machine.devices[0].forwards_to_failure = 35;  // a request has ten forwards, so three are served
  sched::RunOptions options;
  options.keep_requests = options.keep_log = true;
  const sched::RunResult measured = measure_point(s, machine.replicas, machine.prompts, options);
  EXPECT_EQ(measured.failure, "the device is gone");
  EXPECT_TRUE(measured.stopped);
  EXPECT_EQ(measured.requests.size(), 3U);
  EXPECT_THAT(measured.logs.at(0), HasSubstr("\n34: D[r3]\n"));
  EXPECT_THAT(measured.events, HasSubstr("\"event\":\"end\""));
}

load::Scenario script_of(std::vector<load::ScriptRequest> requests) {
  load::Scenario s = closed_loop(1, 1);
  s.workload.load = load::Script{.requests = std::move(requests), .step = 1};
  return s;
}

TEST(Serve, AScriptThatFailsKeepsWhatWasMeasured) {
  const load::Scenario s = script_of({{"A", 20, 3, 3, 1}, {"B", 20, 10, 10, 1}});
  Machine machine(s);
  machine.devices[0].forwards_to_failure = 6;  // A ends in the third forward
  sched::RunOptions options;
  options.keep_requests = options.keep_log = options.keep_steps = true;
  const sched::RunResult measured = measure_point(s, machine.replicas, machine.prompts, options);
  EXPECT_EQ(measured.failure, "the device is gone");
  EXPECT_TRUE(measured.stopped);
  ASSERT_EQ(measured.requests.size(), 1U);
  EXPECT_EQ(measured.requests[0].name, "A");
  EXPECT_EQ(measured.logs.size(), 1U);
  EXPECT_GE(measured.steps.size(), 5U);
}

// A run regularly checks for a stop request, even if its progress is unknown.
TEST(Serve, StopsALoadOfGivenDuration) {
  load::Scenario s = closed_loop(4, 0);
  s.workload.duration = Seconds(3600);
  Machine machine(s);
  std::stop_source stop;
  sched::RunOptions options;
  options.stop = stop.get_token();
  options.progress = [&](double fraction) {
    EXPECT_EQ(fraction, 0);
    stop.request_stop();
  };
  EXPECT_TRUE(measure_point(s, machine.replicas, machine.prompts, options).stopped);  // otherwise it takes an hour
}

TEST(Serve, StopsAScript) {
  const load::Scenario s = script_of({{"A", 20, 1, 1, 1}, {"B", 20, 1, 1, 100}, {"C", 20, 1, 1, 200}});
  Machine machine(s);
  std::stop_source stop;
  sched::RunOptions options;
  options.stop = stop.get_token();
  options.keep_requests = true;
  options.progress = [&](double fraction) {
    if (fraction > 0) stop.request_stop();
  };
  const sched::RunResult measured = measure_point(s, machine.replicas, machine.prompts, options);
  EXPECT_TRUE(measured.stopped);
  EXPECT_EQ(measured.requests.size(), 1U);
}

TEST(Serve, StopsBetweenSteps) {
  const load::Scenario s = closed_loop(4, 1'000'000);
  Machine machine(s);
  std::stop_source stop;
  sched::RunOptions options;
  options.stop = stop.get_token();
  options.keep_requests = true;
  int calls = 0;
  options.progress = [&](double) {
    if (++calls == 2) stop.request_stop();
  };
  const sched::RunResult measured = measure_point(s, machine.replicas, machine.prompts, options);
  EXPECT_TRUE(measured.stopped);
  EXPECT_EQ(measured.failure, "");
  EXPECT_GT(measured.requests.size(), 0U);
}

// Nothing can be served within a nanosecond: every client gives up, and the engine drops its request.
TEST(Serve, TimeOutsCancel) {
  load::Scenario s = closed_loop(8, 40);
  s.limits = {.timeout = Seconds(1e-9), .cancel_on_timeout = true, .retries = 0};
  Machine machine(s);
  const sched::RunResult measured = measure_point(s, machine.replicas, machine.prompts, {});
  EXPECT_EQ(measured.metrics.requests_timed_out, 40);
  EXPECT_EQ(measured.metrics.requests_completed, 0);
}

TEST(Serve, AWarmUpLeavesTheBlocksToTheRun) {
  const load::Scenario s = closed_loop(4, 20);
  Machine machine(s);
  warm_up(s, machine.replicas, machine.prompts);
  EXPECT_GT(machine.devices[0].forwards, 2);
  EXPECT_EQ(measure_point(s, machine.replicas, machine.prompts, {}).metrics.requests_completed, 20);
}

// ---- workers ------------------------------------------------------------------------------------------------

StepOrder decode_order(int inflight, std::int64_t steps) {
  StepOrder order;
  OrderForward prefill;
  for (ReqId id = 0; id < 3; ++id) {
    order.changes.push_back(
        {.opens = true, .request = {.id = id, .serial = id, .input = 5, .prefix_hashes = {}, .hash_block_tokens = 0}});
    order.kv.push_back({.kind = sched::KvOp::Kind::reserve, .id = id, .tokens = 5 + steps});
    prefill.prefill.push_back({.id = id, .new_tokens = 5, .context = 0, .emits = true});
  }
  order.forwards.push_back(prefill);
  order.inflight = inflight;
  return order;
}

std::vector<StepReport> run_order(StepWorkers& workers, StepOrder order) {
  std::vector<StepReport> reports;
  workers.submit(0, std::move(order));
  while (reports.empty() || !reports.back().last) (void)workers.wait(sched::kNever, reports);
  return reports;
}

// The work that a GPU does at the first and second run of a size happens on every replica before the measurement.
TEST(Serve, AWarmUpRunsEveryRecordedSizeTwiceAndAWholeStepOfPrefill) {
  load::Scenario s = closed_loop(5, 20);
  s.replicas = 2;
  s.policy.step_token_budget = 200;
  s.kv.blocks = 100;
  Machine machine(s);
  for (ChainDevice& device : machine.devices) device.buckets = {1, 2, 4, 8, 16};
  warm_up(s, machine.replicas, machine.prompts);
  const std::map<std::size_t, int> twice{{1, 2}, {2, 2}, {4, 2}, {5, 2}};  // five rows use the bucket of 8
  for (const ChainDevice& device : machine.devices) {
    EXPECT_EQ(device.decodes, twice);
    EXPECT_EQ(device.most_prefilled, 200);
  }
}

// Products are timed at the first forward of 16, 64 and 256 rows. A step has up to 100, and the model takes prompts of
// 60 tokens, so the largest consists of two.
TEST(Serve, AWarmUpPrefillsEveryNumberOfRowsAtWhichProductsAreTimed) {
  load::Scenario s = closed_loop(5, 20);
  s.policy.step_token_budget = 100;
  s.kv.blocks = 100;
  auto shape = std::make_shared<model::LlmShape>(*s.shape);
  shape->max_position = 60;
  s.shape = shape;
  Machine machine(s);
  machine.devices[0].buckets = {1};
  machine.devices[0].tuned = {16, 64, 256, 1024};
  warm_up(s, machine.replicas, machine.prompts);
  EXPECT_EQ(machine.devices[0].prefills.count(16), 1U);
  EXPECT_EQ(machine.devices[0].prefills.count(64), 1U);
  EXPECT_EQ(machine.devices[0].prefills.count(100), 1U);
  EXPECT_EQ(machine.devices[0].most_prefilled, 100);
}

TEST(StepWorkers, RunAheadAsFarAsThePolicyAllows) {
  for (const int inflight : {1, 2}) {
    ChainDevice device(64, 16, 8);
    const PromptSource prompts(3, testing::kVocabulary);
    const StepBuilderConfig config{
        .kv = {.blocks = 64, .block_tokens = 16, .prefix_caching = false}, .sequences = 8, .sampling = {}};
    StepWorkers workers({&device}, config, prompts);
    std::map<std::uint64_t, std::vector<std::int32_t>> tokens;
    workers.builder(0).on_token = [&](std::uint64_t serial, std::int32_t token) { tokens[serial].push_back(token); };
    workers.start_clock();
    EXPECT_EQ(run_order(workers, decode_order(inflight, 100)).size(), 1U);
    StepOrder decodes;
    decodes.forwards.push_back({.prefill = {}, .decode = {0, 1, 2}, .dead = {}, .padded = 0});
    decodes.steps = 100;
    decodes.inflight = inflight;
    const std::vector<StepReport> reports = run_order(workers, decodes);
    EXPECT_EQ(device.most_in_flight, static_cast<std::size_t>(inflight));
    ASSERT_EQ(reports.size(), 100U);
    for (std::size_t i = 0; i < reports.size(); ++i) {
      EXPECT_EQ(reports[i].last, i == 99);
      EXPECT_LE(reports[i].span.start, reports[i].span.end);
      EXPECT_LE(reports[i > 0 ? i - 1 : 0].span.end, reports[i].span.end);
    }
    for (std::uint64_t serial = 0; serial < 3; ++serial) {
      std::vector<std::int32_t> prompt;
      prompts.append({.serial = serial, .input = 5, .prefix_hashes = {}}, prompt);
      EXPECT_EQ(tokens[serial], testing::continuation(prompt, 101));
    }
  }
}

TEST(StepWorkers, AnOrderEndsAtTheFirstBoundaryAfterItsWakeUp) {
  ChainDevice device(64, 16, 8);
  const PromptSource prompts(3, testing::kVocabulary);
  StepWorkers workers(
      {&device}, {.kv = {.blocks = 64, .block_tokens = 16, .prefix_caching = false}, .sequences = 8, .sampling = {}},
      prompts);
  workers.start_clock();
  (void)run_order(workers, decode_order(1, 100));
  StepOrder decodes;
  decodes.forwards.push_back({.prefill = {}, .decode = {0, 1, 2}, .dead = {}, .padded = 0});
  decodes.steps = 100;
  decodes.wake_at = 0;  // this time has passed
  EXPECT_EQ(run_order(workers, decodes).size(), 1U);
}

}  // namespace
}  // namespace plimsoll::exec
