// SPDX-License-Identifier: Apache-2.0
// A prefill pool in another process: its KV crosses a socket, and the answers are those of one pool.
#include "exec/group/engine_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <mutex>

#include "exec/live/live_engines.h"
#include "exec/live/measure_point.h"
#include "model/error.h"
#include "sim/simulate.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/sequences.h"
#include "tests/scratch.h"
#include "tests/sim/random_pools.h"

namespace plimsoll::exec::group {
namespace {

using ::testing::HasSubstr;

OpenModel open_tiny_model(const EngineOrder& order) {
  if (order.model == "missing") throw InputError("no such model");
  const model::Architecture architecture = tiny_model(order.model);
  return {architecture, random_weights(architecture, order.seed), "a test"};
}

/// Starts serve_engines() in a child of this process.
class Child {
 public:
  EngineProcess::Start start(const std::optional<model::CpuTuning>& tuning = {},
                             const OpenOrder& open = open_tiny_model) {
    return [this, tuning, open](const net::Meeting& meeting) {
      process_ = ::fork();
      if (process_ == 0) ::_exit(serve_engines(meeting, open, tuning) ? 0 : 1);
    };
  }
  void kill() const { ::kill(process_, SIGKILL); }
  /// Returns its exit code; -1 if a signal ended it.
  [[nodiscard]] int wait() {
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  ~Child() {
    if (process_ > 0) static_cast<void>(wait());
  }

 private:
  pid_t process_ = -1;
};

constexpr const char* kModel = "llama";
constexpr std::uint64_t kSeed = 5;

load::Scenario tiny_pools(sched::PolicyKind policy, const load::TransferConfig& transfer, std::int32_t prefills,
                          std::int32_t decodes) {
  load::Scenario s = sim::testing::base_scenario();
  s.shape = std::make_shared<const model::LlmShape>(tiny_model(kModel).shape);
  s.policy.policy = policy;
  s.policy.model_max_len = 256;
  s.policy.reserved_decode_tokens = 16;
  s.policy.step_token_budget = 64;  // long prompts are computed in chunks
  if (policy == sched::PolicyKind::trtllm) s.policy.chunked = true;
  s.kv.block_tokens = 16;
  s.kv.blocks = 200;
  s.tp = 1;
  s.replicas = decodes;
  s.workload.seed = kSeed;
  s.workload.requests = 40;
  s.workload.load = load::Poisson{400};
  const auto lengths = [](std::int32_t most) {
    return load::LengthDistribution{load::LengthFamily::uniform, 0, 0, 1, most};
  };
  s.workload.lengths = load::IndependentLengths{lengths(150), lengths(40)};
  return sim::testing::with_pools(s, transfer, prefills);
}

EngineOrder order_of(const load::Scenario& pool) {
  EngineOrder order{.model = kModel,
                    .weights = {},
                    .seed = kSeed,
                    .digest = {},
                    .replicas = pool.replicas,
                    .config = tiny_config(tiny_model(kModel), 1)};
  order.config.kv_blocks = pool.kv.blocks;
  order.config.block_tokens = pool.kv.block_tokens;
  order.config.sequences = 64;
  order.config.threads = 1;
  return order;
}

using Answers = std::map<std::uint64_t, std::vector<std::int32_t>>;  // by request

struct Measured {
  sched::RunResult run;
  Answers answers;
};

/// Runs a scenario on engines of this process, and those of `prefill` if it has pools.
Measured measure(const load::Scenario& s, const std::vector<ForwardDevice*>& prefill) {
  const EngineOrder order = order_of(s);
  LiveEngines engines(order.config, s.replicas, *open_tiny_model(order).weights);
  LiveReplicas replicas = engines.replicas();
  replicas.devices.insert(replicas.devices.end(), prefill.begin(), prefill.end());
  const PromptSource prompts(kSeed, s.shape->vocab);
  sched::RunOptions options;
  options.keep_requests = options.keep_log = true;
  Measured out;
  std::mutex mutex;
  replicas.on_token = [&](std::size_t slot, std::uint64_t serial, std::int32_t token) {
    const std::lock_guard lock(mutex);
    if (slot < static_cast<std::size_t>(s.replicas)) out.answers[serial].push_back(token);
  };
  out.run = measure_point(s, replicas, prompts, options);
  return out;
}

struct Case {
  const char* name;
  sched::PolicyKind policy;
  load::TransferConfig transfer;
};

std::vector<Case> cases() {
  load::TransferConfig pull, first, push = sim::testing::sglang_transfer();
  first.first_token = load::FirstToken::prefill;
  first.load_failure = load::LoadFailure::fail;
  load::TransferConfig pushed;
  pushed.mode = load::TransferMode::push;
  pushed.overlap = load::TransferOverlap::chunk;
  return {{"vllm", sched::PolicyKind::vllm_v1, pull},
          {"vllm_push", sched::PolicyKind::vllm_v1, pushed},
          {"sglang", sched::PolicyKind::sglang, push},
          {"trtllm", sched::PolicyKind::trtllm, first}};
}

class EngineProcessTest : public ::testing::TestWithParam<Case> {};

// The tokens of every request are those that one pool gives it, and what was decided follows from what happened, as the
// simulator's scheduler finds when it replays it.
TEST_P(EngineProcessTest, AnswersAreThoseOfOnePool) {
  const load::Scenario s = tiny_pools(GetParam().policy, GetParam().transfer, 2, 2);
  Child child;
  Measured pools;
  {
    EngineProcess process(order_of(*s.pools->prefill), child.start());
    pools = measure(s, process.devices());
  }
  EXPECT_EQ(child.wait(), 0);
  load::Scenario alone = s;
  alone.pools = nullptr;
  alone.policy.role = sched::Role::whole;
  const Measured one = measure(alone, {});
  ASSERT_EQ(pools.run.failure, "");
  ASSERT_EQ(one.answers.size(), 40U);
  EXPECT_EQ(pools.answers, one.answers);
  ASSERT_EQ(pools.run.requests.size(), 40U);
  for (const sched::RequestRow& row : pools.run.requests) {
    EXPECT_EQ(row.outcome, sched::Outcome::completed);
    EXPECT_EQ(row.stages->transferred, row.input);
    EXPECT_GE(row.first_token, row.stages->transfer_end);
  }
  const Scratch folder;
  EXPECT_EQ(sim::replay(folder.write("events.jsonl", pools.run.events), s), pools.run.logs);
}
INSTANTIATE_TEST_SUITE_P(Products, EngineProcessTest, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.name); });

// Both pools must run products alike; the number of threads is the part of a tuning that every machine shows.
TEST(EngineProcess, RunsProductsAsItsMachineIsTuned) {
  EngineOrder order = order_of(tiny_pools(sched::PolicyKind::vllm_v1, {}, 1, 1));
  order.config.threads = 0;
  Child child;
  const EngineProcess process(order, child.start(model::CpuTuning{.threads = 3}));
  EXPECT_THAT(process.description(), HasSubstr("3 threads"));
}

TEST(EngineProcess, KvLeavesAtARateThatIsMeasured) {
  const load::Scenario s = tiny_pools(sched::PolicyKind::vllm_v1, {}, 1, 1);
  Child child;
  EngineProcess process(order_of(s), child.start());
  const KvPath path = process.measure_path();
  EXPECT_GT(path.bandwidth, 0);
  EXPECT_GE(path.launch_s, 0);
}

// Each of the processes of a host gets a share of its memory: the tiny model does not fit into a kilobyte.
TEST(EngineProcess, TakesNoMoreMemoryThanItsOrderAllows) {
  EngineOrder order = order_of(tiny_pools(sched::PolicyKind::vllm_v1, {}, 1, 1));
  order.config.host_memory = 1024;
  Child child;
  try {
    EngineProcess process(order, child.start());
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the prefill pool: out of memory"));
  }
}

TEST(EngineProcess, RefusesToWriteABlockThatItDoesNotHave) {
  const EngineOrder order = order_of(tiny_pools(sched::PolicyKind::vllm_v1, {}, 1, 1));
  for (const std::int64_t block : {std::int64_t{-1}, order.config.kv_blocks}) {
    Child child;
    EngineProcess process(order, child.start());
    ForwardDevice& device = *process.devices().front();
    const std::vector<std::byte> kv(static_cast<std::size_t>(device.bytes_per_block()));
    device.write_block(static_cast<std::int32_t>(block), kv);
    ForwardOutput output;
    try {
      device.finish(output);
      FAIL();
    } catch (const DeviceError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a block that the engine does not have"));
    }
  }
}

/// Weights after whose loading only two further threads fit into memory.
class LastThreads final : public WeightSource {
 public:
  explicit LastThreads(std::unique_ptr<WeightSource> weights) : weights_(std::move(weights)) {}
  void read(const TensorRef& tensor, const TensorSlice& slice, float* out) const override {
    weights_->read(tensor, slice, out);
    if (std::exchange(limited_, true)) return;
    constexpr std::size_t kStack = std::size_t{1} << 30U;
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, kStack);
    ::pthread_setattr_default_np(&attributes);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * static_cast<std::size_t>(::sysconf(_SC_PAGE_SIZE)) + 5 * kStack / 2;
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  void check(const model::Architecture& architecture) const override { weights_->check(architecture); }

