// SPDX-License-Identifier: Apache-2.0
// Mixture of experts: chooses the experts of each token, sorts rows by expert, and combines the results. Nothing
// returns to the host: only the device knows how many rows an expert has.
#include "exec/cuda/device.cuh"
#include "exec/cuda/kernels.h"
#include "exec/cuda/launch.cuh"

namespace plimsoll::exec::cuda {

namespace {

constexpr int kThreads = 256;

// ---- choice: one warp per token. Lane l handles experts l, l + 32, ...; bit i of `taken` is its i-th expert ---------

struct Candidate {
  float logit;
  int expert;
};
// A NaN loses to every number; the lower expert wins among equals.
__device__ __forceinline__ Candidate better(Candidate a, Candidate b) {
  if (b.expert < 0) return a;
  if (a.expert < 0 || b.logit > a.logit) return b;
  const bool equal = !(a.logit > b.logit);
  return equal && b.expert < a.expert ? b : a;
}

__device__ __forceinline__ float not_nan(float x) { return x == x ? x : -INFINITY; }

__device__ __forceinline__ float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

__global__ void choose_experts(RouteArguments a, Routing routing) {
  begin_kernel();
  const int experts = a.experts, per_token = a.per_token;
  const std::int64_t token = std::int64_t{blockIdx.x} * (kThreads / kWarpSize) + threadIdx.x / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  if (token >= a.tokens) return;
  const float* row = a.logits + token * experts;
  // Without biases, scores and logits have the same order.
  const auto score = [&](int e) {
    return not_nan(a.choice_bias == nullptr ? row[e] : sigmoid(row[e]) + a.choice_bias[e]);
  };
  std::uint32_t taken = 0;
  Candidate own{0, 0};  // lane j keeps choice number j
  float highest = 0;
  for (int j = 0; j < per_token; ++j) {
    Candidate best{0, -1};
    for (int i = 0, e = lane; e < experts; ++i, e += kWarpSize) {
      if ((taken >> i & 1U) == 0) best = better(best, {score(e), e});
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      const Candidate other{__shfl_xor_sync(kAllLanes, best.logit, distance),
                            __shfl_xor_sync(kAllLanes, best.expert, distance)};
      best = better(best, other);
    }
    // Expert e belongs to lane e % 32, which marks it here so that the next round skips it.
    if (best.expert % kWarpSize == lane) taken |= 1U << (best.expert / kWarpSize);
    if (lane == j) own = best;
    if (j == 0) highest = best.logit;
  }
  // A softmax over the chosen experts, or over all. Subtracting the highest logit keeps expf() from overflowing.
  const bool mine = lane < per_token;
  const float logit = mine ? not_nan(row[own.expert]) : 0.0F;
  const float weight = !mine ? 0.0F : a.sigmoid ? sigmoid(logit) : expf(logit - highest);
  float sum = warp_sum(weight);
  if (!a.normalised) {
    float all = 0;
    for (int e = lane; e < experts; e += kWarpSize) all += expf(row[e] - highest);
    all = warp_sum(all);
    sum = a.sigmoid ? 1.0F : all;
  }
  if (!mine) return;
  routing.chosen[token * per_token + lane] = own.expert;
  routing.weight[token * per_token + lane] = weight / sum * a.scale;
}

// ---- order: one block per expert counts the rows of lower experts, then numbers its own in order of tokens ----------

__global__ void __launch_bounds__(kThreads) sort_rows(std::int64_t all, int experts, Routing routing) {
  begin_kernel();
  __shared__ float scratch[kWarpSize];
  __shared__ int before[kThreads / kWarpSize];
  const int expert = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  int lower = 0;
  for (std::int64_t i = threadIdx.x; i < all; i += kThreads) lower += routing.chosen[i] < expert ? 1 : 0;
  int next = static_cast<int>(block_sum(static_cast<float>(lower), scratch));  // exact below 2^24
  if (threadIdx.x == 0) routing.offsets[expert] = next;
  if (threadIdx.x == 0 && expert == experts - 1) routing.offsets[experts] = static_cast<std::int32_t>(all);
  for (std::int64_t base = 0; base < all; base += kThreads) {
    const std::int64_t i = base + threadIdx.x;
    const bool own = i < all && routing.chosen[i] == expert;
    const unsigned lanes = __ballot_sync(kAllLanes, own);
    if (lane == 0) before[warp] = __popc(lanes);
    __syncthreads();
    int place = next + __popc(lanes & ((1U << lane) - 1U));
    for (int w = 0; w < kThreads / kWarpSize; ++w) {
      if (w < warp) place += before[w];
      next += before[w];
    }
    if (own) routing.place[i] = place;
    __syncthreads();
  }
}

// ---- gathering and combining rows: one block per token -------------------------------------------------------------

template <class T>
__global__ void gather_rows(const T* from, std::int64_t width, int per_token, T* to, const std::int32_t* place) {
  begin_kernel();
  const std::int64_t token = blockIdx.x;
  for (std::int64_t i = std::int64_t{threadIdx.x} * kPack<T>; i < width; i += std::int64_t{blockDim.x} * kPack<T>) {
    float values[kPack<T>];
    load(from + token * width + i, values);
    for (int j = 0; j < per_token; ++j) store(to + place[token * per_token + j] * width + i, values);
  }
}

template <class T>
__global__ void combine_rows(CombineArguments a, Routing routing) {
  begin_kernel();
  const std::int64_t token = blockIdx.x, first = token * a.per_token;
  const T* from = static_cast<const T*>(a.expert_out);
  T* to = static_cast<T*>(a.delta) + token * a.width;
  const float gate = a.gate == nullptr ? 1.0F : sigmoid(a.gate[token]);
  for (std::int64_t i = std::int64_t{threadIdx.x} * kPack<T>; i < a.width; i += std::int64_t{blockDim.x} * kPack<T>) {
    float sum[kPack<T>] = {};
    if (a.shared) {
      load(to + i, sum);
#pragma unroll
      for (int p = 0; p < kPack<T>; ++p) sum[p] *= gate;
    }
    for (int j = 0; j < a.per_token; ++j) {
      float values[kPack<T>];
      load(from + routing.place[first + j] * a.width + i, values);
      const float factor = routing.weight[first + j];
#pragma unroll
      for (int p = 0; p < kPack<T>; ++p) sum[p] += factor * values[p];
    }
    store(to + i, sum);
  }
}

}  // namespace

void route(Element element, const RouteArguments& a, const Routing& routing, cudaStream_t stream) {
  constexpr std::int64_t kTokens = kThreads / kWarpSize;
  launch(choose_experts, static_cast<unsigned>((a.tokens + kTokens - 1) / kTokens), kThreads, 0, stream, a, routing);
  launch(sort_rows, static_cast<unsigned>(a.experts), kThreads, 0, stream, a.tokens * a.per_token, a.experts, routing);
  const auto grid = static_cast<unsigned>(a.tokens);
  if (element == Element::f32) {
    launch(gather_rows<float>, grid, 128, 0, stream, static_cast<const float*>(a.from), a.width, a.per_token,
           static_cast<float*>(a.to), routing.place);
  } else {
    launch(gather_rows<Bf16>, grid, 128, 0, stream, static_cast<const Bf16*>(a.from), a.width, a.per_token,
           static_cast<Bf16*>(a.to), routing.place);
  }
}

void combine(Element element, const CombineArguments& arguments, const Routing& routing, cudaStream_t stream) {
  launch(element == Element::f32 ? combine_rows<float> : combine_rows<Bf16>, static_cast<unsigned>(arguments.tokens),
         128, 0, stream, arguments, routing);
}

}  // namespace plimsoll::exec::cuda
