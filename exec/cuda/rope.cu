// SPDX-License-Identifier: Apache-2.0
// Bias, q/k norm, rotation and the append to the cache, in one pass over the rows of qkv.
#include "exec/cuda/device.cuh"
#include "exec/cuda/kernels.h"
#include "exec/cuda/launch.cuh"

namespace plimsoll::exec::cuda {

namespace {

// The angle is computed in f64: at position 100000 an f32 would be wrong by 0.004 radians.
__global__ void table_kernel(RopeAngles angles, std::int64_t all, StepView step, float2* table) {
  begin_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= all) return;
  double sine = 0, cosine = 0;
  const double position = step.position[i / angles.pairs];
  sincos(position * angles.frequencies[i % angles.pairs], &sine, &cosine);
  table[i] = make_float2(static_cast<float>(angles.magnitude * cosine), static_cast<float>(angles.magnitude * sine));
}

constexpr int kHeadsPerBlock = 4;  // one warp per head
constexpr int kMaxHeadDim = 256;

// Returns the new value of element i of a head; x is the head before rotation.
__device__ __forceinline__ float rotated(const float* x, int i, const float2* table, int pairs, bool interleaved) {
  if (i >= 2 * pairs) return x[i];
  const bool second = interleaved ? i % 2 == 1 : i >= pairs;
  const int pair = interleaved ? i / 2 : (second ? i - pairs : i);
  const int partner = interleaved ? (second ? i - 1 : i + 1) : (second ? i - pairs : i + pairs);
  const float2 turn = table[pair];
  return second ? x[i] * turn.x + x[partner] * turn.y : x[i] * turn.x - x[partner] * turn.y;
}

template <class T, class Kv>
__global__ void __launch_bounds__(kHeadsPerBlock* kWarpSize)
    rope_kernel(RopeArguments a, KvGeometry kv, StepView step) {
  begin_kernel();
  __shared__ float heads[kHeadsPerBlock][kMaxHeadDim];
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize, lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int64_t row = blockIdx.x;
  const int head = static_cast<int>(blockIdx.y) * kHeadsPerBlock + warp;  // q heads, then k heads, then v heads
  const int all = a.heads + 2 * kv.kv_heads, d = kv.head_dim;
  if (head >= all) return;
  T* from = static_cast<T*>(a.qkv) + (row * all + head) * d;
  const bool is_q = head < a.heads, is_v = head >= a.heads + kv.kv_heads;
  float* x = heads[warp];

  float square = 0;
  for (int i = lane; i < d; i += kWarpSize) {
    x[i] = to_float(from[i]) + (a.bias == nullptr ? 0.0F : a.bias[head * d + i]);
    square += x[i] * x[i];
  }
  const float* weight = is_q ? a.q_norm : a.k_norm;
  if (weight != nullptr && !is_v) {
    const float factor = rsqrtf(warp_sum(square) / static_cast<float>(d) + a.epsilon);
    for (int i = lane; i < d; i += kWarpSize) x[i] *= factor * weight[i];
  }
  __syncwarp();

  const int pairs = is_v ? 0 : a.pairs;
  const float2* table = a.table + row * a.pairs;
  if (is_q) {
    for (int i = lane; i < d; i += kWarpSize) from[i] = from_float<T>(rotated(x, i, table, pairs, a.interleaved));
    return;
  }
  const std::int64_t slot = step.cache_slot[row];
  if (slot < 0) return;
  const int kv_head = head - a.heads - (is_v ? kv.kv_heads : 0);
  const std::int64_t block = slot / kv.block_tokens, offset = slot % kv.block_tokens;
  Kv* to =
      static_cast<Kv*>(is_v ? a.values : a.keys) + ((block * kv.kv_heads + kv_head) * kv.block_tokens + offset) * d;
  for (int i = lane; i < d; i += kWarpSize) to[i] = from_float<Kv>(rotated(x, i, table, pairs, a.interleaved));
}

constexpr int kWideThreads = 256;

// A block has the queries, the keys or the values of a row. Values only get their bias.
template <class T>
__global__ void __launch_bounds__(kWideThreads) wide_norm_kernel(RopeArguments a, KvGeometry kv) {
  begin_kernel();
  __shared__ float scratch[kWarpSize];
  const int part = static_cast<int>(blockIdx.y), d = kv.head_dim;
  const int begin = part == 0 ? 0 : (a.heads + (part - 1) * kv.kv_heads) * d;
  const int width = (part == 0 ? a.heads : kv.kv_heads) * d;
  const float* weight = part == 0 ? a.q_norm : part == 1 ? a.k_norm : nullptr;
  T* x = static_cast<T*>(a.qkv) + std::int64_t{blockIdx.x} * (a.heads + 2 * kv.kv_heads) * d + begin;
  const auto value = [&](int i) { return to_float(x[i]) + (a.bias == nullptr ? 0.0F : a.bias[begin + i]); };
  float square = 0;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kWideThreads) square += value(i) * value(i);
  const float factor = rsqrtf(block_sum(square, scratch) / static_cast<float>(width) + a.epsilon);
  for (int i = static_cast<int>(threadIdx.x); i < width; i += kWideThreads)
    x[i] = from_float<T>(weight == nullptr ? value(i) : value(i) * factor * weight[i]);
}

}  // namespace

void rope_table(const RopeAngles& angles, std::int64_t rows, const StepView& step, float2* table, cudaStream_t stream) {
  constexpr std::int64_t kThreads = 128;
  const std::int64_t all = rows * angles.pairs;
  if (all == 0) return;
  launch(table_kernel, static_cast<unsigned>((all + kThreads - 1) / kThreads), static_cast<unsigned>(kThreads), 0,
         stream, angles, all, step, table);
}

void wide_norms(Element element, const RopeArguments& arguments, const KvGeometry& kv, cudaStream_t stream) {
  launch(element == Element::f32 ? wide_norm_kernel<float> : wide_norm_kernel<Bf16>,
         dim3(static_cast<unsigned>(arguments.rows), 3), kWideThreads, 0, stream, arguments, kv);
}

void rope_append(Element element, Element kv_element, const RopeArguments& arguments, const KvGeometry& kv,
                 const StepView& step, cudaStream_t stream) {
  const int all = arguments.heads + 2 * kv.kv_heads;
  const dim3 grid(static_cast<unsigned>(arguments.rows),
                  static_cast<unsigned>((all + kHeadsPerBlock - 1) / kHeadsPerBlock));
  const bool f32 = element == Element::f32, kv_f32 = kv_element == Element::f32;
  launch(f32 ? (kv_f32 ? rope_kernel<float, float> : rope_kernel<float, Bf16>)
             : (kv_f32 ? rope_kernel<Bf16, float> : rope_kernel<Bf16, Bf16>),
         grid, kHeadsPerBlock * kWarpSize, 0, stream, arguments, kv, step);
}

}  // namespace plimsoll::exec::cuda
