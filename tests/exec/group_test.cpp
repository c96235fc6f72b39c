// SPDX-License-Identifier: Apache-2.0
// Engines whose ranks are distributed over processes (here threads that share only sockets). They must compute the same
// bits as one process, and report failures with their place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "exec/group/messages.h"
#include "exec/live/live_engines.h"
#include "exec/thread_communicator.h"
#include "model/tp_layout.h"
#include "tests/exec/group_harness.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/sequences.h"

namespace plimsoll::exec::group {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

OpenModel open_tiny(const EngineOrder& order) {
  const model::Architecture architecture = tiny_model(order.model);
  return {architecture, random_weights(architecture, order.seed), "a test"};
}

EngineOrder order_of(const std::string& family, std::int32_t tp, std::int32_t replicas = 1) {
  return {.model = family,
          .weights = {},
          .seed = 5,
          .digest = {},
          .replicas = replicas,
          .config = tiny_config(tiny_model(family), tp)};
}

std::unique_ptr<LiveEngines> load(Leader& leader, const EngineOrder& order) {
  leader.load(order);
  auto engines = std::make_unique<LiveEngines>(order.config, order.replicas, *open_tiny(order).weights, &leader);
  static_cast<void>(leader.wait());
  return engines;
}

std::vector<Tokens> prompts_of(const model::Architecture& a) {
  return {random_tokens(1, 19, a.shape.vocab), random_tokens(2, 1, a.shape.vocab), random_tokens(3, 33, a.shape.vocab)};
}

// ---- the mesh --------------------------------------------------------------------------------------------------

template <class Work>
void on_processes(std::vector<Member>& members, const Work& work) {
  std::vector<std::jthread> threads;
  for (Member& member : members) threads.emplace_back([&] { work(member); });
}

// 8 MB exceed a socket's buffer: if all processes sent first and received afterwards, none would ever return.
TEST(GroupMesh, long_messages_cross) {
  std::vector<Member> members = make_members(3);
  on_processes(members, [](Member& member) {
    constexpr std::size_t kBytes = std::size_t{8} << 20U;
    const net::Bytes own(kBytes, std::byte{static_cast<unsigned char>(10 + member.process)});
    const std::array<std::span<const std::byte>, 2> parts{std::span(own).first(5), std::span(own).subspan(5)};
    net::Bytes all(3 * kBytes);
    member.replicas[0].mesh->exchange(parts, all);
    for (std::size_t p = 0; p < 3; ++p) {
      const auto expected = std::byte{static_cast<unsigned char>(static_cast<int>(p) == member.process ? 0 : 10 + p)};
      EXPECT_EQ(std::count(all.begin() + static_cast<std::ptrdiff_t>(p * kBytes),
                           all.begin() + static_cast<std::ptrdiff_t>((p + 1) * kBytes), expected),
                static_cast<std::ptrdiff_t>(kBytes));
    }
  });
}

TEST(GroupMesh, everybody_gets_what_the_first_has) {
  std::vector<Member> members = make_members(4);
  on_processes(members, [](Member& member) {
    net::Bytes id(128, std::byte{static_cast<unsigned char>(member.process + 1)});
    member.replicas[0].mesh->broadcast(id);
    member.replicas[0].mesh->meet();
    EXPECT_EQ(id, net::Bytes(128, std::byte{1}));
  });
}

TEST(GroupMesh, who_waits_for_a_process_that_goes_is_woken) {
  std::vector<Member> members = make_members(3);
  std::atomic<int> woken = 0;
  on_processes(members, [&](Member& member) {
    if (member.process == 1) {
      member.replicas[0].mesh.reset();  // closes its connections
      return;
    }
    try {
      while (true) member.replicas[0].mesh->meet();
    } catch (const PeerFailed&) {
      ++woken;
    }
  });
  EXPECT_EQ(woken, 2);
}

// 2^24 + 1 is not representable in f32, so a sum depends on its order. Equal bits therefore prove the order of ranks.
TEST(GroupCommunicator, adds_with_the_bits_of_threads) {
  constexpr int kRanks = 4, kElements = 3000;
  const auto operand = [](int rank) {
    std::vector<float> values(kElements);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = rank == 0 ? 16777216.0F : 1.0F + static_cast<float>(i % 3);
    return values;
  };
  std::vector<float> expected(kElements, 0.0F);
  for (int rank = 0; rank < kRanks; ++rank)
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += operand(rank)[i];
  for (const int processes : {2, 4}) {
    std::vector<Member> members = make_members(processes);
    on_processes(members, [&](Member& member) {
      const int count = kRanks / processes;
      const auto group = make_thread_group(kRanks, {member.process * count, count}, *member.replicas[0].mesh);
      std::vector<std::jthread> ranks;
      for (const auto& endpoint : group) {
        ranks.emplace_back([&, c = endpoint.get()] {
          std::vector<float> data = operand(c->rank());
          c->all_reduce(data.data(), kElements, model::DType::fp32, nullptr);
          EXPECT_EQ(data, expected);
          std::vector<int> all(kRanks);
          const int own = 7 * c->rank();
          c->all_gather(&own, all.data(), sizeof own, nullptr);
          EXPECT_EQ(all, (std::vector<int>{0, 7, 14, 21}));
          c->barrier();
        });
      }
    });
  }
}

// ---- engines ---------------------------------------------------------------------------------------------------

class GroupFamily : public ::testing::TestWithParam<std::string> {};

TEST_P(GroupFamily, computes_the_bits_of_one_process) {
  const model::Architecture architecture = tiny_model(GetParam());
  if (model::has_wide_qk_norm(architecture.shape)) return;  // runs on one rank only
  const auto weights = random_weights(architecture, 5);
  TestGroup group(2, open_tiny);
  for (const std::int32_t tp : {2, 4}) {
    Engine alone(tiny_config(architecture, tp), *weights);
    Sequences expected(alone);
    const auto engines = load(group.leader(), order_of(GetParam(), tp));
    Sequences got(engines->engine(0));
    EXPECT_EQ(got.prefill(prompts_of(architecture), 8), expected.prefill(prompts_of(architecture), 8)) << "tp " << tp;
    EXPECT_EQ(got.decode(6), expected.decode(6)) << "tp " << tp;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GroupFamily, ::testing::ValuesIn(tiny_families()));

TEST(Group, a_process_a_rank_and_two_replicas) {
  const model::Architecture architecture = tiny_model("llama");
  Engine alone(tiny_config(architecture, 4), *random_weights(architecture, 5));
  const auto expected = Sequences(alone).prefill(prompts_of(architecture));
  TestGroup group(4, open_tiny, 2);
  const auto engines = load(group.leader(), order_of("llama", 4, 2));
  EXPECT_EQ(engines->engine(0).description(), alone.device() + ", 4 ranks in 4 processes");
  std::vector<std::jthread> replicas;  // concurrently, as in a run
  for (std::size_t i = 0; i < 2; ++i)
    replicas.emplace_back(
        [&, i] { EXPECT_EQ(Sequences(engines->engine(i)).prefill(prompts_of(architecture)), expected); });
}

// The second forward is sent before the first is finished, as by a policy that runs ahead.
TEST(Group, two_forwards_are_in_flight) {
  const model::Architecture architecture = tiny_model("llama");
  TestGroup group(2, open_tiny);
  const auto engines = load(group.leader(), order_of("llama", 2));
  Engine& engine = engines->engine(0);
  Engine alone(tiny_config(architecture, 2), *random_weights(architecture, 5));
  const Tokens prompt = random_tokens(1, 5, architecture.shape.vocab);
  const std::vector<std::int32_t> blocks{3};
  ForwardInput prefill;
  prefill.prefill.push_back(
      {.tokens = prompt, .context = 0, .blocks = blocks, .slot = 0, .request = 0, .padding = 0, .emits = true});
  std::vector<ForwardInput> decodes(8);
  for (std::size_t i = 0; i < decodes.size(); ++i) {
    DecodeRow row;
    row.context = static_cast<std::int64_t>(prompt.size() + i);
    row.blocks = blocks;
    decodes[i].decode.push_back(row);
  }
  ForwardOutput got, expected;
  engine.start(prefill);
  alone.run(prefill, expected);
  for (const ForwardInput& decode : decodes) {
    engine.start(decode);
    engine.finish(got);
    EXPECT_EQ(got.tokens, expected.tokens);
    alone.run(decode, expected);
  }
  engine.finish(got);
  EXPECT_EQ(got.tokens, expected.tokens);
}

TEST(Group, blocks_of_all_ranks_travel) {
  const model::Architecture architecture = tiny_model("llama");
  TestGroup group(2, open_tiny);
  const auto engines = load(group.leader(), order_of("llama", 4));
  Engine& engine = engines->engine(0);
  Engine alone(tiny_config(architecture, 4), *random_weights(architecture, 5));
  static_cast<void>(Sequences(engine).prefill(prompts_of(architecture)));
  static_cast<void>(Sequences(alone).prefill(prompts_of(architecture)));
  ASSERT_EQ(engine.bytes_per_block(), alone.bytes_per_block());
  std::vector<net::Bytes> blocks(64, net::Bytes(static_cast<std::size_t>(engine.bytes_per_block())));
  net::Bytes expected(blocks[0].size());
  for (std::int32_t block = 0; block < 64; ++block) {
    engine.read_block(block, blocks[static_cast<std::size_t>(block)]);
    alone.read_block(block, expected);
    EXPECT_EQ(blocks[static_cast<std::size_t>(block)], expected) << block;
  }
  // 53 tokens in three sequences fill 2 + 1 + 3 blocks; all others contain poison.
  EXPECT_GE(
      std::ranges::count_if(blocks, [&](const net::Bytes& block) { return !std::ranges::equal(block, blocks[0]); }), 6);
  for (std::int32_t block = 0; block < 64; ++block)
    engine.write_block(63 - block, blocks[static_cast<std::size_t>(block)]);
  for (std::int32_t block = 0; block < 64; ++block) {
    engine.read_block(63 - block, expected);
    EXPECT_EQ(blocks[static_cast<std::size_t>(block)], expected) << block;
  }
}

TEST(Group, ops_of_all_ranks_are_noted) {
  const model::Architecture architecture = tiny_model("llama");
  TestGroup group(2, open_tiny);
  EngineOrder order = order_of("llama", 4);
  order.config.graphs = false;
  const auto engines = load(group.leader(), order);
  engines->engine(0).trace_ops();
  static_cast<void>(Sequences(engines->engine(0)).prefill(prompts_of(architecture)));
  const std::vector<OpTrace>& traces = engines->engine(0).traces();
  const std::size_t each = traces.size() / 4;
  ASSERT_GT(each, 10U);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    EXPECT_EQ(traces[i].rank, static_cast<std::int32_t>(i / each));
    EXPECT_EQ(traces[i].op.id, traces[i % each].op.id);
    EXPECT_GT(traces[i].measured_s, 0);
  }
}

// ---- failures --------------------------------------------------------------------------------------------------

template <class Error, class Work>
std::string error_of(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

// Process 1 of 2 fails; process 2 ends because of that and must not be blamed.
OpenOrder failing(const std::string& text, bool bad_input) {
  auto turn = std::make_shared<std::atomic<int>>(0);
  return [=](const EngineOrder& order) -> OpenModel {
    if (turn->fetch_add(1) > 0) return open_tiny(order);
    if (bad_input) throw InputError(text);
    throw DeviceError(text);
  };
}

TEST(GroupFailure, what_a_follower_lacks_is_said_with_its_rank_and_host) {
  {
    TestGroup group(2, failing("config.json: no such file", true));
    EXPECT_EQ(error_of<InputError>([&] { static_cast<void>(load(group.leader(), order_of("llama", 2))); }),
              "rank 1 on host1: config.json: no such file");
  }
  TestGroup group(2, failing("out of memory: so much", false));
  EXPECT_EQ(error_of<RankFailed>([&] { static_cast<void>(load(group.leader(), order_of("llama", 4))); }),
            "ranks 2 to 3 on host1: out of memory: so much");
}

TEST(GroupFailure, only_the_process_that_failed_is_named) {
  TestGroup group(4, failing("no disk", false));
  EXPECT_THAT(error_of<RankFailed>([&] { static_cast<void>(load(group.leader(), order_of("llama", 4))); }),
              HasSubstr(": no disk"));
}

TEST(GroupFailure, a_follower_that_dies_ends_the_forward) {
  TestGroup group(2, open_tiny);
  const auto engines = load(group.leader(), order_of("llama", 2));
  Sequences sequences(engines->engine(0));
  static_cast<void>(sequences.prefill({{1, 2, 3}}));
  TestGroup::end(group.member(1));
  EXPECT_EQ(error_of<RankFailed>([&] { static_cast<void>(sequences.decode(100)); }),
            "rank 1 on host1: the process has died");
  EXPECT_EQ(error_of<RankFailed>([&] { group.leader().check(false); }), "rank 1 on host1: the process has died");
}

TEST(GroupFailure, nothing_is_said_of_those_that_are_well) {
  TestGroup group(2, open_tiny);
  const auto engines = load(group.leader(), order_of("llama", 2));
  EXPECT_NO_THROW(group.leader().check(false));
}

TEST(GroupFailure, a_message_that_nobody_understands_is_answered_with_the_reason) {
  std::vector<Member> members = make_members(2);
  std::jthread follower([&] { follow(members[1], open_tiny); });
  net::Bytes message = encode(order_of("llama", 2));
  message[0] = std::byte{kWireVersion + 1};
  ASSERT_TRUE(members[0].control[1].send(message));
  const auto answer = members[0].control[1].receive();
  ASSERT_TRUE(answer);
  Reader in(*answer);
  EXPECT_EQ(in.kind(), Kind::failed);
  EXPECT_EQ(in.byte(), 0);
  EXPECT_THAT(in.text(), HasSubstr("of version " + std::to_string(kWireVersion + 1)));
  EXPECT_FALSE(members[0].control[1].receive());  // the follower is gone
}

// The leader disappears during a forward: the follower, which waits in a collective, must end too.
TEST(GroupFailure, followers_end_with_the_leader) {
  std::vector<Member> members = make_members(2);
  std::jthread follower([&] { follow(members[1], open_tiny); });
  {
    Leader leader(members[0]);
    const auto engines = load(leader, order_of("llama", 2));
    ForwardEncoder encoder;
    ForwardInput input;
    DecodeRow row;
    const std::vector<std::int32_t> blocks{0};
    row.token = 1;
    row.blocks = blocks;
    input.decode.push_back(row);
    ASSERT_TRUE(members[0].replicas[0].steps[1].send(encoder.encode(input)));  // the leader itself does not run it
  }
  TestGroup::end(members[0]);
}  // joins the follower

// A stopped process keeps its connections open but sends no heartbeat.
TEST(GroupFailure, a_follower_that_is_stopped_is_named) {
  std::vector<Member> members = make_members(2);
  Leader leader(members[0], std::chrono::milliseconds(20));
  leader.load(order_of("llama", 2));
  try {
    static_cast<void>(leader.wait());
    ADD_FAILURE() << "it waited in vain";
  } catch (const RankFailed& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("host1: the process has sent no heartbeat"), HasSubstr("is stopped")));
  }
}

// Followers distinguish a run that has ended from a leader that has died.
TEST(GroupFailure, followers_know_whether_the_run_is_over) {
  for (const bool over : {true, false}) {
    std::vector<Member> members = make_members(2);
    bool ended_well = !over;
    std::jthread follower([&] { ended_well = follow(members[1], open_tiny); });
    {
      Leader leader(members[0]);
      const auto engines = load(leader, order_of("llama", 2));
      if (over) leader.finish();
    }
    TestGroup::end(members[0]);
    follower.join();
    EXPECT_EQ(ended_well, over);
  }
}

}  // namespace
}  // namespace plimsoll::exec::group
