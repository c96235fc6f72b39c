// SPDX-License-Identifier: Apache-2.0
// Sums over the ranks of a tensor-parallel group, in f32 and in order of rank, so that all ranks get the same bits.
#include "exec/cuda/device.cuh"
#include "exec/cuda/kernels.h"
#include "exec/cuda/launch.cuh"

namespace plimsoll::exec::cuda {

namespace {

constexpr int kThreads = 256;
constexpr unsigned kTurnsBetweenLooks = 256;  // polls of a peer's flag between two reads of the host's abort word

// ---- ranks on one device
// ---------------------------------------------------------------------------------------------

template <class T, int N>
__device__ __forceinline__ void sum_piece(const RankPointers& from, int ranks, std::int64_t at, float (&sum)[N]) {
  for (int rank = 0; rank < ranks; ++rank) {
    float values[N];
    load(static_cast<const T*>(from.of[rank]) + at, values);
#pragma unroll
    for (int j = 0; j < N; ++j) sum[j] += values[j];
  }
}

template <class T, int N>
__global__ void sum_kernel(RankPointers buffers, int ranks, std::int64_t pieces, std::int64_t first) {
  for (std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; p < pieces;
       p += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t at = first + p * N;
    float sum[N] = {};
    sum_piece<T>(buffers, ranks, at, sum);
    for (int rank = 0; rank < ranks; ++rank) store(static_cast<T*>(buffers.of[rank]) + at, sum);
  }
}

template <class T>
void start_sum(const RankPointers& buffers, int ranks, std::int64_t elements, cudaStream_t stream) {
  constexpr std::int64_t kMaxBlocks = 1024;
  const std::int64_t pieces = elements / kPack<T>, rest = elements % kPack<T>;
  if (pieces > 0) {
    const std::int64_t blocks = min((pieces + kThreads - 1) / kThreads, kMaxBlocks);
    launch(sum_kernel<T, kPack<T>>, static_cast<unsigned>(blocks), kThreads, 0, stream, buffers, ranks, pieces,
           std::int64_t{0});
  }
  if (rest > 0) launch(sum_kernel<T, 1>, 1, kWarpSize, 0, stream, buffers, ranks, rest, pieces * kPack<T>);
}

// ---- ranks on GPUs that access each other's memory: each reads the shares of all others
// ------------------------------

// Block b of every rank sums the same slice. It copies its rank's slice to the staging memory, sets a flag for block b
// of all ranks, waits for their flags, and adds the slices.
//
// The staging memory has two halves that alternate. A half is written again two calls later. A rank that has come that
// far has seen every rank's flag of the call in between, and that rank's kernel of the call before had ended by then.
// Every call has kPeerBlocks blocks, so that all slices alternate together.
template <class T>
__global__ void __launch_bounds__(kThreads) peer_kernel(PeerPart part, T* data, std::int64_t elements) {
  constexpr int N = kPack<T>;
  const std::int64_t pieces = elements / N, each = (pieces + kPeerBlocks - 1) / kPeerBlocks;
  const std::int64_t begin = min(pieces, each * blockIdx.x), end = min(pieces, begin + each);
  const std::uint32_t call = part.calls[blockIdx.x] + 1;
  const std::int64_t half = call % 2 * part.capacity;
  RankPointers from;
  for (int rank = 0; rank < part.ranks; ++rank)
    from.of[rank] = static_cast<unsigned char*>(part.staging.of[rank]) + half;

  auto* own = static_cast<uint4*>(from.of[part.rank]);
  for (std::int64_t p = begin + threadIdx.x; p < end; p += kThreads) own[p] = reinterpret_cast<const uint4*>(data)[p];
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x < static_cast<unsigned>(part.ranks)) {
    const auto peer = threadIdx.x;
    auto* theirs = static_cast<std::uint32_t*>(part.flags.of[peer]) + blockIdx.x * kMaxRanks + part.rank;
    const auto* ours = static_cast<const std::uint32_t*>(part.flags.of[part.rank]) + blockIdx.x * kMaxRanks + peer;
    store_release_system(theirs, call);
    // A peer may be one call ahead, never two. A failed peer never arrives; the host then sets a word in its own
    // memory, which is slow to read and therefore polled rarely.
    for (unsigned turn = 1; static_cast<std::int32_t>(load_acquire_system(ours) - call) < 0; ++turn) {
      if (turn % kTurnsBetweenLooks == 0 && load_acquire_system(part.aborted) != 0) break;
    }
  }
  __syncthreads();
  for (std::int64_t p = begin + threadIdx.x; p < end; p += kThreads) {
    float sum[N] = {};
    sum_piece<T>(from, part.ranks, p * N, sum);
    store(data + p * N, sum);
  }
  if (threadIdx.x == 0) part.calls[blockIdx.x] = call;
}

}  // namespace

void sum_ranks(Element element, const RankPointers& buffers, int ranks, std::int64_t elements, cudaStream_t stream) {
  if (element == Element::f32)
    start_sum<float>(buffers, ranks, elements, stream);
  else
    start_sum<Bf16>(buffers, ranks, elements, stream);
}

void peer_all_reduce(Element element, const PeerPart& part, void* data, std::int64_t elements, cudaStream_t stream) {
  if (element == Element::f32)
    launch(peer_kernel<float>, kPeerBlocks, kThreads, 0, stream, part, static_cast<float*>(data), elements);
  else
    launch(peer_kernel<Bf16>, kPeerBlocks, kThreads, 0, stream, part, static_cast<Bf16*>(data), elements);
}

}  // namespace plimsoll::exec::cuda
