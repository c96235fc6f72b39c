// SPDX-License-Identifier: Apache-2.0
// One TP rank of a running model: walks the op list of a forward (model/op_list.h) and lets the backend execute each
// op. The simulator prices the same list, so neither can miss an op that the other has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/backend.h"
#include "exec/engine.h"
#include "exec/rank_weights.h"

namespace plimsoll::exec {

/// Walks the op list of the cost model for one rank and has the backend execute each op.
class RankRunner {
 public:
  /// Loads the rank's weights. Throws InputError and DeviceError.
  RankRunner(const EngineConfig& config, std::int32_t rank, std::unique_ptr<Backend> backend,
             const WeightSource& source);

  /// Enqueues a forward.
  void start(const ForwardInput& input);
  /// Blocks until the oldest forward in flight has ended. `tokens` receives one id per sampled row. With all_logits,
  /// `logits` receives this rank's [sampled, vocab_rows].
  void finish(std::vector<std::int32_t>& tokens, std::vector<float>& logits);

  /// Returns the experts of the forwards with all_logits since the last call: on rank 0, else none.
  [[nodiscard]] std::vector<RowExperts> take_experts() { return std::exchange(experts_, {}); }

  /// Records the time of every op from now on. The backend must not use graphs.
  void trace() { tracing_ = true; }
  [[nodiscard]] std::vector<OpTrace>& traces() { return traces_; }
  [[nodiscard]] Backend& backend() { return *backend_; }
  [[nodiscard]] const model::RankShape& rank_shape() const { return shape_; }

 private:
  struct InFlight {
    std::size_t sampled = 0;
    bool all_logits = false;
  };

  void pad_decodes(const ForwardInput& input);
  void walk(const model::OpList& list);
  void run(const model::Op& op, std::int32_t layer);
  void execute(const model::Op& op, std::int32_t layer);
  void run_norm(const model::Op& op, std::int32_t layer);
  void run_gemm(const model::Op& op, std::int32_t layer);
  void run_moe_gemm(const model::Op& op, std::int32_t layer);
  void run_all_reduce(const model::Op& op);
  [[nodiscard]] std::optional<ActivationAfter> activation_after_up() const;
  void run_activation(const model::Op& op);
  bool run_latent_gemm(const model::Op& op, const LayerWeights& l);
  bool run_shared_gemm(const model::Op& op, const LayerWeights& l);
  [[nodiscard]] AttentionSpec attention_of(std::int32_t layer) const;

  const model::Architecture architecture_;
  model::DType weight_dtype_, kv_dtype_;
  std::int32_t rank_, tp_, block_tokens_;
  model::RankShape shape_;
  std::unique_ptr<Backend> backend_;
  RankWeights weights_;
  RowTable table_;
  ForwardInput padded_;  // a decode forward with dead rows up to the size of its graph
  std::vector<model::PrefillSpan> spans_;
  std::vector<InFlight> in_flight_;
  bool has_delta_ = false;  // the next norm must add delta to the residual
  std::size_t span_ = 0;    // next prefill span of the current layer
  bool tracing_ = false;
  std::int64_t step_ = 0;
  std::vector<OpTrace> traces_;
  std::vector<RowExperts> experts_;
};

}  // namespace plimsoll::exec
