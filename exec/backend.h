// SPDX-License-Identifier: Apache-2.0
// What one TP rank can compute: the ops of model/op_list.h on a device. The RankRunner (rank_runner.h) walks the op
// list and calls these in order; a backend holds weights, workspace and KV cache, and knows nothing of schedulers.
//
// Activations are rows of named buffers, row-major, f32 on the CPU and the weights' type on a GPU. Operations are
// enqueued: on a GPU they return before they are complete, and wait() completes the forward. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/communicator.h"
#include "exec/forward_input.h"
#include "exec/row_table.h"
#include "exec/weights/integers.h"
#include "model/architecture.h"
#include "model/cpu_tuning.h"
#include "model/error.h"
#include "model/op_list.h"
#include "model/tp_layout.h"

namespace plimsoll::exec {

/// Buffers of a forward. Widths on one rank: residual, delta, normed: hidden; qkv: (heads + 2 kv_heads) head_dim;
/// attended: heads head_dim; up: 2 intermediate (gate first, then up) or intermediate; gated: intermediate; logits:
/// vocab_rows. Expert buffers hold experts_per_token rows for every token, sorted by expert. Shared experts use `up`,
/// `gated` and `delta`; their gate is one number a row.
///
/// In multi-head latent attention the width of a head in the cache is C = kv_lora_rank + qk_rope_head_dim. queries:
/// heads (qk_nope_head_dim + qk_rope_head_dim); latent: C; query_latent: q_lora_rank; qkv: heads C, the queries in
/// terms of latents and later what they attended to; attended: heads v_head_dim.
enum class Buffer : std::uint8_t {
  residual,
  delta,
  normed,
  qkv,
  attended,
  up,
  gated,
  logits,
  router,
  expert_in,
  expert_up,
  expert_gated,
  expert_out,
  shared_gate,
  queries,
  latent,
  query_latent
};
inline constexpr std::size_t kBuffers = static_cast<std::size_t>(Buffer::query_latent) + 1;

/// A weight matrix W [n, k] for y = x W^T, or `copies` of them for experts, in the backend's own packing.
class Linear {
 public:
  virtual ~Linear() = default;
  [[nodiscard]] virtual std::int64_t n() const = 0;
  [[nodiscard]] virtual std::int64_t k() const = 0;
};
/// The weight of a norm, or a bias: f32 on the backend's device.
class Vector {
 public:
  virtual ~Vector() = default;
};

/// fill(copy, row, rows, out) writes rows [row, row + rows) of one copy as [rows, k] f32. Called from several threads.
using FillRows = std::function<void(std::int64_t copy, std::int64_t row, std::int64_t rows, float* out)>;

/// Rows that are stored as integers: fill(copy, row, rows, out) writes rows [row, row + rows) of one copy. Called from
/// several threads.
struct StoredIntegers {
  IntegerFormat format;
  std::function<void(std::int64_t copy, std::int64_t row, std::int64_t rows, const IntegerRows& out)> fill;
};

/// A matrix product of a rank: y = x W^T, with W of n rows and k columns.
struct LinearSpec {
  std::int64_t n = 0, k = 0, copies = 1;
  bool full_precision = false;  // keep the activations in full precision (routers)
  bool quantised = false;       // stored in weight_dtype even if that is an integer; else at least in 16 bits
  std::optional<StoredIntegers> integers = {};  // the weights as stored in the files, if these are of weight_dtype
};

/// An activation() of a product's result, which may be computed in the same kernel.
struct ActivationAfter {
  model::Activation kind = model::Activation::silu;
  bool gated = false;
  Buffer to = Buffer::gated;
};
struct LinearOptions {
  const Vector* bias = nullptr;              // added to every row
  bool accumulate = false;                   // y += instead of y =
  std::optional<ActivationAfter> then = {};  // the activation() of y follows at once; y is undefined afterwards
};

struct NormSpec {
  model::Norm kind = model::Norm::rmsnorm;
  float epsilon = 1e-5F;
  const Vector* weight = nullptr;
  const Vector* bias = nullptr;  // null if none
  float delta_scale = 1;         // of the delta that is added to the residual
  bool identity = false;         // the result is the residual itself
};

/// Rotary positions of queries and keys, with the norms and biases that some families apply before.
struct RopeSpec {
  model::Rope rope;
  const Vector* bias = nullptr;    // of q, k and v together; null if none
  const Vector* q_norm = nullptr;  // weight [head_dim] of an RMS norm of each head; null if none
  const Vector* k_norm = nullptr;
  float norm_epsilon = 1e-6F;
  bool wide_norms = false;  // the norms cover all heads together
};

/// Attention in one layer.
struct AttentionSpec {
  std::int32_t layer = 0;
  std::int64_t window = 0;        // a row at position p attends to (p - window, p]; 0: to all tokens up to its own
  const Vector* sinks = nullptr;  // of each query head, a score without a value; null if none
};

/// The two halves of kv_up in multi-head latent attention, with a copy for each head: keys [kv_lora_rank,
/// qk_nope_head_dim] turns queries into terms of latents; values [v_head_dim, kv_lora_rank] expands what they attended
/// to.
struct LatentSpec {
  const Linear* keys = nullptr;
  const Linear* values = nullptr;
};

/// Sizes that do not change while the engine lives.
struct BackendConfig {
  model::Architecture architecture;
  model::RankShape rank;                           // this rank's part of the model
  model::DType weight_dtype = model::DType::bf16;  // fp32, bf16; on a CPU int8, int4; also of a GPU's activations
  model::DType kv_dtype = model::DType::bf16;      // fp32 or bf16
  std::int64_t kv_blocks = 0;  // physical blocks, [layer][K|V][block][kv_head][block_tokens][head_dim]; of latents:
                               // [layer][block][block_tokens][C]
  std::int32_t block_tokens = 16;
  std::int32_t sequences = 256;                 // slots for sampled tokens
  std::int64_t step_rows = 2048;                // rows to allocate at the start; larger forwards grow the workspace
  std::optional<model::CpuTuning> tuning = {};  // CPU: how products run; by the sizes of caches if not stated
  int ranks_on_device = 1;                      // GPU: number of ranks that share its memory, this one included
  bool graphs = true;                           // GPU: replay decode forwards as graphs
  bool poison = false;                          // tests: fill the KV cache and fresh workspace with NaN
};

/// Executes the ops of one rank on one device. One thread at a time; buffers belong to the backend.
class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual model::BackendCapabilities capabilities() const { return {}; }
  /// Returns a text such as "AVX-512, 2 threads" or "NVIDIA H200 (sm_90)".
  [[nodiscard]] virtual std::string description() const = 0;
  /// Returns a sentence on why this model runs much slower here than others; empty if it does not.
  [[nodiscard]] virtual std::string note() const { return {}; }

