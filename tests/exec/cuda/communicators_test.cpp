// SPDX-License-Identifier: Apache-2.0
// One conformance suite for every communicator on GPUs.
#include "exec/cuda/communicators.h"

#include <cuda_runtime.h>

#include <atomic>
#include <functional>
#include <thread>

#include "exec/backend.h"
#include "exec/cuda/bf16.h"
#include "exec/cuda/buffer.h"
#include "model/error.h"
#include "tests/exec/cuda/gpu.h"

namespace plimsoll::exec::cuda {
namespace {

using Group = std::vector<std::unique_ptr<Communicator>>;

struct Kind {
  std::string name;
  std::function<Group(int size)> make;
  bool gathers = true, in_order = true, waits_on_gpu = false;
  std::function<int(int rank, int size)> device = [](int, int) { return 0; };
  std::function<std::string(int size)> problem = [](int) {
    return std::string();
  };  // why this number of ranks cannot run here
};
std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

class Communicators : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_GPU(); }

  // Runs work(rank, communicator, stream) on one thread per rank, as the engine does.
  void on_all(int size, const std::function<void(int, Communicator&, cudaStream_t)>& work) {
    const Group group = make(size);
    if (group.empty()) return;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        check(cudaSetDevice(GetParam().device(rank, size)), "a test");
        const StreamOwner stream = make_stream();
        work(rank, *group[static_cast<std::size_t>(rank)], stream.get());
        check(cudaStreamSynchronize(stream.get()), "a test");
        group[static_cast<std::size_t>(rank)]->barrier();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Returns an empty group if this kind cannot run here.
  Group make(int size) {
    skipped_ = GetParam().problem(size);
    return skipped_.empty() ? GetParam().make(size) : Group();
  }
  void TearDown() override {
    if (!skipped_.empty()) GTEST_SKIP() << skipped_;
  }

  std::string skipped_;
};

// Returns element i of rank r. In f32 the sum depends on the order of ranks.
float value_of(int rank, std::size_t i) {
  const float magnitude[] = {1e-3F, 3.1F, -2e4F, 0.7F};
  return magnitude[(static_cast<std::size_t>(rank) + i) % 4] * (1 + static_cast<float>(i % 17) / 8);
}

std::vector<float> sums(int size, std::size_t count) {
  std::vector<float> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    for (int rank = 0; rank < size; ++rank) expected[i] += value_of(rank, i);
  }
  return expected;
}

TEST_P(Communicators, all_reduce_adds_in_the_order_of_ranks) {
  if (!GetParam().in_order) GTEST_SKIP() << "NCCL has an order of its own";
  for (const int size : {2, 3}) {
    // One unit of 16 bytes, and more than the blocks of a peer kernel process at once; three times in a row. Peers sum
    // whole units only.
    for (const std::size_t count : {4U, 5000U, 5003U}) {
      if (count % 4 != 0 && !GetParam().gathers) continue;
      const std::vector<float> expected = sums(size, count);
      on_all(size, [&](int rank, Communicator& group, cudaStream_t stream) {
        std::vector<float> data(count);
        const DeviceBuffer device(count * sizeof(float), "a test");
        for (int turn = 0; turn < 3; ++turn) {
          for (std::size_t i = 0; i < count; ++i) data[i] = value_of(rank, i);
          check(cudaMemcpyAsync(device.get(), data.data(), device.bytes(), cudaMemcpyHostToDevice, stream), "a test");
          group.all_reduce(device.get(), static_cast<std::int64_t>(count), model::DType::fp32, stream);
          check(cudaMemcpyAsync(data.data(), device.get(), device.bytes(), cudaMemcpyDeviceToHost, stream), "a test");
          EXPECT_EQ(data, expected) << "rank " << rank << " of " << size << ", turn " << turn;
        }
      });
    }
  }
}