 private:
  std::unique_ptr<WeightSource> weights_;
  mutable bool limited_ = false;
};

// Two engines need four threads. The process ends when the third cannot start, and does not wait for the first two.
TEST(EngineProcess, AThreadThatCannotStartEndsTheProcess) {
  const EngineOrder order = order_of(*tiny_pools(sched::PolicyKind::vllm_v1, {}, 2, 1).pools->prefill);
  Child child;
  const EngineProcess process(order, child.start({}, [](const EngineOrder& asked) {
    OpenModel model = open_tiny_model(asked);
    model.weights = std::make_unique<LastThreads>(std::move(model.weights));
    return model;
  }));
  EXPECT_EQ(child.wait(), 1);
}

TEST(EngineProcess, ABadOrderIsReported) {
  EngineOrder order = order_of(tiny_pools(sched::PolicyKind::vllm_v1, {}, 1, 1));
  order.model = "missing";
  Child child;
  try {
    EngineProcess process(order, child.start());
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.text(), HasSubstr("the prefill pool: no such model"));
  }
  EXPECT_EQ(child.wait(), 1);
}

// The run ends with what was measured, and says why.
TEST(EngineProcess, AProcessThatDiesEndsTheRun) {
  const load::Scenario s = tiny_pools(sched::PolicyKind::vllm_v1, {}, 1, 1);
  Child child;
  EngineProcess process(order_of(*s.pools->prefill), child.start());
  child.kill();
  EXPECT_EQ(child.wait(), -1);
  EXPECT_THAT(measure(s, process.devices()).run.failure, HasSubstr("has died"));
}

}  // namespace
}  // namespace plimsoll::exec::group
