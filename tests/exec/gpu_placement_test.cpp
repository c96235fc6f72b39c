// SPDX-License-Identifier: Apache-2.0
#include "exec/gpu_placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/error.h"

namespace plimsoll::exec {
namespace {

using ::testing::ElementsAre;

TEST(GpuPlacement, automatic_takes_a_gpu_a_rank_where_there_are_enough_from_the_first_on) {
  const RankPlaces own = place_ranks(CommunicatorKind::automatic, 2, 2, {.count = 4});
  EXPECT_EQ(own.kind, CommunicatorKind::nccl);
  EXPECT_THAT(own.devices, ElementsAre(2, 3));
  const RankPlaces shared = place_ranks(CommunicatorKind::automatic, 2, 3, {.count = 4});  // GPU 3 is the last
  EXPECT_EQ(shared.kind, CommunicatorKind::loopback);
  EXPECT_THAT(shared.devices, ElementsAre(3, 3));
}

TEST(GpuPlacement, loopback_stays_on_one_gpu_of_many) {
  EXPECT_THAT(place_ranks(CommunicatorKind::loopback, 3, 1, {.count = 8}).devices, ElementsAre(1, 1, 1));
}

TEST(GpuPlacement, nccl_shares_gpus_only_when_told_so) {
  EXPECT_THAT(place_ranks(CommunicatorKind::nccl, 4, 0, {.count = 2, .shared = true}).devices, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(place_ranks(CommunicatorKind::nccl, 2, 0, {.count = 4, .shared = true}).devices, ElementsAre(0, 1));
  EXPECT_THAT(place_ranks(CommunicatorKind::nccl, 2, 0, {.count = 1}).devices,
              ElementsAre(0, 1));  // the message names the missing GPU 1
}

TEST(GpuPlacement, says_how_many_gpus_are_missing) {
  EXPECT_EQ(too_few_gpus(2, 3, 6), "");
  EXPECT_EQ(too_few_gpus(2, 3, 5), "tp 2 x 3 replicas: 6 GPUs are needed, this machine has 5");
  EXPECT_EQ(too_few_gpus(2, 1, 1), "tp 2 x 1 replica: 2 GPUs are needed, this machine has 1");
}

TEST(GpuPlacement, processes_of_a_host_take_the_next_gpus) {
  EXPECT_EQ(first_gpu(0, 2, 4, {.count = 8}), 0);
  EXPECT_EQ(first_gpu(1, 2, 4, {.count = 8}), 4);
  EXPECT_EQ(first_gpu(1, 2, 1, {.count = 1, .chosen = true}), 0);  // each process sees one GPU, which was chosen for it
  EXPECT_THROW(static_cast<void>(first_gpu(1, 2, 1, {.count = 1})), DeviceError);
  EXPECT_THROW(static_cast<void>(first_gpu(0, 1, 2, {.count = 1, .chosen = true})), DeviceError);
}

}  // namespace
}  // namespace plimsoll::exec