TEST_P(Communicators, all_reduce_of_bf16_gives_all_ranks_the_same_bits) {
  constexpr std::size_t kCount = 136;
  std::vector<std::vector<std::uint16_t>> results(2);
  on_all(2, [&](int rank, Communicator& group, cudaStream_t stream) {
    std::vector<std::uint16_t> data(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
      data[i] = bf16_bits(static_cast<float>(i) + static_cast<float>(rank) * 0.25F);
    const DeviceBuffer device(kCount * 2, "a test");
    check(cudaMemcpyAsync(device.get(), data.data(), device.bytes(), cudaMemcpyHostToDevice, stream), "a test");
    group.all_reduce(device.get(), kCount, model::DType::bf16, stream);
    check(cudaMemcpyAsync(data.data(), device.get(), device.bytes(), cudaMemcpyDeviceToHost, stream), "a test");
    results[static_cast<std::size_t>(rank)] = data;
  });
  if (results[0].empty()) return;
  EXPECT_EQ(results[0], results[1]);
  for (std::size_t i = 0; i < 64; ++i)
    EXPECT_NEAR(to_float(Bf16{results[0][i]}), 2 * static_cast<float>(i) + 0.25F, 0.6F) << i;
}

TEST_P(Communicators, all_gather_puts_ranks_behind_each_other) {
  if (!GetParam().gathers) GTEST_SKIP() << "for sums only";
  on_all(3, [&](int rank, Communicator& group, cudaStream_t stream) {
    const std::vector<int> own{rank * 10, rank * 10 + 1};
    std::vector<int> all(6);
    const DeviceBuffer in(8, "a test"), out(24, "a test");
    check(cudaMemcpyAsync(in.get(), own.data(), 8, cudaMemcpyHostToDevice, stream), "a test");
    group.all_gather(in.get(), out.get(), 8, stream);
    check(cudaMemcpyAsync(all.data(), out.get(), 24, cudaMemcpyDeviceToHost, stream), "a test");
    EXPECT_EQ(all, (std::vector<int>{0, 1, 10, 11, 20, 21}));
  });
}

TEST_P(Communicators, abort_wakes_ranks_that_wait) {
  Group group = make(2);
  if (group.empty()) return;
  std::atomic<bool> threw{false};
  std::thread waiting([&] {
    try {
      group[0]->barrier();
    } catch (const DeviceError&) {
      threw = true;
    }
  });
  group[1]->abort();
  group[0]->abort();
  waiting.join();
  EXPECT_TRUE(threw);
}

// The kernel of the rank that has arrived waits on the GPU, where no exception can reach it.
TEST_P(Communicators, abort_ends_what_a_rank_has_enqueued) {
  if (!GetParam().waits_on_gpu) GTEST_SKIP() << "ranks meet on the host";
  Group group = make(2);
  if (group.empty()) return;
  check(cudaSetDevice(GetParam().device(0, 2)), "a test");
  const StreamOwner stream = make_stream();
  const DeviceBuffer data(64, "a test");
  check(cudaMemsetAsync(data.get(), 0, 64, stream.get()), "a test");
  group[0]->all_reduce(data.get(), 16, model::DType::fp32, stream.get());
  for (const auto& rank : group) rank->abort();
  EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaSuccess);  // would never return without abort
  EXPECT_THROW(dynamic_cast<CudaCommunicator&>(*group[0]).check_alive(), DeviceError);
  EXPECT_THROW(group[0]->all_reduce(data.get(), 16, model::DType::fp32, stream.get()), DeviceError);
}

std::vector<Kind> kinds() {
  std::vector<Kind> list;
  list.push_back({.name = "loopback", .make = [](int size) { return make_loopback_group(size, 0); }});
  list.push_back(
      {.name = "peers_of_one_gpu",
       .make = [](int size) { return make_peer_group(std::vector<int>(static_cast<std::size_t>(size), 0), 1024); },
       .gathers = false,
       .waits_on_gpu = true});
  const auto own_gpu = [](int rank, int size) { return gpu_count() >= size ? rank : 0; };
  const auto nccl = [own_gpu](int size) -> Group {
    std::vector<int> devices;
    for (int rank = 0; rank < size; ++rank) devices.push_back(own_gpu(rank, size));
    return make_nccl_group(devices);
  };
  list.push_back({.name = "nccl",
                  .make = nccl,
                  .gathers = true,
                  .in_order = false,
                  .waits_on_gpu = true,
                  .device = own_gpu,
                  .problem = nccl_problem});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Kinds, Communicators, ::testing::ValuesIn(kinds()),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace plimsoll::exec::cuda
