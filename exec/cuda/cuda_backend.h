// SPDX-License-Identifier: Apache-2.0
// One rank on a GPU (exec/backend.h). All work goes to one stream. The first decode forward of a bucket's size runs op
// by op, which also measures its products. The second is captured as a graph, which is replayed from then on.
#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "exec/backend.h"
#include "exec/cuda/communicators.h"
#include "exec/cuda/gemm.h"
#include "exec/cuda/step.h"
#include "exec/cuda/workspace.h"

namespace plimsoll::exec::cuda {

class CudaBackend final : public Backend {
 public:
  /// Throws DeviceError. The caller has checked the device (devices.cpp).
  CudaBackend(const BackendConfig& config, Communicator* communicator, int device);
  ~CudaBackend() override;

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::string note() const override;
  [[nodiscard]] std::unique_ptr<Linear> make_linear(const LinearSpec& spec, const FillRows& fill) override;
  [[nodiscard]] std::unique_ptr<Vector> make_vector(std::span<const float> values) override;

  [[nodiscard]] std::int64_t padded_decode_rows(std::int64_t rows) const override;
  [[nodiscard]] bool replays_decodes() const override { return graphs_enabled_; }
  [[nodiscard]] std::int64_t tuned_rows(std::int64_t rows) const override { return gemm_bucket(rows); }
  bool begin(const RowTable& table) override;
  void end() override;
  void wait(std::int32_t* tokens, float* logits) override;
  void synchronize() override;

  void embed(const Linear& embedding, std::int64_t vocab_begin, const Linear* positions) override;
  void norm(const NormSpec& spec, bool add_delta) override;
  void norm_delta(const NormSpec& spec) override;
  void final_norm(const NormSpec& spec, bool add_delta) override;
  void linear(const Linear& weight, Buffer x, Buffer y, std::int64_t rows, const LinearOptions& options) override;
  void rope_append(const RopeSpec& spec, std::int32_t layer) override;
  void prefill_attention(const AttentionSpec& spec, std::size_t index) override;
  void decode_attention(const AttentionSpec& spec) override;
  void activation(model::Activation kind, bool gated, Buffer x, Buffer y, std::int64_t rows,
                  std::int64_t width) override;
  void route(std::int32_t experts, std::int32_t per_token, const Vector* choice_bias) override;
  void expert_linear(const Linear& weights, Buffer x, Buffer y, const Vector* bias) override;
  void combine(std::int32_t per_token) override;
  void all_reduce(Buffer buffer, std::int64_t rows) override;
  void sample(std::int64_t vocab_begin, std::int64_t valid) override;
  void exchange_samples() override;

  [[nodiscard]] std::int64_t bytes_per_block() const override;
  void read_block(std::int32_t block, void* host) override;
  void write_block(std::int32_t block, const void* host) override;

 private:
  static constexpr std::size_t kInFlight = 2;  // forwards between begin() and wait()

  // Pinned memory of one forward: its inputs until they have been copied, its samples until they have been read.
  struct Exchange {
    PinnedBuffer inputs, ids;
    EventOwner copied = make_event(), done = make_event();
    std::vector<float> logits;
    std::size_t sampled = 0;
  };
  struct Graph {
    bool warm = false;  // has already run once op by op
    GraphExecOwner executable;
  };

  struct Rotation {
    model::Rope rope{.rotary_dim = -1};  // the one for which the frequencies were computed
    DeviceBuffer frequencies;
    bool filled = false;  // its table is that of this forward
  };

  void upload(const RowTable& table);
  void make_room(const RowTable& table);
  void reserve_exchange(std::size_t inputs, std::size_t ids);
  [[nodiscard]] bool runs_alone() const;
  void forget_graphs();
  void finish_forward();
  template <class Copy>
  void copy_pieces(std::int32_t block, const Copy& copy);
  void copy_block(std::int32_t block, bool to_host);
  void set_device() const;
  void check_alive() const;
  [[nodiscard]] void* plane(std::int32_t layer, int value) const;
  [[nodiscard]] AttentionArguments attention(const AttentionSpec& spec) const;
  [[nodiscard]] NormArguments norm_of(const NormSpec& spec, bool add_delta) const;  // of every row
  [[nodiscard]] bool tensor_core_attention() const;
  [[nodiscard]] const float2* rope_table_of(const model::Rope& rope);
  void check_config() const;
  void check_memory() const;

  const BackendConfig config_;
  const model::LlmShape& shape_;
  Communicator* communicator_;
  const CudaCommunicator* group_;  // communicator_ if it connects GPUs, else null
  int device_;
  cudaDeviceProp properties_{};
  bool graphs_enabled_;
  Element element_, kv_element_;
  KvGeometry kv_;
  StreamOwner stream_;
  Gemm gemm_;
  Workspace workspace_;
  DeviceBuffer cache_, slots_, step_memory_;
  std::vector<Rotation> rotations_;
  std::size_t next_rotation_ = 0;  // the one to replace if a layer rotates in another way

  const RowTable* table_ = nullptr;  // set between begin() and end()
  StepPlan plan_;
  StepView step_;
  bool filters_ = false;  // a row of the table has Sampling::filters()
  bool capturing_ = false;
  std::map<std::pair<std::int64_t, bool>, Graph> graphs_;  // by number of decode rows and filters_
  std::array<Exchange, kInFlight + 1> exchanges_;
  PinnedBuffer swapped_;  // one block on its way to or from the host; empty if blocks are too large
  std::size_t next_exchange_ = 0;
  std::deque<std::size_t> in_flight_;
};

}  // namespace plimsoll::exec::cuda
