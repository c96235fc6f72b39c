// SPDX-License-Identifier: Apache-2.0
// The grouped product of the experts. The grid has blocks for the largest possible number of row tiles. Each block
// determines on the device which expert's rows it has, if any.
#include "exec/cuda/device.cuh"
#include "exec/cuda/kernels.h"
#include "exec/cuda/launch.cuh"

namespace plimsoll::exec::cuda {

namespace {

struct RowTile {
  int expert = -1;  // -1: no tile for this block
  int first = 0, rows = 0;
};

// Finds tile number `index` when every expert's rows are cut into tiles of `rows`. Must be called by one whole warp. In
// each round, lane l looks at one of the experts l, l + 32, ...
__device__ __forceinline__ RowTile find_tile(const std::int32_t* offsets, int experts, int rows, int index, int lane) {
  int before = 0;  // tiles of the experts of earlier rounds
  for (int base = 0; base < experts; base += kWarpSize) {
    const int expert = base + lane;
    const int first = expert < experts ? offsets[expert] : 0, end = expert < experts ? offsets[expert + 1] : 0;
    const int own = (end - first + rows - 1) / rows;
    int up_to = own;  // tiles of this round up to and including this expert
#pragma unroll
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
      const int lower = __shfl_up_sync(kAllLanes, up_to, static_cast<unsigned>(distance));
      if (lane >= distance) up_to += lower;
    }
    const int from = before + up_to - own;
    const unsigned has = __ballot_sync(kAllLanes, index >= from && index < from + own);
    if (has != 0) {
      const int lane_of = __ffs(static_cast<int>(has)) - 1;
      const int tile_first = first + (index - from) * rows;
      RowTile tile;
      tile.expert = base + lane_of;
      tile.first = __shfl_sync(kAllLanes, tile_first, lane_of);
      tile.rows = min(rows, __shfl_sync(kAllLanes, end, lane_of) - tile.first);
      return tile;
    }
    before += __shfl_sync(kAllLanes, up_to, kWarpSize - 1);
  }
  return {};
}

__device__ __forceinline__ RowTile tile_of_block(const std::int32_t* offsets, int experts, int rows) {
  __shared__ int shared[3];
  if (threadIdx.x < kWarpSize) {
    const RowTile found =
        find_tile(offsets, experts, rows, static_cast<int>(blockIdx.y), static_cast<int>(threadIdx.x));
    if (threadIdx.x == 0) {
      shared[0] = found.expert;
      shared[1] = found.first;
      shared[2] = found.rows;
    }
  }
  __syncthreads();
  return {shared[0], shared[1], shared[2]};
}

// ---- tensor cores: 64 rows x 64 columns per block, 16 x 64 per warp, 32 of k at a time -----------------------------

constexpr int kTile = 64, kDepth = 32, kPitchElements = kDepth + 8;
constexpr int kWarps = 4, kThreads = kWarps * kWarpSize;

// Loads kTile rows of [*, k] from `first` on, columns [column, column + kDepth). Elements beyond `rows` or k become
// zeros.
__device__ __forceinline__ void fetch(Bf16 (&to)[kTile][kPitchElements], const Bf16* from, std::int64_t rows,
                                      std::int64_t k, std::int64_t column) {
  constexpr int kPieces = kDepth / 8;
#pragma unroll
  for (int i = 0; i < kTile * kPieces / kThreads; ++i) {
    const int piece = i * kThreads + static_cast<int>(threadIdx.x), row = piece / kPieces, at = piece % kPieces * 8;
    const bool there = row < rows && column + at < k;
    cp_async_16(&to[row][at], from + (there ? row * k + column + at : 0), there);
  }
}

// Multiplies a warp's 16 rows with 64 columns over the loaded depth.
__device__ __forceinline__ void multiply(float (&sum)[kTile / 8][4], const Bf16 (&x)[kTile][kPitchElements],
                                         const Bf16 (&w)[kTile][kPitchElements], int warp, int lane) {
#pragma unroll
  for (int step = 0; step < kDepth / 16; ++step) {
    std::uint32_t a[4];
    ldmatrix_x4(a, &x[warp * 16 + lane % 16][lane / 16 * 8 + step * 16]);
#pragma unroll
    for (int t = 0; t < kTile / 16; ++t) {  // 16 columns: rows of W
      std::uint32_t b[4];
      ldmatrix_x4(b, &w[t * 16 + lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8 + step * 16]);
      mma_bf16(sum[2 * t], a, b[0], b[1]);
      mma_bf16(sum[2 * t + 1], a, b[2], b[3]);
    }
  }
}

__device__ __forceinline__ void write_sums(const ExpertArguments& a, const float (&sum)[kTile / 8][4],
                                           const RowTile& tile, std::int64_t column, int warp, int lane) {
  const float* bias = a.bias == nullptr ? nullptr : a.bias + tile.expert * a.n;
#pragma unroll
  for (int t = 0; t < kTile / 8; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = warp * 16 + lane / 4 + i / 2 * 8;
      const std::int64_t to = column + t * 8 + lane % 4 * 2 + i % 2;
      if (row >= tile.rows || to >= a.n) continue;
      static_cast<Bf16*>(a.y)[(tile.first + row) * a.n + to] = to_bf16(sum[t][i] + (bias == nullptr ? 0.0F : bias[to]));
    }
  }
}

