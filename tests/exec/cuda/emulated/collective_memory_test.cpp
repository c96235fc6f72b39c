// SPDX-License-Identifier: Apache-2.0
// Checks when ranks allocate memory. Allocating or freeing may wait for every GPU that the current one can access. Such
// a GPU may wait in a collective for a rank that has not enqueued its part yet. So ranks must never allocate between
// the collectives of one forward.
#include <cuda_runtime.h>

#include <gtest/gtest.h>

#include "exec/cuda/check.h"
#include "exec/cuda/communicators.h"
#include "exec/rank_runner.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/sequences.h"

namespace plimsoll::exec {
namespace {

// Rank 0 of two, whose sums are only its own part. Records how often memory had been allocated at each meeting.
class WatchedGroup final : public cuda::CudaCommunicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 2; }
  void all_reduce(void*, std::int64_t, model::DType, Stream) override { look(); }
  void all_gather(const void* in, void* out, std::int64_t bytes, Stream stream) override {
    look();
    for (const std::int64_t at : {std::int64_t{0}, bytes}) {
      cuda::check(cudaMemcpyAsync(static_cast<std::byte*>(out) + at, in, static_cast<std::size_t>(bytes),
                                  cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)),
                  "a test");
    }
  }
  void barrier() override { met_ = cuda_emulation::allocation_calls(); }
  void abort() override {}
  void check_alive() const override {}
  [[nodiscard]] bool capturable() const override { return true; }
  [[nodiscard]] bool own_gpu() const override { return false; }

  int collectives = 0;

 private:
  void look() {
    ++collectives;
    EXPECT_EQ(cuda_emulation::allocation_calls(), met_) << "memory was taken since all ranks met last";
  }
  std::size_t met_ = 0;
};

TEST(CollectiveMemory, is_taken_only_before_all_ranks_meet) {
  EngineConfig config;
  config.architecture = tiny_model("llama");
  config.device = DeviceKind::cuda;
  config.tp = 2;
  config.kv_blocks = 64;
  config.sequences = 2;
  config.step_rows = 4;
  WatchedGroup group;
  BackendConfig b;
  b.architecture = config.architecture;
  b.rank = model::rank_shape(config.architecture.shape, 2);
  b.kv_blocks = config.kv_blocks;
  b.sequences = config.sequences;
  b.step_rows = config.step_rows;
  const auto weights = random_weights(config.architecture, 3);
  RankRunner runner(config, 0, make_cuda_backend(b, &group, 0), *weights);
  group.barrier();  // Engine: all ranks are made before the first forward

  const Tokens prompt = random_tokens(1, 19, config.architecture.shape.vocab);
  const std::vector<std::int32_t> blocks{5, 3, 4};
  ForwardInput input;  // more rows than are reserved, of shapes that have not been measured
  PrefillRows span;
  span.tokens = prompt;
  span.blocks = blocks;
  span.emits = true;
  input.prefill.push_back(span);
  std::vector<std::int32_t> tokens;
  std::vector<float> logits;
  runner.start(input);
  runner.finish(tokens, logits);
  const int prefill = group.collectives;
  EXPECT_EQ(prefill, 2 * config.architecture.shape.layers + 2);  // two per layer, embedding and samples
  for (std::int64_t step = 0; step < 4; ++step) {                // op by op, captured, replayed twice
    ForwardInput decode;
    DecodeRow row;
    row.context = 19 + step;
    row.blocks = blocks;
    decode.decode.push_back(row);
    runner.start(decode);
    runner.finish(tokens, logits);
  }
  EXPECT_EQ(group.collectives, 3 * prefill);
}

}  // namespace
}  // namespace plimsoll::exec
