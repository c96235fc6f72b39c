// SPDX-License-Identifier: Apache-2.0
// Decode attention in one kernel. A block handles one sequence, one part of the keys, and one KV head. Up to 16 of the
// query heads that share the KV head are the rows of its tensor-core products. Its warps take turns at tiles of 16
// keys, each with its own copies in flight, and synchronise only at the end. Of the blocks of one sequence and head,
// the last to finish adds up the parts, always in the same order.
#include "exec/cuda/attention.cuh"
#include "exec/cuda/launch.cuh"
#include "exec/cuda/split_plan.h"

namespace plimsoll::exec::cuda {

namespace {

constexpr int kQueries = 16;   // rows of a product
constexpr int kTileKeys = 16;  // keys per tile of one warp
constexpr int kStages = 2;
constexpr int kMinPart = 2;  // tiles per warp, so that both stages are used

template <int D>
constexpr int kWarps = D <= 128 ? 4 : 2;  // shared memory: 72.3 KiB at D = 128, 74.3 at D = 256
template <int D>
constexpr int kThreads = kWarps<D>* kWarpSize;
template <int D>
constexpr int kTileElements = kTileKeys* kPitch<D>;
template <int D>
constexpr std::size_t kSharedBytes = (kQueries * kPitch<D> + kWarps<D> * kStages * 2 * kTileElements<D>)*sizeof(Bf16);

// The result of a part: [16][D] sums relative to the maximum, then 16 maxima, then 16 sums of weights.
template <int D>
constexpr int kPartFloats = kQueries*(D + 2);

__host__ __device__ constexpr int query_tiles(int group) { return (group + kQueries - 1) / kQueries; }

struct BlockWork {  // the work of one block
  int kv_head, first_head, heads, part;
  std::int64_t index;  // number of the sequence and tile of query heads
};

__device__ __forceinline__ BlockWork work_of_block(const AttentionArguments& a, const KvGeometry& kv,
                                                   const DecodePart& part) {
  const int group = a.heads / kv.kv_heads, tiles = query_tiles(group);
  BlockWork p;
  const int tile = static_cast<int>(blockIdx.y) % tiles;
  p.kv_head = static_cast<int>(blockIdx.y) / tiles;
  p.first_head = p.kv_head * group + tile * kQueries;
  p.heads = min(kQueries, group - tile * kQueries);
  p.part = part.part;
  p.index = std::int64_t{part.sequence} * gridDim.y + blockIdx.y;
  return p;
}

// Starts copying 16 keys and values, beginning with key `first`, to a stage of one warp. Lane l knows the position of
// key first + l % 16.
template <int D>
__device__ __forceinline__ void fetch(Bf16* stage, int first, const KeyRange& keys, const AttentionArguments& a,
                                      const KvGeometry& kv, const std::int32_t* blocks, int kv_head, int lane) {
  const int key = first + lane % kTileKeys;
  const bool own_present = key < keys.last;
  std::int64_t own_offset = 0;
  if (own_present) {
    // For charged keys beyond those in the cache, read present keys again: the row then takes the charged time.
    const int source = key < keys.seen ? key : key % keys.seen;
    own_offset = key_offset(blocks[source / kv.block_tokens], source % kv.block_tokens, kv.kv_heads, kv_head,
                            kv.block_tokens, D);
  }
  const unsigned present = __ballot_sync(kAllLanes, own_present);
  constexpr int kPieces = D / 8;  // 16-byte pieces of a key
#pragma unroll
  for (int i = 0; i < kTileKeys * kPieces / kWarpSize; ++i) {
    const int piece = i * kWarpSize + lane, row = piece / kPieces, column = piece % kPieces * 8;
    const std::int64_t offset = __shfl_sync(kAllLanes, own_offset, row) + column;
    const bool there = (present >> row & 1U) != 0;
    Bf16* to = stage + row * kPitch<D> + column;
    cp_async_16(to, static_cast<const Bf16*>(a.keys) + offset, there);
    cp_async_16(to + kTileElements<D>, static_cast<const Bf16*>(a.values) + offset, there);
  }
}

template <int D>
__device__ __forceinline__ void load_queries(Bf16* to, const AttentionArguments& a, std::int64_t row,
                                             const BlockWork& p) {
  const Bf16* from = static_cast<const Bf16*>(a.qkv) + row * a.row_stride + std::int64_t{p.first_head} * D;
  for (int i = static_cast<int>(threadIdx.x); i < kQueries * D / 8; i += kThreads<D>) {
    const int head = i / (D / 8), column = i % (D / 8) * 8;
    const uint4 piece =
        head < p.heads ? *reinterpret_cast<const uint4*>(from + head * D + column) : make_uint4(0, 0, 0, 0);
    *reinterpret_cast<uint4*>(to + head * kPitch<D> + column) = piece;
  }
}

// Processes one warp's share of the part's keys: tiles [first, last), each of kWarps tiles of 16 keys.
template <int D>
__device__ __forceinline__ void attend(OnlineSoftmax<D>& state, const Bf16* queries, Bf16* stages,
                                       const AttentionArguments& a, const KvGeometry& kv, const StepView& step,
                                       const DeviceSequence& sequence, const KeyRange& keys, const BlockWork& p,
                                       int first, int last) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int32_t* blocks = step.blocks + sequence.first_block;
  const auto first_key = [&](int tile) { return keys.first + (tile * kWarps<D> + warp) * kTileKeys; };
  const auto stage = [&](int tile) { return stages + (warp * kStages + tile % kStages) * 2 * kTileElements<D>; };
  const auto load_q = [&](int k, std::uint32_t(&q)[4]) { ldmatrix_x4(q, a_address<D>(queries, lane) + k * 16); };
  // Two stages: while one tile is multiplied, the next is copied. The commits outside the condition keep the count of
  // groups in step for all warps.
  if (first < last) fetch<D>(stage(first), first_key(first), keys, a, kv, blocks, p.kv_head, lane);
  cp_async_commit();
  for (int tile = first; tile < last; ++tile) {
    if (tile + 1 < last) fetch<D>(stage(tile + 1), first_key(tile + 1), keys, a, kv, blocks, p.kv_head, lane);
    cp_async_commit();
    cp_async_wait<1>();
    __syncwarp();
    float s[2][4] = {};
    score_16_keys<D>(s[0], s[1], load_q, stage(tile), lane);
    cap_scores(s, a);
#pragma unroll
    for (int t = 0; t < 2; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (first_key(tile) + t * 8 + lane % 4 * 2 + i % 2 >= keys.seen) s[t][i] = -INFINITY;
      }
    }
    weigh<D, 2>(state, s, a.scale * kLog2E);
    add_16_values<D>(state, s[0], s[1], stage(tile) + kTileElements<D>, lane);
    __syncwarp();  // the next iteration refills the stage
  }
  finish<D>(state);
}

