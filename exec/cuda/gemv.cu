// SPDX-License-Identifier: Apache-2.0
// Products with few rows of x, whose time is that of reading the weights. A warp takes a few rows of W. Its lanes
// advance along k in steps of 16 bytes; the lanes' sums are added at the end. The loads of the next steps are issued
// before the current ones are used: memory answers after some 800 ns, and every warp must have enough on its way. The
// first ones are issued while the previous kernel still runs. An activation that follows needs no kernel of its own.
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
template <int M>
constexpr int kBlocks = M == 8 ? 3 : 0;  // of a multiprocessor, at least; 0: the compiler chooses

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

__host__ __device__ __forceinline__ bool takes_pairs(const GemvArguments& a) {
  return a.then.to != nullptr && a.then.gated;
}
__host__ __device__ __forceinline__ std::int64_t columns_of(const GemvArguments& a) {
  return takes_pairs(a) ? a.n / 2 : a.n;
}

template <class T, int R, int N, int Depth>
__device__ __forceinline__ void fetch(Weights<T, N> (&to)[Depth][R], const T* const (&w)[R], std::int64_t at) {
#pragma unroll
  for (int i = 0; i < Depth; ++i) {
#pragma unroll
    for (int r = 0; r < R; ++r) to[i][r].fetch(w[r] + at + i * kWarpSize * N);
  }
}

// The rows of W that a warp takes. For a gated activation they are pairs: half of them from the gate, which is the
// first half of W, and the same rows of the second half.
template <int R>
struct WarpRows {
  std::int64_t first, columns;  // columns of the result
  bool pairs;

  __device__ __forceinline__ explicit WarpRows(const GemvArguments& a) : columns(columns_of(a)), pairs(takes_pairs(a)) {
    first = (std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize) * (pairs ? R / 2 : R);
  }
  __device__ __forceinline__ bool second(int r) const { return pairs && r >= R / 2; }
  __device__ __forceinline__ std::int64_t column(int r) const { return first + (second(r) ? r - R / 2 : r); }
  // Columns beyond the last one repeat it.
  __device__ __forceinline__ std::int64_t row(int r) const {
    return min(column(r), columns - 1) + (second(r) ? columns : 0);
  }
};

// Writes the sums, or their activation: lane m R + r holds row m of x times the warp's row r of W.
template <class Y, int R>
__device__ __forceinline__ void write_sum(const GemvArguments& a, const WarpRows<R>& rows, int lane, float value) {
  const int m = lane / R, r = lane % R;
  const std::int64_t column = rows.column(r);
  const bool inside = m < a.m && column < rows.columns;
  if (inside && a.bias != nullptr) value += a.bias[rows.row(r)];
  if (a.then.to == nullptr) {
    if (!inside) return;
    Y* y = static_cast<Y*>(a.y) + m * a.n + column;
    if (a.accumulate) value += to_float(*y);
    *y = from_float<Y>(value);
    return;
  }
  value = to_float(from_float<Y>(value));
  const float factor = __shfl_sync(kAllLanes, value, lane + R / 2);
  if (!inside || rows.second(r)) return;
  value = activate(a.then.kind, value);
  static_cast<Y*>(a.then.to)[m * rows.columns + column] = from_float<Y>(rows.pairs ? value * factor : value);
}

// Handles up to M rows of x, R rows of W per warp and N numbers per load. Rows beyond m or n repeat the last row and
// are not written.
template <class T, class Y, int M, int R, int N>
__global__ void __launch_bounds__(kWarps* kWarpSize, kBlocks<M>) gemv_kernel(GemvArguments a) {
  static_assert(M * R <= kWarpSize && R % 2 == 0);
  constexpr int kStep = kWarpSize * N, kAhead = kDepth<M>;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const WarpRows<R> rows(a);
  if (rows.first >= rows.columns) return;
  const T* x[M];
  const T* w[R];
#pragma unroll
  for (int m = 0; m < M; ++m) x[m] = static_cast<const T*>(a.x) + min(static_cast<std::int64_t>(m), a.m - 1) * a.k;
#pragma unroll
  for (int r = 0; r < R; ++r) w[r] = static_cast<const T*>(a.weight) + rows.row(r) * a.k;

  Sums<T, M, R, N> sums;
  std::int64_t at = std::int64_t{lane} * N;
  const std::int64_t turns = a.k / (kAhead * kStep);
  Weights<T, N> now[kAhead][R], next[kAhead][R];
  if (turns > 0) fetch(next, w, at);
  begin_kernel();
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
  for (; at < a.k; at += kStep) {
    Weights<T, N> fetched[R];
#pragma unroll
    for (int r = 0; r < R; ++r) fetched[r].fetch(w[r] + at);
    sums.add(fetched, x, at);
  }
  float own = 0;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float total = warp_sum(sums.of[m][r]);
      if (lane == m * R + r) own = total;
    }
  }
  write_sum<Y>(a, rows, lane, own);
}

template <class T, class Y, int M, int N>
void start(const GemvArguments& a, cudaStream_t stream) {
  constexpr int R = kRowsOfW<M>;
  const std::int64_t each = kWarps * (takes_pairs(a) ? R / 2 : R), blocks = (columns_of(a) + each - 1) / each;
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
    if (a.then.to != nullptr) a.then.to = static_cast<Y*>(a.then.to) + a.m * columns_of(a);
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
