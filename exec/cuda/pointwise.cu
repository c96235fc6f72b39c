// SPDX-License-Identifier: Apache-2.0
// Embedding, norms and activations: one pass over rows, 16 bytes at a time.
#include "exec/cuda/device.cuh"
#include "exec/cuda/kernels.h"
#include "exec/cuda/launch.cuh"

namespace plimsoll::exec::cuda {

namespace {

// ---- embedding: one block per row ----------------------------------------------------------------------------------

template <class T>
__global__ void embed_kernel(EmbedArguments a, StepView step) {
  begin_kernel();
  const std::int64_t row = blockIdx.x;
  const std::int32_t given = step.token[row];
  const std::int64_t token = given >= 0 ? given : a.slots[step.token_slot[row]];
  const std::int64_t own = token - a.vocab_begin;
  const bool here = own >= 0 && own < a.vocab_rows;
  const std::int64_t place = min(static_cast<std::int64_t>(step.position[row]), a.max_position - 1);
  const T* from = static_cast<const T*>(a.table) + (here ? own : 0) * a.width;
  const T* positions = a.positions == nullptr ? nullptr : static_cast<const T*>(a.positions) + place * a.width;
  T* to = static_cast<T*>(a.residual) + row * a.width;
  for (std::int64_t i = std::int64_t{threadIdx.x} * kPack<T>; i < a.width; i += std::int64_t{blockDim.x} * kPack<T>) {
    float values[kPack<T>] = {};
    if (here) load(from + i, values);
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) values[j] *= a.scale;
    if (positions != nullptr) {
      float more[kPack<T>];
      load(positions + i, more);
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) values[j] += more[j];
    }
    store(to + i, values);
  }
}

// ---- norms: one block per row, which stays in registers ------------------------------------------------------------

constexpr int kNormThreads = 512;  // at most

// Chunks is the number of 16-byte pieces of the row that a thread holds.
template <class T, int Chunks>
__global__ void __launch_bounds__(kNormThreads) norm_kernel(NormArguments a) {
  begin_kernel();
  __shared__ float scratch[2][kWarpSize];
  constexpr int N = kPack<T>;
  const std::int64_t row = blockIdx.x;
  const std::int64_t source = a.gather == nullptr ? row : a.gather[row];
  T* residual = static_cast<T*>(a.residual) + source * a.width;
  const T* delta = a.delta == nullptr ? nullptr : static_cast<const T*>(a.delta) + source * a.width;
  const auto place = [&](int c) { return (std::int64_t{c} * blockDim.x + threadIdx.x) * N; };

  float x[Chunks][N] = {};
  float sum = 0;
#pragma unroll
  for (int c = 0; c < Chunks; ++c) {
    const std::int64_t i = place(c);
    if (i >= a.width) continue;
    load(residual + i, x[c]);
    if (delta != nullptr) {
      float more[N];
      load(delta + i, more);
#pragma unroll
      for (int j = 0; j < N; ++j)
        x[c][j] = to_float(from_float<T>(x[c][j] + a.delta_scale * more[j]));  // rounded as the residual stores it
      if (a.gather == nullptr) store(residual + i, x[c]);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) sum += a.kind == model::Norm::layernorm ? x[c][j] : x[c][j] * x[c][j];
  }
  if (a.identity) {
#pragma unroll
    for (int c = 0; c < Chunks; ++c)
      if (place(c) < a.width) store(static_cast<T*>(a.normed) + row * a.width + place(c), x[c]);
    return;
  }
  sum = block_sum(sum, scratch[0]) / static_cast<float>(a.width);
  float mean = 0;
  if (a.kind == model::Norm::layernorm) {
    mean = sum;
    float square = 0;
#pragma unroll
    for (int c = 0; c < Chunks; ++c) {
      if (place(c) >= a.width) continue;
#pragma unroll
      for (int j = 0; j < N; ++j) square += (x[c][j] - mean) * (x[c][j] - mean);
    }
    sum = block_sum(square, scratch[1]) / static_cast<float>(a.width);
  }
  const float factor = rsqrtf(sum + a.epsilon);
#pragma unroll
  for (int c = 0; c < Chunks; ++c) {
    const std::int64_t i = place(c);
    if (i >= a.width) continue;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      x[c][j] = (x[c][j] - mean) * factor * a.weight[i + j];
      if (a.bias != nullptr) x[c][j] += a.bias[i + j];
    }
    store(static_cast<T*>(a.normed) + row * a.width + i, x[c]);
  }
}

template <class T>
void start_norm(const NormArguments& a, cudaStream_t stream) {
  const std::int64_t pieces = a.width / kPack<T>;
  const auto threads =
      static_cast<unsigned>(min((pieces + kWarpSize - 1) / kWarpSize * kWarpSize, std::int64_t{kNormThreads}));
  const std::int64_t chunks = (pieces + threads - 1) / threads;
  const dim3 grid(static_cast<unsigned>(a.rows));
  if (chunks <= 1)
    launch(norm_kernel<T, 1>, grid, threads, 0, stream, a);
  else if (chunks <= 2)
    launch(norm_kernel<T, 2>, grid, threads, 0, stream, a);
  else if (chunks <= 4)
    launch(norm_kernel<T, 4>, grid, threads, 0, stream, a);
  else
    launch(norm_kernel<T, 8>, grid, threads, 0, stream, a);
}

