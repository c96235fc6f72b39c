// SPDX-License-Identifier: Apache-2.0
// Sums over the ranks of a tensor-parallel group, in f32 and in order of rank, so that all ranks get the same bits.
// None of these kernels lets the next one start early: its waiting blocks could keep out a rank on the same GPU that
// this one waits for.
#include "exec/cuda/device.cuh"
#include "exec/cuda/kernels.h"
#include "exec/cuda/launch.cuh"

namespace plimsoll::exec::cuda {

namespace {

constexpr int kThreads = 256;
constexpr unsigned kTurnsBetweenLooks = 256;  // polls of a peer's flag between two reads of the host's abort word

// ---- ranks on one device -------------------------------------------------------------------------------------------

// Sums over the ranks the aligned 16 bytes at `offset` bytes after each rank's pointer. Several ranks' loads are in
// flight at once, because memory behind NVLink answers after some microseconds.
template <class T>
__device__ __forceinline__ void sum_16(const RankPointers& from, int ranks, std::int64_t offset,
                                       float (&sum)[kPack<T>]) {
  constexpr int kAtOnce = 8;
  for (int first = 0; first < ranks; first += kAtOnce) {
    uint4 pieces[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i < ranks) pieces[i] = load_16(static_cast<const unsigned char*>(from.of[first + i]) + offset);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i >= ranks) continue;
      float values[kPack<T>];
      unpack(pieces[i], values);
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) sum[j] += values[j];
    }
  }
}

__device__ __forceinline__ uint4 pack(const float (&values)[4]) {
  return make_uint4(__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
                    __float_as_uint(values[3]));
}
__device__ __forceinline__ uint4 pack(const float (&values)[8]) {
  return make_uint4(pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]), pack_bf16(values[4], values[5]),
                    pack_bf16(values[6], values[7]));
}

template <class T>
__global__ void sum_kernel(const __grid_constant__ RankPointers buffers, int ranks, std::int64_t pieces) {
  wait_for_previous_kernel();
  for (std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; p < pieces;
       p += std::int64_t{gridDim.x} * blockDim.x) {
    float sum[kPack<T>] = {};
    sum_16<T>(buffers, ranks, p * 16, sum);
    const uint4 packed = pack(sum);
    for (int rank = 0; rank < ranks; ++rank) store_16(static_cast<unsigned char*>(buffers.of[rank]) + p * 16, packed);
  }
}

// The elements behind the last whole piece, one a thread.
template <class T>
__global__ void sum_rest_kernel(const __grid_constant__ RankPointers buffers, int ranks, std::int64_t rest,
                                std::int64_t first) {
  wait_for_previous_kernel();
  if (threadIdx.x >= rest) return;
  const std::int64_t at = first + threadIdx.x;
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += to_float(static_cast<const T*>(buffers.of[rank])[at]);
  for (int rank = 0; rank < ranks; ++rank) static_cast<T*>(buffers.of[rank])[at] = from_float<T>(sum);
}

template <class T>
void start_sum(const RankPointers& buffers, int ranks, std::int64_t elements, cudaStream_t stream) {
  constexpr std::int64_t kMaxBlocks = 1024;
  const std::int64_t pieces = elements / kPack<T>, rest = elements % kPack<T>;
  if (pieces > 0) {
    const std::int64_t blocks = min((pieces + kThreads - 1) / kThreads, kMaxBlocks);
    launch(sum_kernel<T>, static_cast<unsigned>(blocks), kThreads, 0, stream, buffers, ranks, pieces);
  }
  if (rest > 0) launch(sum_rest_kernel<T>, 1, kWarpSize, 0, stream, buffers, ranks, rest, pieces * kPack<T>);
}

// ---- ranks on GPUs that access each other's memory: each reads the shares of all others ----------------------------

// Block b of every rank sums the same slice. It copies its rank's slice to the staging memory, sets a flag for block b
// of all ranks, waits for their flags, and adds the slices.
//
// The staging memory has two halves that alternate, so a half is written again two calls later. By then, the rank has
// seen every rank's flag of the call in between, which each rank set after its kernel of the earlier call had ended.
// Every call has kPeerBlocks blocks, so all slices alternate together.
template <class T>
__global__ void __launch_bounds__(kThreads)
    peer_kernel(const __grid_constant__ PeerPart part, T* data, std::int64_t elements) {
  wait_for_previous_kernel();
  constexpr int N = kPack<T>;
  const std::int64_t pieces = elements / N, each = (pieces + kPeerBlocks - 1) / kPeerBlocks;
  const std::int64_t begin = min(pieces, each * blockIdx.x), end = min(pieces, begin + each);
  const std::uint32_t call = part.calls[blockIdx.x] + 1;
  const std::int64_t half = call % 2 * part.capacity;
  auto* own = static_cast<unsigned char*>(part.staging.of[part.rank]) + half;
  for (std::int64_t p = begin + threadIdx.x; p < end; p += kThreads) store_16(own + p * 16, load_16(data + p * N));
  // The peers must be able to see the staged data before they see the flag.
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
    sum_16<T>(part.staging, part.ranks, half + p * 16, sum);
    store_16(data + p * N, pack(sum));
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
