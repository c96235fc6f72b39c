// SPDX-License-Identifier: Apache-2.0
// The CPU as a Backend. Operations are complete when they return. Results are bit-identical for any number of threads,
// any other rows in the forward and any placement of KV blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/backend.h"
#include "exec/cpu/expert_routing.h"
#include "exec/cpu/integer_linear.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/kv_cache.h"
#include "exec/cpu/packed_linear.h"
#include "exec/cpu/rope_table.h"
#include "exec/cpu/thread_pool.h"
#include "exec/cpu/workspace.h"

namespace plimsoll::exec {

class CpuVector final : public Vector {
 public:
  explicit CpuVector(std::span<const float> values) : values_(values.begin(), values.end()) {}
  [[nodiscard]] const float* data() const { return values_.data(); }

 private:
  std::vector<float> values_;
};

/// Results have the same bits on any number of threads: each element is computed by one thread, in one order.
class CpuBackend final : public Backend {
 public:
  CpuBackend(const BackendConfig& config, Communicator* communicator, int threads, const KernelSet& kernels,
             const model::CpuTuning& tuning);

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::unique_ptr<Linear> make_linear(const LinearSpec& spec, const FillRows& fill) override;
  [[nodiscard]] std::unique_ptr<Vector> make_vector(std::span<const float> values) override;

  bool begin(const RowTable& table) override;
  void end() override;
  void wait(std::int32_t* tokens, float* logits) override;

  void embed(const Linear& embedding, std::int64_t vocab_begin, const Linear* positions) override;
  void norm(const NormSpec& spec, bool add_delta) override;
  void norm_delta(const NormSpec& spec) override;
  void final_norm(const NormSpec& spec, bool add_delta) override;
  void linear(const Linear& weight, Buffer x, Buffer y, std::int64_t rows, const LinearOptions& options) override;
  void rope_append(const RopeSpec& spec, std::int32_t layer) override;
  void prefill_attention(const AttentionSpec& spec, std::size_t index) override;
  void decode_attention(const AttentionSpec& spec) override;
  void norm_latent(const NormSpec& spec, Buffer buffer, std::int64_t width) override;
  void absorb_queries(const LatentSpec& spec) override;
  void latent_rope_append(const RopeSpec& spec, std::int32_t layer) override;
  void expand_values(const LatentSpec& spec) override;
  void activation(model::Activation kind, bool gated, Buffer x, Buffer y, std::int64_t rows,
                  std::int64_t width) override;
  void route(std::int32_t experts, std::int32_t per_token, const Vector* choice_bias) override;
  void append_choices(std::int32_t layer, std::vector<RowExperts>& to) const override;
  void expert_linear(const Linear& weights, Buffer x, Buffer y, const Vector* bias) override;
  void combine(std::int32_t per_token) override;
  void all_reduce(Buffer buffer, std::int64_t rows) override;
  void sample(std::int64_t vocab_begin, std::int64_t valid) override;
  void exchange_samples() override;

  [[nodiscard]] std::int64_t bytes_per_block() const override { return cache_.bytes_per_block(); }
  void read_block(std::int32_t block, void* host) override { cache_.read_block(block, host); }
  void write_block(std::int32_t block, const void* host) override { cache_.write_block(block, host); }

 private:
  // The best token of a row, which the ranks exchange.
  struct Best {
    float value = 0;
    std::int32_t token = 0;
  };

  // Calls body(begin, end) over rows, on the whole team if there is enough work for it.
  template <class Body>
  void over_rows(std::int64_t rows, std::int64_t elements_per_row, const Body& body);
  // Adds the delta of a row to its residual, and returns the residual.
  float* add_delta(const NormSpec& spec, std::int64_t row);
  const RopeTable& rope_table(const model::Rope& rope);
  void multiply(const Linear& weights, std::span<const ProductRows> products, const float* bias, bool accumulate);
  void append(const float* qkv, std::int64_t row, std::int32_t layer);
  void store(const float* from, void* to, std::int64_t count) const;
  [[nodiscard]] AttentionTask attention_task(const SequenceRows& sequence, const AttentionSpec& spec,
                                             std::int64_t head) const;
  // Multiplies once per head. `from` and `to` hold all rows of the first head, then all rows of the next.
  void multiply_heads(const Linear& weights, const float* from, float* to);
  void attend_surplus(const AttentionTask& task, std::int64_t tokens, int thread);
  [[nodiscard]] float* scratch(int thread) { return scratch_[static_cast<std::size_t>(thread)].as<float>(); }
  void reserve_scratch();
  void finish_logits(std::size_t index);
  void sample_filtered();
  [[nodiscard]] Best best_token(std::size_t index, std::int64_t vocab_begin, std::int64_t valid) const;

  const BackendConfig config_;
  const float embedding_scale_;
  const model::LlmShape& shape_;
  Communicator* communicator_;
  const KernelSet& kernels_;
  const ProductKernels& bf16_products_;
  const model::CpuTuning tuning_;
  ThreadPool pool_;
  const IntegerKernels& integers_;
  Multiplier multiplier_;
  IntegerMultiplier integer_multiplier_;
  KvCache cache_;
  Workspace workspace_;
  std::vector<RopeTable> ropes_;  // one for each rotation of the model
  ExpertRouting routing_;
  const RowTable* table_ = nullptr;  // of the forward in progress
  std::int64_t head_width_ = 0;      // of a head in the cache
  std::int64_t kv_heads_ = 1;        // heads in the cache
  std::int64_t group_ = 1;           // query heads per KV head
  std::int64_t qkv_width_ = 0;
  HostMemory heads_in_, heads_out_;  // of multiply_heads()

  std::vector<std::int64_t> first_, last_;  // attended tokens of each row of a prefill span or of the decodes
  std::vector<HostMemory> scratch_;         // [thread], for attention
  std::vector<float> zeros_;                // keys and values of missing tokens
  std::vector<Best> best_, gathered_;
  std::vector<std::size_t> filtered_;         // rows of best_ for which Sampling::filters()
  std::vector<float> least_;                  // [sampled]: the least logit that remains, of those rows
  std::int64_t vocab_begin_ = 0, valid_ = 0;  // as sample() was given them
  std::vector<std::int32_t> remembered_;      // [sequence slots]
  std::int64_t sampled_ = 0;
};

// Splits rows over the pool's threads, or runs them here if there is too little work to share.
template <class Body>
void CpuBackend::over_rows(std::int64_t rows, std::int64_t elements_per_row, const Body& body) {
  constexpr std::int64_t kAlone =
      32'768;  // elements; about 5 us of work for one thread, a few times the cost of waking others
  if (rows * elements_per_row < kAlone) {
    if (rows > 0) body(std::int64_t{0}, rows);
  } else {
    pool_.parallel_for(rows, [&](int, std::int64_t begin, std::int64_t end) { body(begin, end); });
  }
}

}  // namespace plimsoll::exec