// Adds up the warps' results through shared memory: out[row * D + i], relative to top[row], with weights that sum to
// total[row].
template <int D>
__device__ __forceinline__ void merge_warps(const OnlineSoftmax<D>& state, float* shared, float* out, float* top,
                                            float* total, int heads) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, lane = static_cast<int>(threadIdx.x) % kWarpSize;
  float* sums = shared;                               // [kWarps][16][D]
  float* maxima = shared + kWarps<D> * kQueries * D;  // [kWarps][16]
  float* totals = maxima + kWarps<D> * kQueries;      // [kWarps][16]
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = lane / 4 + half * 8;
#pragma unroll
    for (int t = 0; t < D / 8; ++t) {
      float* to = sums + (warp * kQueries + row) * D + t * 8 + lane % 4 * 2;
      to[0] = state.out[t][2 * half];
      to[1] = state.out[t][2 * half + 1];
    }
    if (lane % 4 == 0) {
      maxima[warp * kQueries + row] = state.maximum[half];
      totals[warp * kQueries + row] = state.sum[half];
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < heads * D; i += kThreads<D>) {
    const int row = i / D;
    float most = -INFINITY;
    for (int w = 0; w < kWarps<D>; ++w) most = fmaxf(most, maxima[w * kQueries + row]);
    // Without keys, all maxima are -inf, and subtracting them would give NaN.
    const float base = most == -INFINITY ? 0.0F : most;
    float sum = 0, weight = 0;
    for (int w = 0; w < kWarps<D>; ++w) {
      const float factor = exp2f(maxima[w * kQueries + row] - base);
      sum += factor * sums[w * kQueries * D + i];
      weight += factor * totals[w * kQueries + row];
    }
    out[i] = sum;
    if (i % D == 0) {
      top[row] = most;
      total[row] = weight;
    }
  }
}