  [[nodiscard]] virtual std::unique_ptr<Linear> make_linear(const LinearSpec& spec, const FillRows& fill) = 0;
  [[nodiscard]] virtual std::unique_ptr<Vector> make_vector(std::span<const float> values) = 0;

  // ---- a forward: begin, ops in the order of the list, end, wait ---------------------------------------------
  /// Returns the number of rows that a decode forward is padded to (graph buckets); `rows` if nothing is padded.
  [[nodiscard]] virtual std::int64_t padded_decode_rows(std::int64_t rows) const { return rows; }
  /// Returns whether the second decode forward of each size is recorded as a graph, which later forwards replay.
  [[nodiscard]] virtual bool replays_decodes() const { return false; }
  /// Row counts are divided into classes for which products are computed in the same way. A backend that measures the
  /// fastest way does so at the first forward of each class. Returns the largest row count in the class of `rows`; 0 if
  /// the backend measures nothing.
  [[nodiscard]] virtual std::int64_t tuned_rows(std::int64_t rows) const { return static_cast<void>(rows), 0; }
  /// Uploads the table. Returns false if the forward was replayed from a graph: call no ops then, only wait().
  virtual bool begin(const RowTable& table) = 0;
  /// Ends the list of ops; results may still be computed until wait() returns.
  virtual void end() = 0;
  /// Blocks until the forward has ended. `tokens` must have room for one id per sampled row. `logits` is null or has
  /// room for this rank's [sampled, vocab_rows] f32.
  virtual void wait(std::int32_t* tokens, float* logits) = 0;

