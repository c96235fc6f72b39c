// SPDX-License-Identifier: Apache-2.0
// Prefill attention over the pages of the cache. A block has a tile of query rows of one sequence and one head. Each
// warp has 16 of these rows and keeps their queries in registers. All warps share the tiles of keys and values; the
// next tile is loaded while the current one is used.
#include "exec/cuda/attention.cuh"
#include "exec/cuda/launch.cuh"
#include "exec/cuda/split_plan.h"

namespace plimsoll::exec::cuda {

namespace {

constexpr int kStages = 2;

// Sizes by head dimension, chosen so that the registers and the 99 KB of shared memory of the smallest GPUs suffice.
template <int D>
struct Shape {
  static constexpr int kWarps = D <= 128 ? 8 : 4;
  static constexpr int kKeys = D <= 128 ? 64 : 16;
  static constexpr int kThreads = kWarps * kWarpSize, kRows = kWarps * 16;
  static constexpr int kTileElements = kKeys * kPitch<D>;
  static constexpr std::size_t kSharedBytes = std::size_t{kStages} * 2 * kTileElements * sizeof(Bf16);
  static_assert(kRows * kPitch<D> * sizeof(Bf16) <= kSharedBytes, "the queries fit into the shared memory of the keys");
  static_assert(kPrefillTileRows % kRows == 0 && kSharedBytes <= 99 * 1024);
};

// The rows of a block, and the keys [begin, end) that at least one of them sees.
struct Work {
  DeviceSequence sequence;
  int first = 0, rows = 0, begin = 0, end = 0;
};

// Returns the last key that row `row` sees; -1 if none. Padding rows have the position of the last token.
__device__ __forceinline__ int position_of(const DeviceSequence& sequence, int row) {
  return min(sequence.context + row, sequence.length - 1);
}

template <int D>
__device__ __forceinline__ Work work_of_block(const StepView& step, std::int64_t window) {
  constexpr int kBlocks = kPrefillTileRows / Shape<D>::kRows;  // blocks that share a tile
  const PrefillTile tile = step.tiles[blockIdx.y / kBlocks];
  Work work;
  work.sequence = step.prefill[tile.sequence];
  work.first = tile.first + static_cast<int>(blockIdx.y % kBlocks) * Shape<D>::kRows;
  work.rows = min(Shape<D>::kRows, work.sequence.rows - work.first);
  work.end = position_of(work.sequence, work.first + work.rows - 1) + 1;
  const std::int64_t lowest = position_of(work.sequence, work.first) + 1 - window;
  work.begin = window > 0 && lowest > 0 ? static_cast<int>(lowest) : 0;
  return work;
}

// Starts copying keys and values [first, first + kKeys). Those from `end` on become zeros.
template <int D>
__device__ __forceinline__ void fetch(Bf16* stage, int first, int end, const AttentionArguments& a,
                                      const KvGeometry& kv, const std::int32_t* blocks, int kv_head) {
  constexpr int kPieces = D / 8;  // 16-byte pieces of a key
  for (int i = static_cast<int>(threadIdx.x); i < Shape<D>::kKeys * kPieces; i += Shape<D>::kThreads) {
    const int row = i / kPieces, column = i % kPieces * 8, key = first + row;
    const bool there = key < end;
    std::int64_t offset = 0;
    if (there) {
      offset =
          key_offset(blocks[key / kv.block_tokens], key % kv.block_tokens, kv.kv_heads, kv_head, kv.block_tokens, D) +
          column;
    }
    Bf16* to = stage + row * kPitch<D> + column;
    cp_async_16(to, static_cast<const Bf16*>(a.keys) + offset, there);
    cp_async_16(to + Shape<D>::kTileElements, static_cast<const Bf16*>(a.values) + offset, there);
  }
}

template <int D>
__device__ __forceinline__ void load_queries(Bf16* shared, const AttentionArguments& a, const Work& work, int head,
                                             std::uint32_t (&q)[D / 16][4]) {
  const std::int64_t first_row = work.sequence.first_row + work.first;
  const Bf16* from = static_cast<const Bf16*>(a.qkv) + first_row * a.row_stride + std::int64_t{head} * D;
  for (int i = static_cast<int>(threadIdx.x); i < Shape<D>::kRows * D / 8; i += Shape<D>::kThreads) {
    const int row = i / (D / 8), column = i % (D / 8) * 8;
    const uint4 piece =
        row < work.rows ? *reinterpret_cast<const uint4*>(from + row * a.row_stride + column) : make_uint4(0, 0, 0, 0);
    *reinterpret_cast<uint4*>(shared + row * kPitch<D> + column) = piece;
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int step = 0; step < D / 16; ++step)
    ldmatrix_x4(q[step], a_address<D>(shared + warp * 16 * kPitch<D>, lane) + step * 16);
  __syncthreads();  // keys may overwrite the queries' memory
}

// Sets the scores of keys that a row must not see to -inf. `low` and `high` are the positions of rows g and g + 8 of
// this lane.
template <int Tiles>
__device__ __forceinline__ void mask(float (&s)[Tiles][4], int first_key, int low, int high, std::int64_t window,
                                     int lane) {
#pragma unroll
  for (int t = 0; t < Tiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first_key + t * 8 + lane % 4 * 2 + i % 2, position = i < 2 ? low : high;
      if (key > position || (window > 0 && key + window <= position)) s[t][i] = -INFINITY;
    }
  }
}

template <int D>
__device__ __forceinline__ void write(const OnlineSoftmax<D>& state, const AttentionArguments& a, const Work& work,
                                      int head) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = warp * 16 + lane / 4 + half * 8;
    if (row >= work.rows) continue;
    const float factor = state.sum[half] > 0 ? 1 / state.sum[half] : 0.0F;
    const std::int64_t to =
        ((work.sequence.first_row + work.first + row) * std::int64_t{a.heads} + head) * D + lane % 4 * 2;
#pragma unroll
    for (int t = 0; t < D / 8; ++t) {
      *reinterpret_cast<std::uint32_t*>(static_cast<Bf16*>(a.attended) + to + t * 8) =
          pack_bf16(state.out[t][2 * half] * factor, state.out[t][2 * half + 1] * factor);
    }
  }
}

