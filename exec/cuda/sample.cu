// SPDX-License-Identifier: Apache-2.0
// Sampling: the largest logit, or the largest of logit / temperature + Gumbel noise (exec/weights/gumbel.h). Value and
// token are packed into one integer that orders by value, with the lower token first among equals. The maximum over
// blocks and ranks is then a maximum of integers, which does not depend on the order of arrival.
#include "exec/cuda/device.cuh"
#include "exec/cuda/kernels.h"
#include "exec/cuda/launch.cuh"
#include "exec/cuda/sample_order.h"
#include "exec/weights/gumbel.h"

namespace plimsoll::exec::cuda {

namespace {

constexpr int kThreads = 256, kPerThread = 8;

__global__ void __launch_bounds__(kThreads)
    sample_kernel(const float* logits, std::int64_t stride, std::int64_t vocab_begin, std::int64_t valid, StepView step,
                  const float* least, unsigned long long* best) {
  begin_kernel();
  const std::int64_t row = blockIdx.y;
  const float temperature = step.sampling[row].temperature;
  const float limit = least == nullptr ? -INFINITY : least[row];
  const std::uint64_t key = gumbel_key(step.sampling[row].seed, step.sample_request[row], step.sample_position[row]);
  std::uint64_t own = 0;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads * kPerThread + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const std::int64_t at = first + i * kThreads;
    if (at >= valid) continue;
    const auto token = static_cast<std::int32_t>(vocab_begin + at);
    const float logit = logits[row * stride + at];
    if (logit < limit) continue;
    own = max(own, ordered(temperature > 0 ? perturbed_logit(logit, temperature, key, token) : logit, token));
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) own = max(own, __shfl_xor_sync(kAllLanes, own, distance));
  if (threadIdx.x % kWarpSize == 0) atomicMax(best + row, static_cast<unsigned long long>(own));
}

/// The order of floats as unsigned numbers, NaN lowest, and back.
__device__ __forceinline__ std::uint32_t rank_of(float value) {
  return static_cast<std::uint32_t>(ordered(value, 0) >> 32);
}
__device__ __forceinline__ float of_rank(std::uint32_t rank) {
  return __uint_as_float((rank & 0x80000000U) != 0 ? rank & 0x7fffffffU : ~rank);
}

/// One row of a block's threads, as least_logit_kernel() reads it.
struct LogitRow {
  const float* logits;
  std::int64_t valid;
  float* scratch;  // 32 floats of shared memory

