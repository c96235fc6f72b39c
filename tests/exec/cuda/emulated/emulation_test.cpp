// SPDX-License-Identifier: Apache-2.0
// The emulation must be strict: each test breaks a rule of CUDA and expects an error, or compares an instruction with
// its effect on whole matrices.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "exec/cuda/buffer.h"
#include "exec/cuda/ptx.cuh"
#include "tests/exec/cuda/emulation/grid.h"

namespace plimsoll::exec::cuda {
namespace {

using cuda_emulation::run_grid;

// a [16, 16], b [16, 8] and d [16, 8] are loaded and stored through shared memory, as kernels do.
TEST(Emulation, a_product_of_fragments_is_the_product_of_matrices) {
  std::vector<Bf16> a(256), b_transposed(128);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = {bf16_bits(static_cast<float>(i % 13) - 6)};
  for (std::size_t i = 0; i < b_transposed.size(); ++i) b_transposed[i] = {bf16_bits(static_cast<float>(i % 7) - 3)};
  std::vector<float> d(128);
  run_grid({1, 1, 1}, {32, 1, 1}, 1024, [&] {
    auto* shared = reinterpret_cast<Bf16*>(dynamic_shared());
    for (unsigned i = threadIdx.x; i < 256; i += 32) shared[i] = a[i];
    for (unsigned i = threadIdx.x; i < 128; i += 32) shared[256 + i] = b_transposed[i];
    __syncwarp();
    const unsigned lane = threadIdx.x;
    std::uint32_t fa[4], fb[4];
    ldmatrix_x4(fa, shared + lane % 16 * 16 + lane / 16 * 8);
    // Rows of the transposed b are columns of b: matrices (columns 0-7) x (k 0-7, k 8-15), twice.
    ldmatrix_x4(fb, shared + 256 + lane % 8 * 16 + lane / 8 % 2 * 8);
    float sum[4] = {};
    mma_bf16(sum, fa, fb[0], fb[1]);
    for (unsigned i = 0; i < 4; ++i) d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
  });
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      float expected = 0;
      for (std::size_t k = 0; k < 16; ++k)
        expected += to_float(a[row * 16 + k]) * to_float(b_transposed[column * 16 + k]);
      EXPECT_EQ(d[row * 8 + column], expected) << row << ' ' << column;
    }
  }
}

TEST(Emulation, transposed_loads_transpose_each_matrix) {
  std::vector<std::uint32_t> got(128);
  run_grid({1, 1, 1}, {32, 1, 1}, 512, [&] {
    auto* shared = reinterpret_cast<Bf16*>(dynamic_shared());
    for (unsigned i = threadIdx.x; i < 256; i += 32) shared[i] = {static_cast<std::uint16_t>(i)};
    __syncwarp();
    std::uint32_t r[4];
    ldmatrix_x4_trans(r, shared + threadIdx.x * 8);  // matrix m has rows 8 m to 8 m + 7 of [32][8]
    for (unsigned m = 0; m < 4; ++m) got[threadIdx.x * 4 + m] = r[m];
  });
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned column = lane / 4, row = m * 8 + lane % 4 * 2;
      EXPECT_EQ(got[lane * 4 + m], (row * 8 + column) | ((row + 1) * 8 + column) << 16);
    }
  }
}

// In every other pair of blocks they arrive already when their group is committed: a GPU may copy at any time between.
TEST(Emulation, copies_arrive_when_their_group_is_committed_or_waited_for) {
  alignas(16) static const float source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float open[3] = {}, early[3] = {}, first[3] = {}, second[3] = {}, last[3] = {}, absent[3] = {-1, -1, -1};
  run_grid({3, 1, 1}, {1, 1, 1}, 64, [&] {
    auto* shared = reinterpret_cast<float*>(dynamic_shared());
    cp_async_16(shared, source, true);
    open[blockIdx.x] = shared[0];
    cp_async_commit();
    cp_async_16(shared + 4, source + 4, true);
    cp_async_16(shared + 8, source, false);
    cp_async_commit();
    early[blockIdx.x] = shared[0];
    cp_async_wait<1>();
    first[blockIdx.x] = shared[0];
    second[blockIdx.x] = shared[4];
    cp_async_wait<0>();
    last[blockIdx.x] = shared[4];
    absent[blockIdx.x] = shared[8];
  });
  for (int block = 0; block < 3; ++block) {
    EXPECT_TRUE(std::isnan(open[block]));
    EXPECT_EQ(first[block], 1);
    EXPECT_EQ(last[block], 5);
    EXPECT_EQ(absent[block], 0);
    EXPECT_EQ(std::isnan(early[block]), std::isnan(second[block]));
  }
  EXPECT_EQ(std::isnan(early[0]), std::isnan(early[1]));
  EXPECT_NE(std::isnan(early[0]), std::isnan(early[2]));
}

