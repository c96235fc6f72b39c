// SPDX-License-Identifier: Apache-2.0
// Products with few rows of x, whose time is that of reading the weights. A warp takes a few rows of W. Its lanes
// advance along k in steps of 16 bytes; the lanes' sums are added at the end. The loads of the next steps are issued
// before the current ones are used: memory answers after some 800 ns, and every warp must have enough on its way.
#include "exec/cuda/device.cuh"
#include "exec/cuda/kernels.h"
#include "exec/cuda/launch.cuh"

namespace plimsoll::exec::cuda {

namespace {

constexpr int kWarps = 4;

// Loads N numbers of a row of W: 16 bytes that bypass the first-level cache, because they are read once, or a single
// number.
template <class T, int N>
struct Weights {
  uint4 raw;
  __device__ __forceinline__ void fetch(const T* from) { raw = load_streaming(from); }
  __device__ __forceinline__ void values(float (&out)[N]) const { unpack(raw, out); }
};
template <class T>
struct Weights<T, 1> {
  T raw;
  __device__ __forceinline__ void fetch(const T* from) { raw = *from; }
  __device__ __forceinline__ void values(float (&out)[1]) const { out[0] = to_float(raw); }
};

// Rows of W per warp, and steps along k that it loads ahead. 8 loads of 16 bytes are in flight for one row of x, 16 for
// two to four rows; with eight the sums leave registers for 8.
template <int M>
constexpr int kRowsOfW = M <= 2 ? 2 : 4;
template <int M>
constexpr int kDepth = M == 2 ? 8 : (M == 8 ? 2 : 4);

template <class T, int M, int R, int N>
struct Sums {
  float of[M][R] = {};

  __device__ __forceinline__ void add(const Weights<T, N> (&w)[R], const T* const (&x)[M], std::int64_t at) {
    float weights[R][N];
#pragma unroll
    for (int r = 0; r < R; ++r) w[r].values(weights[r]);
#pragma unroll
    for (int m = 0; m < M; ++m) {
      float values[N];
      load(x[m] + at, values);
#pragma unroll
      for (int r = 0; r < R; ++r) {
#pragma unroll
        for (int j = 0; j < N; ++j) of[m][r] += weights[r][j] * values[j];
      }
    }
  }
};

template <class T, int R, int N, int Depth>
__device__ __forceinline__ void fetch(Weights<T, N> (&to)[Depth][R], const T* const (&w)[R], std::int64_t at) {
#pragma unroll
  for (int i = 0; i < Depth; ++i) {
#pragma unroll
    for (int r = 0; r < R; ++r) to[i][r].fetch(w[r] + at + i * kWarpSize * N);
  }
}

// Handles up to M rows of x, R rows of W per warp and N numbers per load. Rows beyond m or n repeat the last row and
// are not written.
template <class T, class Y, int M, int R, int N>
__global__ void __launch_bounds__(kWarps* kWarpSize) gemv_kernel(GemvArguments a) {
  static_assert(M * R <= kWarpSize);
  constexpr int kStep = kWarpSize * N, kAhead = kDepth<M>;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const std::int64_t first = (std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize) * R;
  if (first >= a.n) return;
  const T* x[M];
  const T* w[R];
#pragma unroll
  for (int m = 0; m < M; ++m) x[m] = static_cast<const T*>(a.x) + min(static_cast<std::int64_t>(m), a.m - 1) * a.k;
#pragma unroll
  for (int r = 0; r < R; ++r) w[r] = static_cast<const T*>(a.weight) + min(first + r, a.n - 1) * a.k;

  Sums<T, M, R, N> sums;
  std::int64_t at = std::int64_t{lane} * N;
  const std::int64_t turns = a.k / (kAhead * kStep);
  if (turns > 0) {
    Weights<T, N> now[kAhead][R], next[kAhead][R];
    fetch(next, w, at);
    for (std::int64_t turn = 1; turn <= turns; ++turn) {
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int r = 0; r < R; ++r) now[i][r] = next[i][r];
      }
      if (turn < turns) fetch(next, w, at + kAhead * kStep);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) sums.add(now[i], x, at + i * kStep);
      at += kAhead * kStep;
    }
  }
  for (; at < a.k; at += kStep) {
    Weights<T, N> fetched[R];
#pragma unroll
    for (int r = 0; r < R; ++r) fetched[r].fetch(w[r] + at);
    sums.add(fetched, x, at);
  }
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float total = warp_sum(sums.of[m][r]);
      if (lane != m * R + r || m >= a.m || first + r >= a.n) continue;  // one lane writes each number
      Y* y = static_cast<Y*>(a.y) + m * a.n + first + r;
      float value = total + (a.bias == nullptr ? 0.0F : a.bias[first + r]);
      if (a.accumulate) value += to_float(*y);
      *y = from_float<Y>(value);
    }
  }
}

template <class T, class Y, int M, int N>
void start(const GemvArguments& a, cudaStream_t stream) {
  constexpr int R = kRowsOfW<M>;
  const std::int64_t blocks = (a.n + kWarps * R - 1) / (kWarps * R);
  launch(gemv_kernel<T, Y, M, R, N>, static_cast<unsigned>(blocks), kWarps * kWarpSize, 0, stream, a);
}

template <class T, class Y>
void start_all(GemvArguments a, cudaStream_t stream) {
  constexpr int N = kPack<T>;
  const std::int64_t all = a.m;
  for (std::int64_t done = 0; done < all; done += kGemvRows) {
    a.m = min(all - done, kGemvRows);
    // Rows whose length is not a multiple of 16 bytes are unaligned, so elements are loaded one by one.
    if (a.k % N != 0)
      start<T, Y, 8, 1>(a, stream);
    else if (a.m == 1)
      start<T, Y, 1, N>(a, stream);
    else if (a.m == 2)
      start<T, Y, 2, N>(a, stream);
    else if (a.m <= 4)
      start<T, Y, 4, N>(a, stream);
    else
      start<T, Y, 8, N>(a, stream);
    a.x = static_cast<const T*>(a.x) + a.m * a.k;
    a.y = static_cast<Y*>(a.y) + a.m * a.n;
  }
}

}  // namespace

void gemv(Element element, Element y_element, const GemvArguments& arguments, cudaStream_t stream) {
  if (element == Element::f32)
    start_all<float, float>(arguments, stream);
  else if (y_element == Element::f32)
    start_all<Bf16, float>(arguments, stream);
  else
    start_all<Bf16, Bf16>(arguments, stream);
}

}  // namespace plimsoll::exec::cuda
