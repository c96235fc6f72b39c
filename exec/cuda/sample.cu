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
                  unsigned long long* best) {
  begin_kernel();
  const std::int64_t row = blockIdx.y;
  const float temperature = step.sampling->temperature;
  const std::uint64_t key = gumbel_key(step.sampling->seed, step.sample_request[row], step.sample_position[row]);
  std::uint64_t own = 0;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads * kPerThread + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const std::int64_t at = first + i * kThreads;
    if (at >= valid) continue;
    const auto token = static_cast<std::int32_t>(vocab_begin + at);
    const float logit = logits[row * stride + at];
    own = max(own, ordered(temperature > 0 ? perturbed_logit(logit, temperature, key, token) : logit, token));
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) own = max(own, __shfl_xor_sync(kAllLanes, own, distance));
  if (threadIdx.x % kWarpSize == 0) atomicMax(best + row, static_cast<unsigned long long>(own));
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

}  // namespace

void sample(const float* logits, std::int64_t rows, std::int64_t stride, std::int64_t vocab_begin, std::int64_t valid,
            const StepView& step, std::uint64_t* best, cudaStream_t stream) {
  check(cudaMemsetAsync(best, 0, static_cast<std::size_t>(rows) * sizeof *best, stream), "clearing samples");
  if (valid == 0) return;
  const std::int64_t blocks = (valid + kThreads * kPerThread - 1) / (kThreads * kPerThread);
  for (std::int64_t done = 0; done < rows; done += 32'768) {  // a grid's second dimension is limited to 65535
    const std::int64_t part = min(rows - done, std::int64_t{32'768});
    StepView view = step;
    view.sample_request += done;
    view.sample_position += done;
    launch(sample_kernel, dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(part)), kThreads, 0, stream,
           logits + done * stride, stride, vocab_begin, valid, view,
           reinterpret_cast<unsigned long long*>(best + done));
  }
}

void choose(const std::uint64_t* best, std::int32_t ranks, std::int64_t rows, const StepView& step, std::int32_t* ids,
            std::int32_t* slots, cudaStream_t stream) {
  launch(choose_kernel, static_cast<unsigned>((rows + kThreads - 1) / kThreads), kThreads, 0, stream, best, ranks, rows,
         step, ids, slots);
}

}  // namespace plimsoll::exec::cuda