TEST(EmulationDeathTest, a_barrier_that_a_thread_leaves_out_is_a_deadlock) {
  const auto broken = [] {
    run_grid({1, 1, 1}, {64, 1, 1}, 0, [] {
      if (threadIdx.x == 3) __syncwarp();
      __syncthreads();
    });
  };
  EXPECT_DEATH(broken(), "deadlock");
}

// Without a barrier thread 0 reads what thread 63 writes, before or after the write depending on the order.
TEST(Emulation, threads_run_in_different_orders) {
  std::set<int> read;
  int shared = 0;
  run_grid({8, 1, 1}, {64, 1, 1}, 0, [&] {
    if (threadIdx.x == 63) shared = 1;
    if (threadIdx.x == 0) {
      read.insert(shared);
      shared = 0;
    }
  });
  EXPECT_EQ(read, (std::set<int>{0, 1}));
}

TEST(Emulation, streams_do_nothing_until_they_are_waited_for) {
  const StreamOwner stream = make_stream(), other = make_stream();
  const EventOwner event = make_event();
  const PinnedBuffer from(4), to(4);
  const DeviceBuffer device(4, "a test");
  *from.as<int>() = 1;
  check(cudaMemcpyAsync(device.get(), from.get(), 4, cudaMemcpyHostToDevice, stream.get()), "a test");
  check(cudaEventRecord(event.get(), stream.get()), "a test");
  *from.as<int>() = 2;  // too early: the copy has not happened yet
  check(cudaStreamWaitEvent(other.get(), event.get(), 0), "a test");
  check(cudaMemcpyAsync(to.get(), device.get(), 4, cudaMemcpyDeviceToHost, other.get()), "a test");
  check(cudaStreamSynchronize(other.get()), "a test");
  EXPECT_EQ(*to.as<int>(), 2);
}

TEST(Emulation, calls_without_a_stream_are_not_waited_for_by_streams) {
  const StreamOwner stream = make_stream();
  const DeviceBuffer device(1, "a test");
  check(cudaMemsetAsync(device.get(), 5, 1, stream.get()), "a test");
  check(cudaMemset(device.get(), 7, 1), "a test");
  check(cudaStreamSynchronize(stream.get()), "a test");
  EXPECT_EQ(*device.as<unsigned char>(), 5);
  check(cudaStreamSynchronize(nullptr), "a test");
  EXPECT_EQ(*device.as<unsigned char>(), 7);
}

TEST(Emulation, a_captured_stream_runs_when_its_graph_does) {
  const StreamOwner stream = make_stream();
  const DeviceBuffer device(1, "a test");
  fill(device, 7, "a test");
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "a test");
  check(cudaMemsetAsync(device.get(), 9, 1, stream.get()), "a test");
  EXPECT_NE(cudaStreamSynchronize(stream.get()), cudaSuccess);
  void* pointer = nullptr;
  EXPECT_NE(cudaMalloc(&pointer, 1), cudaSuccess);
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream.get(), &graph), "a test");
  const GraphOwner owner(graph);
  EXPECT_EQ(*device.as<unsigned char>(), 7);
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph, 0), "a test");
  const GraphExecOwner runs(executable);
  check(cudaGraphLaunch(executable, stream.get()), "a test");
  check(cudaStreamSynchronize(stream.get()), "a test");
  EXPECT_EQ(*device.as<unsigned char>(), 9);
}

}  // namespace
}  // namespace plimsoll::exec::cuda