// Returns true in all threads of the block that arrives last of `parts`. That block sees what the others have written.
__device__ bool is_last(std::uint32_t* counter, int parts) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned others = static_cast<unsigned>(parts) - 1;
    last = atomicInc(counter, others) == others;  // the last one resets the counter for the next launch
    __threadfence();
  }
  __syncthreads();
  return last;
}

template <int D>
__device__ void write_row_major(const AttentionArguments& a, std::int64_t row, const BlockWork& p, int i, float value) {
  static_cast<Bf16*>(a.attended)[(row * a.heads + p.first_head) * D + i] = to_bf16(value);
}

// Adds up the parts for this sequence and these heads.
template <int D>
__device__ void merge_parts(const AttentionArguments& a, const BlockWork& p, std::int64_t row, const float* parts,
                            int count) {
  for (int i = static_cast<int>(threadIdx.x); i < p.heads * D; i += kThreads<D>) {
    const float* maxima = parts + kQueries * D + i / D;
    float most = -INFINITY;
    for (int part = 0; part < count; ++part) most = fmaxf(most, maxima[part * kPartFloats<D>]);
    const float base = most == -INFINITY ? 0.0F : most;
    float sum = 0, weight = 0;
    for (int part = 0; part < count; ++part) {
      const float factor = exp2f(maxima[part * kPartFloats<D>] - base);
      sum += factor * parts[part * kPartFloats<D> + i];
      weight += factor * maxima[part * kPartFloats<D> + kQueries];
    }
    write_row_major<D>(a, row, p, i, weight > 0 ? sum / weight : 0.0F);
  }
}

template <int D>
__global__ void __launch_bounds__(kThreads<D>)
    decode_kernel(AttentionArguments a, KvGeometry kv, StepView step, DecodeScratch scratch) {
  begin_kernel();
  const DecodePart part = step.parts[blockIdx.x];
  if (part.sequence < 0) return;  // the list is as long for all lengths of contexts
  const BlockWork p = work_of_block(a, kv, part);
  const DeviceSequence sequence = step.decode[part.sequence];
  const KeyRange keys = decode_keys(sequence.length, sequence.charged, a.window);
  // Long contexts are split over several blocks, or one long sequence would be read by a few multiprocessors.
  const SplitPlan plan = plan_splits(keys.last - keys.first, kWarps<D> * kTileKeys, kMinPart, sequence.splits);
  // A layer with a window reads fewer keys than the list was made for.
  if (p.part >= plan.parts) return;
  const std::int64_t row = sequence.first_row;

  auto* queries = reinterpret_cast<Bf16*>(dynamic_shared());
  Bf16* stages = queries + kQueries * kPitch<D>;
  load_queries<D>(queries, a, row, p);
  __syncthreads();
  OnlineSoftmax<D> state;
  const int first = p.part * plan.tiles_each;
  if (a.sinks != nullptr && p.part == 0 && threadIdx.x < kWarpSize) {  // once in all parts and warps
    const int lane = static_cast<int>(threadIdx.x), low = lane / 4, high = low + 8;
    const float* sinks = a.sinks + p.first_head;
    start_with_sinks<D>(state, low < p.heads ? sinks[low] : -INFINITY, high < p.heads ? sinks[high] : -INFINITY, lane);
  }
  attend<D>(state, queries, stages, a, kv, step, sequence, keys, p, first, min(first + plan.tiles_each, plan.tiles));
  __syncthreads();  // the merge reuses the stages' memory

  if (plan.parts == 1) {
    __shared__ float top[kQueries], total[kQueries];
    auto* shared = reinterpret_cast<float*>(stages);
    float* out = reinterpret_cast<float*>(stages) + kWarps<D> * kQueries * (D + 2);
    merge_warps<D>(state, shared, out, top, total, p.heads);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < p.heads * D; i += kThreads<D>) {
      write_row_major<D>(a, row, p, i, total[i / D] > 0 ? out[i] / total[i / D] : 0.0F);
    }
    return;
  }
  const std::int64_t before =
      std::int64_t{sequence.first_part} * gridDim.y + std::int64_t{blockIdx.y} * sequence.splits;
  float* parts = scratch.partial + before * kPartFloats<D>;
  float* own = parts + p.part * kPartFloats<D>;
  merge_warps<D>(state, reinterpret_cast<float*>(stages), own, own + kQueries * D, own + kQueries * (D + 1), p.heads);
  if (is_last(scratch.arrived + p.index, plan.parts)) merge_parts<D>(a, p, row, parts, plan.parts);
}

