// SPDX-License-Identifier: Apache-2.0
// Attention without tensor cores, for f32, mixed types and unusual head dimensions, in decode and prefill. A block has
// one query row and head; its warps take 32 keys at a time in turn. First each lane compares the query with one key,
// then the lanes divide the dimensions of the values among them.
#include "exec/cuda/device.cuh"
#include "exec/cuda/kernels.h"
#include "exec/cuda/launch.cuh"
#include "exec/cuda/split_plan.h"

namespace plimsoll::exec::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 256;
constexpr int kPerLane = kMaxHeadDim / kWarpSize;  // dimensions lane, lane + 32, ...

struct Softmax {
  float maximum = -INFINITY, sum = 0;
  float out[kPerLane] = {};
};

template <class Kv>
__device__ __forceinline__ float dot(const float* query, const Kv* key, int head_dim) {
  float sum = 0;
  for (int i = 0; i < head_dim; i += kPack<Kv>) {
    float k[kPack<Kv>];
    load(key + i, k);
#pragma unroll
    for (int j = 0; j < kPack<Kv>; ++j) sum += query[i + j] * k[j];
  }
  return sum;
}

template <class Kv>
__device__ __forceinline__ void take_32_keys(Softmax& state, const float* query, int first, const KeyRange& keys,
                                             const AttentionArguments& a, const KvGeometry& kv,
                                             const std::int32_t* blocks, int kv_head, int lane) {
  const int key = first + lane, d = kv.head_dim;
  float score = -INFINITY;
  std::int64_t offset = 0;
  if (key < keys.last) {
    // A row padded by static batching pays for keys that it lacks: read its own keys again, with weight 0.
    const int source = key < keys.seen ? key : key % keys.seen;
    offset = key_offset(blocks[source / kv.block_tokens], source % kv.block_tokens, kv.kv_heads, kv_head,
                        kv.block_tokens, d);
    const float product = dot(query, static_cast<const Kv*>(a.keys) + offset, d);
    if (key < keys.seen) score = a.cap > 0 ? a.cap * tanhf(product * a.scale / a.cap) : product * a.scale;
  }
  const float maximum = fmaxf(state.maximum, warp_max(score));
  // All keys so far may be padding; then the difference of two infinities would be NaN.
  const float base = maximum == -INFINITY ? 0.0F : maximum;
  const float scale = expf(state.maximum - base), weight = expf(score - base);
  state.maximum = maximum;
  state.sum = state.sum * scale + warp_sum(weight);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) state.out[i] *= scale;
  const int count = min(kWarpSize, keys.last - first);
  for (int j = 0; j < count; ++j) {
    const float factor = __shfl_sync(kAllLanes, weight, j);
    const Kv* value = static_cast<const Kv*>(a.values) + __shfl_sync(kAllLanes, offset, j);
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      if (lane + i * kWarpSize < d) state.out[i] += factor * to_float(value[lane + i * kWarpSize]);
    }
  }
}

template <class T, class Kv>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    plain_kernel(AttentionArguments a, KvGeometry kv, StepView step, const DeviceSequence* list) {
  begin_kernel();
  __shared__ float query[kMaxHeadDim];
  __shared__ float sums[kWarps][kMaxHeadDim], maxima[kWarps], totals[kWarps];
  const DeviceSequence sequence = list[blockIdx.z];
  if (static_cast<int>(blockIdx.x) >= sequence.rows) return;
  const int head = static_cast<int>(blockIdx.y), kv_head = head / (a.heads / kv.kv_heads), d = kv.head_dim;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int64_t row = std::int64_t{sequence.first_row} + blockIdx.x;
  const T* q = static_cast<const T*>(a.qkv) + row * a.row_stride + std::int64_t{head} * d;
  for (int i = static_cast<int>(threadIdx.x); i < d; i += kWarps * kWarpSize) query[i] = to_float(q[i]);
  __syncthreads();

  // A prefill row sees the keys up to its own position. Padding rows and dead rows see the keys that exist.
  const int seen = min(sequence.context + static_cast<int>(blockIdx.x) + 1, sequence.length);
  const KeyRange keys = decode_keys(seen, sequence.charged, a.window);
  Softmax state;
  if (a.sinks != nullptr && warp == 0) {
    state.maximum = a.sinks[head];
    state.sum = 1;
  }
  for (int first = keys.first + warp * kWarpSize; first < keys.last; first += kWarps * kWarpSize) {
    take_32_keys<Kv>(state, query, first, keys, a, kv, step.blocks + sequence.first_block, kv_head, lane);
  }
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    if (lane + i * kWarpSize < d) sums[warp][lane + i * kWarpSize] = state.out[i];
  }
  if (lane == 0) {
    maxima[warp] = state.maximum;
    totals[warp] = state.sum;
  }
  __syncthreads();
  float most = -INFINITY, total = 0;
  for (int w = 0; w < kWarps; ++w) most = fmaxf(most, maxima[w]);
  const float base = most == -INFINITY ? 0.0F : most;
  for (int w = 0; w < kWarps; ++w) total += expf(maxima[w] - base) * totals[w];
  T* to = static_cast<T*>(a.attended) + (row * a.heads + head) * d;
  for (int i = static_cast<int>(threadIdx.x); i < d; i += kWarps * kWarpSize) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += expf(maxima[w] - base) * sums[w][i];
    to[i] = from_float<T>(total > 0 ? sum / total : 0.0F);
  }
}

}  // namespace

void plain_attention(Element element, Element kv_element, const AttentionArguments& arguments, const KvGeometry& kv,
                     const StepView& step, const DeviceSequence* list, std::int64_t count, std::int64_t longest,
                     cudaStream_t stream) {
  const bool f32 = element == Element::f32, kv_f32 = kv_element == Element::f32;
  const dim3 grid(static_cast<unsigned>(longest), static_cast<unsigned>(arguments.heads), static_cast<unsigned>(count));
  launch(f32 ? (kv_f32 ? plain_kernel<float, float> : plain_kernel<float, Bf16>)
             : (kv_f32 ? plain_kernel<Bf16, float> : plain_kernel<Bf16, Bf16>),
         grid, kWarps * kWarpSize, 0, stream, arguments, kv, step, list);
}

}  // namespace plimsoll::exec::cuda
