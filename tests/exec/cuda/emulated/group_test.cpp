// SPDX-License-Identifier: Apache-2.0
// A tensor-parallel group on GPUs over several processes: the emulation's NCCL provides ids, joining and collectives,
// the group's own messages carry forwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "exec/live/live_engines.h"
#include "tests/exec/cuda/gpu.h"
#include "tests/exec/group_harness.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/sequences.h"

namespace plimsoll::exec::group {
namespace {

using ::testing::HasSubstr;

// f32 rounds to 6e-8; the two ranks' sums of a few hundred terms and a dozen ops add up to about 1e-6 of the norm.
constexpr double kF32 = 1e-5;

EngineOrder order_of(std::int32_t tp) {
  EngineConfig config = tiny_config(tiny_model("llama"), tp);
  config.device = DeviceKind::cuda;
  config.step_rows = 16;
  return {.model = "llama", .weights = {}, .seed = 5, .digest = {}, .replicas = 1, .config = config};
}

OpenModel open_tiny(const EngineOrder& order) {
  const model::Architecture architecture = tiny_model(order.model);
  return {architecture, random_weights(architecture, order.seed), "a test"};
}

// Every process uses the GPUs that are assigned to it; here all have the same ones.
class EmulatedGroup : public ::testing::Test {
 protected:
  void SetUp() override {
    PLIMSOLL_NEEDS_GPU();
    ::setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  }
  void TearDown() override { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
};

TEST_F(EmulatedGroup, computes_what_one_process_does) {
  for (const bool graphs : {false, true}) {
    EngineOrder order = order_of(2);
    order.config.graphs = graphs;
    EngineConfig one = order.config;
    one.tp = 1;
    const std::vector<Tokens> prompts{random_tokens(1, 19, 97), random_tokens(2, 1, 97), random_tokens(3, 33, 97)};
    Engine alone(one, *random_weights(one.architecture, 5));
    Sequences expected(alone);
    const auto wanted = expected.prefill(prompts, 16);

    TestGroup group(2, open_tiny);
    group.leader().load(order);
    LiveEngines engines(order.config, 1, *open_tiny(order).weights, &group.leader());
    const std::vector<std::string> devices = group.leader().wait();
    EXPECT_EQ(devices, std::vector<std::string>{alone.device()});
    Sequences got(engines.engine(0));
    const auto logits = got.prefill(prompts, 16);
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      double difference = 0, norm = 0;
      ASSERT_EQ(logits[p].size(), wanted[p].size());
      for (std::size_t i = 0; i < wanted[p].size(); ++i) {
        difference += std::pow(static_cast<double>(logits[p][i]) - static_cast<double>(wanted[p][i]), 2);
        norm += std::pow(static_cast<double>(wanted[p][i]), 2);
      }
      EXPECT_LT(std::sqrt(difference / norm), kF32) << "prompt " << p;
    }
    EXPECT_EQ(got.decode(6), expected.decode(6)) << "graphs " << graphs;  // replayed from the second step on
  }
}

TEST_F(EmulatedGroup, a_process_that_dies_ends_what_a_gpu_waits_for) {
  const EngineOrder order = order_of(2);
  TestGroup group(2, open_tiny);
  group.leader().load(order);
  LiveEngines engines(order.config, 1, *open_tiny(order).weights, &group.leader());
  static_cast<void>(group.leader().wait());
  Sequences sequences(engines.engine(0));
  static_cast<void>(sequences.prefill({{1, 2, 3}}));
  TestGroup::end(group.member(1));
  try {
    static_cast<void>(sequences.decode(100));
    FAIL() << "it went on alone";
  } catch (const RankFailed& error) {
    EXPECT_STREQ(error.what(), "rank 1 on host1: the process has died");
  }
}

TEST_F(EmulatedGroup, too_few_gpus_for_the_processes_of_a_host_are_said) {
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const int gpus = gpu_count();
  std::vector<Member> members = make_members(2);
  members[1].local = 1;
  members[0].locals = members[1].locals = gpus + 1;
  std::jthread follower([&] { follow(members[1], open_tiny); });
  {
    Leader leader(members[0]);
    leader.load(order_of(2));
    EXPECT_THROW(LiveEngines(order_of(2).config, 1, *open_tiny(order_of(2)).weights, &leader), DeviceError);
    try {
      static_cast<void>(leader.wait());
      FAIL() << "it loaded";
    } catch (const RankFailed& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1 on host1: too few GPUs: "));
    }
  }
  TestGroup::end(members[0]);
}

}  // namespace
}  // namespace plimsoll::exec::group
