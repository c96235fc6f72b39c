// SPDX-License-Identifier: Apache-2.0
// Shared parts of the tensor-core attention kernels. A warp holds 16 queries as the rows of m16n8k16 products. The
// scores are Q K^T with K's rows as columns; the results are P V, where P is taken from the scores' registers. The
// softmax runs online in f32, in powers of two: with c = scale log2(e), exp(scale s - m) = 2^(c s - c m).
#pragma once

#include "exec/cuda/device.cuh"
#include "exec/cuda/kernels.h"

namespace plimsoll::exec::cuda {

/// Elements between the rows of a tile in shared memory: an odd number of 16-byte units, so that the 8 rows of an
/// ldmatrix are in different banks.
template <int D>
constexpr int kPitch = D + 8;
static_assert(kPitch<64> / 8 % 2 == 1 && kPitch<80> / 8 % 2 == 1 && kPitch<96> / 8 % 2 == 1 &&
              kPitch<112> / 8 % 2 == 1);

constexpr float kLog2E = 1.44269504F;

/// Rows g and g + 8 of a warp's 16 queries, g = lane / 4. Each row has D / 8 tiles of 8 columns; this lane holds two
/// columns of each.
template <int D>
struct OnlineSoftmax {
  float maximum[2] = {-INFINITY, -INFINITY};  // maximum of c s
  float sum[2] = {};                          // over this lane's columns only, until finish()
  float out[D / 8][4] = {};
};

/// Starts rows g and g + 8 with the scores of their sinks, -inf for none. Only one lane of a row counts its weight.
template <int D>
__device__ __forceinline__ void start_with_sinks(OnlineSoftmax<D>& state, float low, float high, int lane) {
  const float scores[2] = {low, high};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    state.maximum[half] = scores[half] * kLog2E;
    state.sum[half] = lane % 4 == 0 && scores[half] > -INFINITY ? 1.0F : 0.0F;
  }
}

/// Caps scores before they are scaled, so that scale s becomes cap tanh(scale s / cap). Comes before any mask.
template <int Tiles>
__device__ __forceinline__ void cap_scores(float (&s)[Tiles][4], const AttentionArguments& a) {
  if (a.cap <= 0) return;
  const float inside = a.scale / a.cap, outside = a.cap / a.scale;
#pragma unroll
  for (int t = 0; t < Tiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) s[t][i] = outside * tanhf(s[t][i] * inside);
  }
}

/// The lane's address for ldmatrix_x4 of the 16 x 16 A operand at `tile` (row-major, kPitch<D>). Also used for V, whose
/// transposed load makes a B operand.
template <int D>
__device__ __forceinline__ const Bf16* a_address(const Bf16* tile, int lane) {
  return tile + lane % 16 * kPitch<D> + lane / 16 * 8;
}
/// The lane's address for 16 keys x 16 dimensions of K as two B operands of 8 keys.
template <int D>
__device__ __forceinline__ const Bf16* b_address(const Bf16* tile, int lane) {
  return tile + (lane / 16 * 8 + lane % 8) * kPitch<D> + lane / 8 % 2 * 8;
}

/// Scores of 16 queries (as A fragments in q) with the 16 keys at `keys`: s0 for the first 8 keys, s1 for the others.
template <int D, class LoadQ>
__device__ __forceinline__ void score_16_keys(float (&s0)[4], float (&s1)[4], const LoadQ& load_q, const Bf16* keys,
                                              int lane) {
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
    std::uint32_t q[4], k[4];
    load_q(step, q);
    ldmatrix_x4(k, b_address<D>(keys, lane) + step * 16);
    mma_bf16(s0, q, k[0], k[1]);
    mma_bf16(s1, q, k[2], k[3]);
  }
}

/// Turns scores into weights in place, and rescales the sums so far to the new maximum. There are Keys / 8 tiles of
/// scores. The caller sets the scores of keys that a row must not see to -inf.
template <int D, int Tiles>
__device__ __forceinline__ void weigh(OnlineSoftmax<D>& state, float (&s)[Tiles][4], float c) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // rows g and g + 8
    float top = -INFINITY;
#pragma unroll
    for (int t = 0; t < Tiles; ++t) top = fmaxf(top, fmaxf(s[t][2 * half], s[t][2 * half + 1]));
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));  // over the four lanes of a row
    top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
    const float maximum = fmaxf(state.maximum[half], top * c);
    const float base = maximum == -INFINITY ? 0.0F : maximum;  // 0 for a row that has seen no key yet
    const float scale = exp2f(state.maximum[half] - base);
    state.maximum[half] = maximum;
    state.sum[half] *= scale;
#pragma unroll
    for (int t = 0; t < Tiles; ++t) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        s[t][i] = exp2f(s[t][i] * c - base);
        state.sum[half] += s[t][i];
      }
    }
#pragma unroll
    for (int t = 0; t < D / 8; ++t) {
      state.out[t][2 * half] *= scale;
      state.out[t][2 * half + 1] *= scale;
    }
  }
}

/// out += weights of 16 keys (two tiles of 8, f32, rounded to bf16 here) times V's 16 rows at `values`.
template <int D>
__device__ __forceinline__ void add_16_values(OnlineSoftmax<D>& state, const float (&p0)[4], const float (&p1)[4],
                                              const Bf16* values, int lane) {
  // The product's result has the layout of the next product's left operand: columns 2t, 2t + 1 are keys 2t, 2t + 1.
  const std::uint32_t p[4] = {pack_bf16(p0[0], p0[1]), pack_bf16(p0[2], p0[3]), pack_bf16(p1[0], p1[1]),
                              pack_bf16(p1[2], p1[3])};
#pragma unroll
  for (int step = 0; step < D / 16; ++step) {
    std::uint32_t v[4];
    ldmatrix_x4_trans(v, a_address<D>(values, lane) + step * 16);
    mma_bf16(state.out[2 * step], p, v[0], v[1]);
    mma_bf16(state.out[2 * step + 1], p, v[2], v[3]);
  }
}

/// Completes the sums: adds up the columns of all lanes, so that the sums are those of whole rows.
template <int D>
__device__ __forceinline__ void finish(OnlineSoftmax<D>& state) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    state.sum[half] += __shfl_xor_sync(kAllLanes, state.sum[half], 1);
    state.sum[half] += __shfl_xor_sync(kAllLanes, state.sum[half], 2);
  }
}

}  // namespace plimsoll::exec::cuda