// The merge needs memory for the warps' results and for the block's own.
template <int D>
constexpr bool kMergeFits = (kWarps<D> * (D + 2) + D) * kQueries * sizeof(float) <= kWarps<D>* kStages *
                                                                                        2 * kTileElements<D> *
                                                                                        sizeof(Bf16);
static_assert(kMergeFits<64> && kMergeFits<80> && kMergeFits<96> && kMergeFits<112> && kMergeFits<128>);
static_assert(kMergeFits<160> && kMergeFits<192> && kMergeFits<256>);

template <int D>
void start(const AttentionArguments& a, const KvGeometry& kv, const StepView& step, std::int64_t parts,
           const DecodeScratch& scratch, cudaStream_t stream) {
  const int tiles = kv.kv_heads * query_tiles(a.heads / kv.kv_heads);
  const dim3 grid(static_cast<unsigned>(parts), static_cast<unsigned>(tiles));
  launch(decode_kernel<D>, grid, kThreads<D>, kSharedBytes<D>, stream, a, kv, step, scratch);
}

}  // namespace

// Two blocks per multiprocessor keep the memory busy. More parts would only add work to the merge.
std::int64_t decode_extra_parts(std::int32_t heads, std::int32_t kv_heads, std::int32_t multiprocessors) {
  return 2 * multiprocessors / decode_counters(1, heads, kv_heads);
}

std::int64_t decode_smallest_part(std::int32_t head_dim) {
  return kMinPart * kTileKeys * (head_dim <= 128 ? kWarps<128> : kWarps<256>);
}

// plan_decodes() adds at most decode_extra_parts() parts, so the rows that are split have at most twice as many in all.
std::int64_t decode_partial_floats(std::int32_t head_dim, std::int32_t multiprocessors) {
  return std::int64_t{4} * multiprocessors * kQueries * (head_dim + 2);
}

std::int64_t decode_counters(std::int64_t sequences, std::int32_t heads, std::int32_t kv_heads) {
  return sequences * kv_heads * query_tiles(heads / kv_heads);
}

void decode_attention_bf16(const AttentionArguments& arguments, const KvGeometry& kv, const StepView& step,
                           std::int64_t parts, const DecodeScratch& scratch, cudaStream_t stream) {
  switch (kv.head_dim) {
    case 64: return start<64>(arguments, kv, step, parts, scratch, stream);
    case 80: return start<80>(arguments, kv, step, parts, scratch, stream);
    case 96: return start<96>(arguments, kv, step, parts, scratch, stream);
    case 112: return start<112>(arguments, kv, step, parts, scratch, stream);
    case 128: return start<128>(arguments, kv, step, parts, scratch, stream);
    case 160: return start<160>(arguments, kv, step, parts, scratch, stream);
    case 192: return start<192>(arguments, kv, step, parts, scratch, stream);
    case 256: return start<256>(arguments, kv, step, parts, scratch, stream);
    default: PLIMSOLL_CHECK(false, "the tensor-core kernels support the head dimension");
  }
}

}  // namespace plimsoll::exec::cuda