  // ---- ops: named as in the op list; all work on table.rows rows unless stated otherwise ---------------------
  /// residual = rows of the embedding, times the architecture's embedding_scale; ids outside [vocab_begin, vocab_begin
  /// + table.n()) give 0. `positions`, if not null, is added (on one rank only).
  virtual void embed(const Linear& embedding, std::int64_t vocab_begin, const Linear* positions) = 0;
  /// normed = norm(residual). With add_delta, residual += delta_scale delta comes first.
  virtual void norm(const NormSpec& spec, bool add_delta) = 0;
  /// delta = norm(delta), of models with norms after the sublayers.
  virtual void norm_delta(const NormSpec& spec) = 0;
  /// As norm(), but only for the sampled rows, which are moved to the front of `normed`. `residual` is overwritten.
  virtual void final_norm(const NormSpec& spec, bool add_delta) = 0;
  /// y[rows, n] = x[rows, k] W^T (+ bias) (+ y), and the activation of y if there is one.
  virtual void linear(const Linear& weight, Buffer x, Buffer y, std::int64_t rows, const LinearOptions& options) = 0;
  /// qkv: adds the bias, norms q and k per head, rotates them by position, and caches k and v. q stays in place.
  virtual void rope_append(const RopeSpec& spec, std::int32_t layer) = 0;
  /// attended = softmax(scores) V, scores = q K^T / sqrt(head_dim) or as the architecture states, for the rows of
  /// sequence `index` of table.prefill. Padding rows attend to the existing tokens. In latent attention the result
  /// replaces the queries in `qkv`.
  virtual void prefill_attention(const AttentionSpec& spec, std::size_t index) = 0;
  /// As prefill_attention(), for all decode rows.
  virtual void decode_attention(const AttentionSpec& spec) = 0;
  /// Latent attention: norms the first `width` elements of each row of a buffer in place.
  virtual void norm_latent(const NormSpec& /*spec*/, Buffer /*buffer*/, std::int64_t /*width*/) { no_latents(); }
  /// Latent attention: qkv = the queries without their rotated parts, in terms of latents.
  virtual void absorb_queries(const LatentSpec& /*spec*/) { no_latents(); }
  /// Latent attention: rotates the rest of `queries` into `qkv` and the key in `latent`, and caches `latent`.
  virtual void latent_rope_append(const RopeSpec& /*spec*/, std::int32_t /*layer*/) { no_latents(); }
  /// Latent attention: attended = the values of the latents in `qkv`.
  virtual void expand_values(const LatentSpec& /*spec*/) { no_latents(); }
  /// gated[rows, width] = act(x[:, :width]) * x[:, width:] of x = [rows, 2 width], or act(x) of plain MLPs.
  virtual void activation(model::Activation kind, bool gated, Buffer x, Buffer y, std::int64_t rows,
                          std::int64_t width) = 0;
  /// Chooses the best experts of each token from router logits [rows, experts], as the architecture's routing states.
  /// `choice_bias` is added for the choice only; null if none. expert_in = the rows of normed, sorted by expert.
  virtual void route(std::int32_t experts, std::int32_t per_token, const Vector* choice_bias) = 0;
  /// Appends the experts that the last route() chose for the sampled rows; appends nothing on a GPU.
  virtual void append_choices(std::int32_t /*layer*/, std::vector<RowExperts>& /*to*/) const {}
  /// y = x W_e^T (+ bias_e) for the rows of every expert e. `bias` is [experts, n], or null.
  virtual void expert_linear(const Linear& weights, Buffer x, Buffer y, const Vector* bias) = 0;
  /// delta = sum over a token's experts of weight * expert_out, plus delta if the model has shared experts; that times
  /// the sigmoid of shared_gate if they have a gate.
  virtual void combine(std::int32_t per_token) = 0;
  /// The buffer becomes its sum over the ranks.
  virtual void all_reduce(Buffer buffer, std::int64_t rows) = 0;
  /// Scales and caps the logits as the architecture states. Then finds the best token in this rank's part of the
  /// vocabulary, [vocab_begin, vocab_begin + valid).
  /// exchange_samples() finds the best of all ranks and stores it in the sequence's slot. wait() returns it.
  virtual void sample(std::int64_t vocab_begin, std::int64_t valid) = 0;
  /// Distributes the best token of all ranks to each of them; a collective call.
  virtual void exchange_samples() = 0;