  /// Sum over the block of value(logit) for the logits whose rank is at least `least`.
  template <class Value>
  __device__ float sum(std::uint32_t least, Value value) const {
    float own = 0;
    for (std::int64_t at = threadIdx.x; at < valid; at += blockDim.x)
      if (rank_of(logits[at]) >= least) own += value(logits[at]);
    const float all = block_sum(own, scratch);
    __syncthreads();
    return all;
  }
  /// The largest rank, `least` or above, down to which the logits' values add up to `wanted`; found bit by bit.
  template <class Value>
  __device__ std::uint32_t down_to(std::uint32_t least, float wanted, Value value) const {
    std::uint32_t found = 0;
    for (std::uint32_t bit = 0x80000000U; bit != 0; bit >>= 1)
      if (sum(found | bit, value) >= wanted) found |= bit;
    return max(found, least);
  }
};

// As least_logit() of exec/cpu, with sums in f32: a token at the very edge of top_p may differ. Counts are exact up to
// 2^24 tokens.
__global__ void __launch_bounds__(1024)
    least_logit_kernel(const float* logits, std::int64_t stride, std::int64_t valid, StepView step, float* out) {
  begin_kernel();
  __shared__ float scratch[32];
  const std::int64_t row = blockIdx.x;
  const DeviceSampling s = step.sampling[row];
  const bool filters = s.temperature > 0 && (s.top_k > 0 || s.top_p < 1 || s.min_p > 0);
  if (!filters) {
    if (threadIdx.x == 0) out[row] = -INFINITY;
    return;
  }
  const LogitRow all{logits + row * stride, valid, scratch};
  const auto one = [](float) { return 1.0F; };
  const float largest = of_rank(all.down_to(0, 1, one));
  std::uint32_t least = 0;
  if (s.min_p > 0) least = rank_of(fminf(largest, largest + s.temperature * logf(s.min_p)));
  if (s.top_k > 0 && s.top_k < valid) least = all.down_to(least, static_cast<float>(s.top_k), one);
  if (s.top_p < 1) {
    const auto share = [&](float logit) { return expf((logit - largest) / s.temperature); };
    least = all.down_to(least, s.top_p * all.sum(least, share), share);
  }
  if (threadIdx.x == 0) out[row] = least == 0 ? -INFINITY : of_rank(least);
}

__global__ void choose_kernel(const std::uint64_t* best, std::int32_t ranks, std::int64_t rows, StepView step,
                              std::int32_t* ids, std::int32_t* slots) {
  begin_kernel();
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  std::uint64_t winner = 0;
  for (int rank = 0; rank < ranks; ++rank) winner = max(winner, best[rank * rows + row]);
  ids[row] = token_of(winner);
  if (step.sample_slot[row] >= 0) slots[step.sample_slot[row]] = token_of(winner);
}

__global__ void finish_kernel(float* logits, std::int64_t count, float scale, float cap) {
  begin_kernel();
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const float logit = logits[i] * scale;
    logits[i] = cap > 0 ? cap * tanhf(logit / cap) : logit;
  }
}

}  // namespace

void finish_logits(float* logits, std::int64_t count, float scale, float cap, cudaStream_t stream) {
  const std::int64_t blocks = min((count + kThreads * kPerThread - 1) / (kThreads * kPerThread), std::int64_t{65'536});
  launch(finish_kernel, static_cast<unsigned>(blocks), kThreads, 0, stream, logits, count, scale, cap);
}

void least_logits(const float* logits, std::int64_t rows, std::int64_t stride, std::int64_t valid, const StepView& step,
                  float* least, cudaStream_t stream) {
  // A small vocabulary does not occupy a whole block.
  const std::int64_t threads = min((valid + kWarpSize - 1) / kWarpSize * kWarpSize, std::int64_t{1024});
  launch(least_logit_kernel, static_cast<unsigned>(rows), static_cast<unsigned>(max(threads, std::int64_t{kWarpSize})),
         0, stream, logits, stride, valid, step, least);
}

void sample(const float* logits, std::int64_t rows, std::int64_t stride, std::int64_t vocab_begin, std::int64_t valid,
            const StepView& step, const float* least, std::uint64_t* best, cudaStream_t stream) {
  check(cudaMemsetAsync(best, 0, static_cast<std::size_t>(rows) * sizeof *best, stream), "clearing samples");
  if (valid == 0) return;
  const std::int64_t blocks = (valid + kThreads * kPerThread - 1) / (kThreads * kPerThread);
  for (std::int64_t done = 0; done < rows; done += 32'768) {  // a grid's second dimension is limited to 65535
    const std::int64_t part = min(rows - done, std::int64_t{32'768});
    StepView view = step;
    view.sampling += done;
    view.sample_request += done;
    view.sample_position += done;
    launch(sample_kernel, dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(part)), kThreads, 0, stream,
           logits + done * stride, stride, vocab_begin, valid, view, least == nullptr ? nullptr : least + done,
           reinterpret_cast<unsigned long long*>(best + done));
  }
}

void choose(const std::uint64_t* best, std::int32_t ranks, std::int64_t rows, const StepView& step, std::int32_t* ids,
            std::int32_t* slots, cudaStream_t stream) {
  launch(choose_kernel, static_cast<unsigned>((rows + kThreads - 1) / kThreads), kThreads, 0, stream, best, ranks, rows,
         step, ids, slots);
}

}  // namespace plimsoll::exec::cuda
