// SPDX-License-Identifier: Apache-2.0
// Helpers shared by kernels: how they start, 16-byte accesses to rows of f32 or bf16 as f32 registers, activations, and
// sums over a warp or a block in a fixed order.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "exec/cuda/bf16.h"
#include "exec/cuda/ptx.cuh"
#include "model/architecture.h"

namespace plimsoll::exec::cuda {

constexpr unsigned kAllLanes = 0xffffffffU;
constexpr int kWarpSize = 32;

/// The first statement of a kernel (launch.cuh). The next kernel may then be launched while this one runs.
__device__ __forceinline__ void begin_kernel() {
  wait_for_previous_kernel();
  let_next_kernel_start();
}

/// Numbers of type T in 16 bytes.
template <class T>
constexpr int kPack = 16 / static_cast<int>(sizeof(T));

__device__ __forceinline__ void unpack(const uint4& raw, float (&out)[8]) {  // bf16
  const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = __uint_as_float(words[i] << 16);
    out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
  }
}
__device__ __forceinline__ void unpack(const uint4& raw, float (&out)[4]) {  // f32
  out[0] = __uint_as_float(raw.x);
  out[1] = __uint_as_float(raw.y);
  out[2] = __uint_as_float(raw.z);
  out[3] = __uint_as_float(raw.w);
}

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ Bf16 from_float<Bf16>(float x) {
  return to_bf16(x);
}

/// Loads Count numbers at `from`: one 16-byte access if Count is kPack<T>, else one by one (for unaligned rows).
template <int Count, class T>
__device__ __forceinline__ void load(const T* from, float (&out)[Count]) {
  if constexpr (Count == kPack<T>) {
    unpack(*reinterpret_cast<const uint4*>(from), out);
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) out[i] = to_float(from[i]);
  }
}

template <int Count>
__device__ __forceinline__ void store(float* to, const float (&values)[Count]) {
  if constexpr (Count == 4) {
    *reinterpret_cast<uint4*>(to) = make_uint4(__float_as_uint(values[0]), __float_as_uint(values[1]),
                                               __float_as_uint(values[2]), __float_as_uint(values[3]));
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) to[i] = values[i];
  }
}
template <int Count>
__device__ __forceinline__ void store(Bf16* to, const float (&values)[Count]) {
  if constexpr (Count == 8) {
    *reinterpret_cast<uint4*>(to) = make_uint4(pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]),
                                               pack_bf16(values[4], values[5]), pack_bf16(values[6], values[7]));
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) to[i] = to_bf16(values[i]);
  }
}

/// Sum or maximum over the 32 lanes; every lane gets the result.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  return x;
}

/// One number of an activation().
__device__ __forceinline__ float activate(model::Activation kind, float x) {
  switch (kind) {
    case model::Activation::silu: return x / (1.0F + expf(-x));
    case model::Activation::gelu: return 0.5F * x * (1.0F + erff(x * 0.70710678F));
    case model::Activation::gelu_tanh: return 0.5F * x * (1.0F + tanhf(0.79788456F * (x + 0.044715F * x * x * x)));
    case model::Activation::relu: return fmaxf(x, 0.0F);
    case model::Activation::relu2: return fmaxf(x, 0.0F) * fmaxf(x, 0.0F);
    case model::Activation::clamped_swiglu: break;  // clamped_swiglu() computes it
  }
  return x;
}

/// Sum over the block, whose size is a multiple of 32; every thread gets the result. `scratch` is 32 floats of shared
/// memory. The caller must synchronise the block before it reuses them.
__device__ __forceinline__ float block_sum(float x, float* scratch) {
  x = warp_sum(x);
  const unsigned warps = blockDim.x / kWarpSize;
  if (threadIdx.x % kWarpSize == 0) scratch[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  float sum = 0;
  for (unsigned i = 0; i < warps; ++i) sum += scratch[i];
  return sum;
}

}  // namespace plimsoll::exec::cuda