  /// Blocks until all enqueued work is complete. Used to time single ops.
  virtual void synchronize() {}

  // ---- KV blocks between forwards ----------------------------------------------------------------------------
  /// Swapping: copies a whole block (all layers), bytes_per_block() bytes, to host memory and back.
  [[nodiscard]] virtual std::int64_t bytes_per_block() const = 0;
  virtual void read_block(std::int32_t block, void* host) = 0;
  virtual void write_block(std::int32_t block, const void* host) = 0;

 private:
  static void no_latents() { PLIMSOLL_CHECK(false, "model::cpu_only_part() names latent attention"); }
};

/// Returns the factor of the embedding's rows: the architecture's, as the weights' type keeps it.
[[nodiscard]] float embedding_scale(const BackendConfig& config);

/// Makes the backend of one rank. `communicator` must outlive it; it is null if tp = 1.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(const BackendConfig& config, Communicator* communicator,
                                                        int threads);
/// Throws DeviceError, stating whether CUDA, the driver or a GPU is missing.
[[nodiscard]] std::unique_ptr<Backend> make_cuda_backend(const BackendConfig& config, Communicator* communicator,
                                                         int device);

/// How the ranks of a TP group on GPUs communicate. `automatic` means NCCL if every rank has its own GPU, and loopback
/// if one GPU serves all ranks.
enum class CommunicatorKind : std::uint8_t { automatic, loopback, nccl };
/// Returns the number of GPUs; 0 without a driver.
[[nodiscard]] int gpu_count();
/// The option with which most commands compute on the CPU.
inline constexpr std::string_view kCpuOption = "--device cpu";
/// Throws DeviceError, stating the reason, if no GPU can be used. The text names the option `instead`.
void require_gpu(std::string_view instead = kCpuOption);
/// Returns the version in NCCL's own form, such as 23003 for 2.30.3; 0 without NCCL.
[[nodiscard]] int nccl_version();
/// Makes the endpoints of a group: endpoint i is that of rank i, on devices[i] (gpu_placement.h). `kind` is nccl, or
/// loopback with one device for all. Throws DeviceError as make_cuda_backend does.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_cuda_group(CommunicatorKind kind,
                                                                         std::span<const int> devices);

/// The parameters with which several processes form one NCCL group. Every process has the same number of ranks.
struct SpreadGroup {
  int first = 0, size = 0;  // first rank of this process, number of ranks of all
  std::function<void(std::span<std::byte>)>
      share;  // sends the bytes of the first process to all and blocks until then; throws PeerFailed
  std::vector<std::unique_ptr<Communicator>> hosts;  // this process's ranks; they synchronise on the host
};
/// Makes the endpoints of this process: endpoint i is that of rank group.first + i, on devices[i]. Blocks until all
/// processes have called it. Throws DeviceError as make_cuda_backend does, and if NCCL is missing or fails; PeerFailed
/// if another process fails before it joins.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_cuda_group(SpreadGroup group,
                                                                         std::span<const int> devices);

}  // namespace plimsoll::exec