// ---- activations, and copies of blocks --------------------------------------------------------------------------

// N is the number of elements that a thread takes at once; width must be a multiple of it.
template <class T, int N, bool Gated>
__global__ void activation_kernel(model::Activation kind, const T* x, T* y, std::int64_t rows, std::int64_t width) {
  begin_kernel();
  const std::int64_t pieces = width / N, all = rows * pieces;
  for (std::int64_t p = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; p < all;
       p += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t row = p / pieces, i = p % pieces * N;
    float value[N];
    load(x + row * width * (Gated ? 2 : 1) + i, value);
    if constexpr (Gated) {
      float factor[N];
      load(x + row * width * 2 + width + i, factor);
#pragma unroll
      for (int j = 0; j < N; ++j) value[j] = activate(kind, value[j]) * factor[j];
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) value[j] = activate(kind, value[j]);
    }
    store(y + row * width + i, value);
  }
}

template <class T, int N>
void start_activation(model::Activation kind, bool gated, const void* x, void* y, std::int64_t rows, std::int64_t width,
                      cudaStream_t stream) {
  constexpr std::int64_t kThreads = 256, kMaxBlocks = 65'536;
  const std::int64_t blocks = min((rows * width / N + kThreads - 1) / kThreads, kMaxBlocks);
  launch(gated ? activation_kernel<T, N, true> : activation_kernel<T, N, false>, static_cast<unsigned>(blocks),
         static_cast<unsigned>(kThreads), 0, stream, kind, static_cast<const T*>(x), static_cast<T*>(y), rows, width);
}

template <class T>
__global__ void clamp_kernel(ClampArguments a) {
  begin_kernel();
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < a.rows * a.width;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const T* x = static_cast<const T*>(a.x) + i / a.width * 2 * a.width + i % a.width;
    const float gate = fminf(to_float(x[0]), a.limit), up = fmaxf(fminf(to_float(x[a.width]), a.limit), -a.limit);
    static_cast<T*>(a.y)[i] = from_float<T>((up + 1.0F) * gate / (1.0F + expf(-a.alpha * gate)));
  }
}

__global__ void block_kernel(BlockCopy c) {
  begin_kernel();
  const std::int64_t each = c.piece / 16;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < c.planes * each;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    auto* device = static_cast<unsigned char*>(c.cache) + i / each * c.pitch + i % each * 16;
    auto* host = static_cast<unsigned char*>(c.host) + i * 16;
    if (c.to_host)
      store_16(host, load_16(device));
    else
      store_16(device, load_16(host));
  }
}

}  // namespace

void clamped_swiglu(Element element, const ClampArguments& arguments, cudaStream_t stream) {
  constexpr std::int64_t kThreads = 256, kMaxBlocks = 65'536;
  const std::int64_t blocks = min((arguments.rows * arguments.width + kThreads - 1) / kThreads, kMaxBlocks);
  launch(element == Element::f32 ? clamp_kernel<float> : clamp_kernel<Bf16>, static_cast<unsigned>(blocks),
         static_cast<unsigned>(kThreads), 0, stream, arguments);
}

void move_block(const BlockCopy& copy, cudaStream_t stream) {
  constexpr std::int64_t kThreads = 256, kMaxBlocks = 64;  // a host link is slow: a few blocks fill it
  const std::int64_t blocks = min((copy.planes * copy.piece / 16 + kThreads - 1) / kThreads, kMaxBlocks);
  launch(block_kernel, static_cast<unsigned>(blocks), static_cast<unsigned>(kThreads), 0, stream, copy);
}

void embed(Element element, const EmbedArguments& arguments, const StepView& step, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(arguments.rows));
  launch(element == Element::f32 ? embed_kernel<float> : embed_kernel<Bf16>, grid, 128, 0, stream, arguments, step);
}

void norm(Element element, const NormArguments& arguments, cudaStream_t stream) {
  if (element == Element::f32)
    start_norm<float>(arguments, stream);
  else
    start_norm<Bf16>(arguments, stream);
}

void activation(Element element, model::Activation kind, bool gated, const void* x, void* y, std::int64_t rows,
                std::int64_t width, cudaStream_t stream) {
  if (element == Element::f32) {
    if (width % 4 == 0)
      start_activation<float, 4>(kind, gated, x, y, rows, width, stream);
    else
      start_activation<float, 1>(kind, gated, x, y, rows, width, stream);
  } else {
    if (width % 8 == 0)
      start_activation<Bf16, 8>(kind, gated, x, y, rows, width, stream);
    else
      start_activation<Bf16, 1>(kind, gated, x, y, rows, width, stream);
  }
}

}  // namespace plimsoll::exec::cuda