__global__ void __launch_bounds__(kThreads) expert_kernel_bf16(ExpertArguments a) {
  begin_kernel();
  const std::int64_t n = a.n, k = a.k;
  __shared__ __align__(16) Bf16 xs[2][kTile][kPitchElements];
  __shared__ __align__(16) Bf16 ws[2][kTile][kPitchElements];
  const RowTile tile = tile_of_block(a.offsets, a.experts, kTile);
  if (tile.expert < 0) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int64_t column = std::int64_t{blockIdx.x} * kTile;
  const Bf16* from_x = static_cast<const Bf16*>(a.x) + tile.first * k;
  const Bf16* from_w = static_cast<const Bf16*>(a.weight) + (tile.expert * n + column) * k;
  float sum[kTile / 8][4] = {};
  const int depths = static_cast<int>((k + kDepth - 1) / kDepth);
  fetch(xs[0], from_x, tile.rows, k, 0);
  fetch(ws[0], from_w, n - column, k, 0);
  cp_async_commit();
  // Two buffers: the next depth is on its way while this one is multiplied. The last turn commits an empty group, so
  // that one group is always left in flight.
  for (int depth = 0; depth < depths; ++depth) {
    if (depth + 1 < depths) {
      fetch(xs[(depth + 1) % 2], from_x, tile.rows, k, std::int64_t{depth + 1} * kDepth);
      fetch(ws[(depth + 1) % 2], from_w, n - column, k, std::int64_t{depth + 1} * kDepth);
    }
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    // The next turn overwrites this buffer, so all warps must have read it by then.
    multiply(sum, xs[depth % 2], ws[depth % 2], warp, lane);
    __syncthreads();
  }
  write_sums(a, sum, tile, column, warp, lane);
}

// ---- plain: f32, or unaligned rows; 32 x 32 per block -------------------------------------------------------------

constexpr int kPlainTile = 32;

template <class T>
__global__ void __launch_bounds__(256) expert_kernel_plain(ExpertArguments a) {
  begin_kernel();
  const std::int64_t n = a.n, k = a.k;
  const T *weight = static_cast<const T*>(a.weight), *x = static_cast<const T*>(a.x);
  __shared__ float xs[kPlainTile][kPlainTile + 1], ws[kPlainTile][kPlainTile + 1];
  const RowTile tile = tile_of_block(a.offsets, a.experts, kPlainTile);
  if (tile.expert < 0) return;
  const int across = static_cast<int>(threadIdx.x) % kPlainTile, down = static_cast<int>(threadIdx.x) / kPlainTile;
  const std::int64_t column = std::int64_t{blockIdx.x} * kPlainTile;
  float sum[4] = {};  // rows down, down + 8, ...; column `across`
  for (std::int64_t base = 0; base < k; base += kPlainTile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = down + i * 8;
      const bool in_k = base + across < k;
      xs[row][across] = in_k && row < tile.rows ? to_float(x[(tile.first + row) * k + base + across]) : 0.0F;
      ws[row][across] =
          in_k && column + row < n ? to_float(weight[(tile.expert * n + column + row) * k + base + across]) : 0.0F;
    }
    __syncthreads();
    for (int j = 0; j < kPlainTile; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) sum[i] += xs[down + i * 8][j] * ws[across][j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = down + i * 8;
    if (row >= tile.rows || column + across >= n) continue;
    const float bias = a.bias == nullptr ? 0.0F : a.bias[tile.expert * n + column + across];
    static_cast<T*>(a.y)[(tile.first + row) * n + column + across] = from_float<T>(sum[i] + bias);
  }
}

// Returns the largest number of tiles of `tile` rows that `rows` rows of `experts` experts can need.
unsigned most_tiles(std::int64_t rows, std::int64_t experts, std::int64_t tile) {
  return static_cast<unsigned>(rows / tile + min(rows, experts));
}

}  // namespace

void expert_linear(Element element, const ExpertArguments& arguments, cudaStream_t stream) {
  const bool tensor_cores = element == Element::bf16 && arguments.k % 8 == 0;
  const std::int64_t tile = tensor_cores ? kTile : kPlainTile;
  const dim3 grid(static_cast<unsigned>((arguments.n + tile - 1) / tile),
                  most_tiles(arguments.rows, arguments.experts, tile));
  if (tensor_cores)
    launch(expert_kernel_bf16, grid, kThreads, 0, stream, arguments);
  else
    launch(element == Element::f32 ? expert_kernel_plain<float> : expert_kernel_plain<Bf16>, grid, 256, 0, stream,
           arguments);
}

}  // namespace plimsoll::exec::cuda