// The keys that a warp's rows see. `low` and `high` are the positions of a lane's two rows. No row of the warp needs
// the mask for keys from the start of its last row's window up to its first row's position.
struct Sight {
  int low, high, safe_end;
  std::int64_t safe_begin;
};

__device__ __forceinline__ Sight sight_of(const Work& work, std::int64_t window, int warp, int lane) {
  const int first = work.first + warp * 16;
  return {position_of(work.sequence, first + lane / 4), position_of(work.sequence, first + lane / 4 + 8),
          position_of(work.sequence, first), window > 0 ? position_of(work.sequence, first + 15) + 1 - window : 0};
}

// Processes a warp's 16 queries with a tile of keys and values, whose first key is number `first`.
template <int D, class LoadQ>
__device__ __forceinline__ void attend(OnlineSoftmax<D>& state, const Bf16* tile, int first, const Sight& sight,
                                       const AttentionArguments& a, const LoadQ& load_q, int lane) {
  using S = Shape<D>;
  float s[S::kKeys / 8][4] = {};
#pragma unroll
  for (int t = 0; t < S::kKeys / 16; ++t) {
    score_16_keys<D>(s[2 * t], s[2 * t + 1], load_q, tile + t * 16 * kPitch<D>, lane);
  }
  cap_scores(s, a);
  if (first + S::kKeys - 1 > sight.safe_end || first < sight.safe_begin)
    mask(s, first, sight.low, sight.high, a.window, lane);
  weigh<D, S::kKeys / 8>(state, s, a.scale * kLog2E);
#pragma unroll
  for (int t = 0; t < S::kKeys / 16; ++t) {
    add_16_values<D>(state, s[2 * t], s[2 * t + 1], tile + S::kTileElements + t * 16 * kPitch<D>, lane);
  }
}

template <int D>
__global__ void __launch_bounds__(Shape<D>::kThreads, 1)
    prefill_kernel(AttentionArguments a, KvGeometry kv, StepView step) {
  begin_kernel();
  using S = Shape<D>;
  const Work work = work_of_block<D>(step, a.window);
  if (work.rows <= 0) return;  // the tile has no rows for this block
  const int head = static_cast<int>(blockIdx.x), kv_head = head / (a.heads / kv.kv_heads);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int32_t* blocks = step.blocks + work.sequence.first_block;
  auto* shared = reinterpret_cast<Bf16*>(dynamic_shared());
  std::uint32_t q[D / 16][4];
  load_queries<D>(shared, a, work, head, q);

  const Sight sight = sight_of(work, a.window, warp, lane);
  const auto stage = [&](int i) { return shared + i % kStages * 2 * S::kTileElements; };
  const auto load_q = [&](int k, std::uint32_t(&to)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = q[k][i];
  };
  OnlineSoftmax<D> state;
  if (a.sinks != nullptr) start_with_sinks<D>(state, a.sinks[head], a.sinks[head], lane);
  const int tiles = (work.end - work.begin + S::kKeys - 1) / S::kKeys;
  if (tiles > 0) fetch<D>(stage(0), work.begin, work.end, a, kv, blocks, kv_head);
  cp_async_commit();
  for (int tile = 0; tile < tiles; ++tile) {
    const int first = work.begin + tile * S::kKeys;
    if (tile + 1 < tiles) fetch<D>(stage(tile + 1), first + S::kKeys, work.end, a, kv, blocks, kv_head);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    attend<D>(state, stage(tile), first, sight, a, load_q, lane);
    __syncthreads();  // the next iteration refills the stage
  }
  finish<D>(state);
  write<D>(state, a, work, head);
}

template <int D>
void start(const AttentionArguments& a, const KvGeometry& kv, const StepView& step, std::int64_t tiles,
           cudaStream_t stream) {
  using S = Shape<D>;
  constexpr std::int64_t kMaxCount = 16'384;  // a grid's second dimension is limited to 65535
  for (std::int64_t done = 0; done < tiles; done += kMaxCount) {
    StepView part = step;
    part.tiles += done;
    const std::int64_t blocks = min(tiles - done, kMaxCount) * (kPrefillTileRows / S::kRows);
    launch(prefill_kernel<D>, dim3(static_cast<unsigned>(a.heads), static_cast<unsigned>(blocks)), S::kThreads,
           S::kSharedBytes, stream, a, kv, part);
  }
}

}  // namespace

void prefill_attention_bf16(const AttentionArguments& arguments, const KvGeometry& kv, const StepView& step,
                            std::int64_t tiles, cudaStream_t stream) {
  switch (kv.head_dim) {
    case 64: return start<64>(arguments, kv, step, tiles, stream);
    case 80: return start<80>(arguments, kv, step, tiles, stream);
    case 96: return start<96>(arguments, kv, step, tiles, stream);
    case 112: return start<112>(arguments, kv, step, tiles, stream);
    case 128: return start<128>(arguments, kv, step, tiles, stream);
    case 160: return start<160>(arguments, kv, step, tiles, stream);
    case 192: return start<192>(arguments, kv, step, tiles, stream);
    case 256: return start<256>(arguments, kv, step, tiles, stream);
    default: PLIMSOLL_CHECK(false, "the tensor-core kernels support the head dimension");
  }
}

}  // namespace plimsoll::exec::cuda
