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
#include <vector>

#include "exec/communicator.h"
#include "exec/forward_input.h"
#include "exec/row_table.h"
#include "exec/weights/integers.h"
#include "model/architecture.h"
#include "model/op_list.h"
#include "model/tp_layout.h"

namespace plimsoll::exec {

/// Buffers of a forward. Widths on one rank: residual, delta, normed: hidden; qkv: (heads + 2 kv_heads) head_dim;
/// attended: heads head_dim; up: 2 intermediate (gate first, then up) or intermediate; gated: intermediate; logits:
/// vocab_rows. Expert buffers hold experts_per_token rows for every token, sorted by expert.
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
  expert_out
};
inline constexpr std::size_t kBuffers = static_cast<std::size_t>(Buffer::expert_out) + 1;

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
  std::optional<StoredIntegers> integers = {};  // the weights as the files have them, if these are of weight_dtype
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

/// Sizes that do not change while the engine lives.
struct BackendConfig {
  model::Architecture architecture;
  model::RankShape rank;                           // what this rank holds
  model::DType weight_dtype = model::DType::bf16;  // fp32, bf16, on a CPU also int8 or int4; activations on a GPU alike
  model::DType kv_dtype = model::DType::bf16;      // fp32 or bf16
  std::int64_t kv_blocks = 0;  // physical blocks, [layer][K|V][block][kv_head][block_tokens][head_dim]
  std::int32_t block_tokens = 16;
  std::int32_t sequences = 256;   // slots for sampled tokens
  std::int64_t step_rows = 2048;  // rows to allocate at the start; larger forwards grow the workspace
  int ranks_on_device = 1;        // GPU: number of ranks that share its memory, this one included
  bool graphs = true;             // GPU: replay decode forwards as graphs
  bool poison = false;            // tests: fill the KV cache and fresh workspace with NaN
};

/// Executes the ops of one rank on one device. One thread at a time; buffers belong to the backend.
class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual model::BackendCapabilities capabilities() const { return {}; }
  /// Returns a text such as "AVX-512, 2 threads" or "NVIDIA H200 (sm_90)".
  [[nodiscard]] virtual std::string description() const = 0;
  /// Returns a sentence on what makes this model much slower here than others; empty if nothing does.
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
  /// sequence `index` of table.prefill. Padding rows attend to the existing tokens. With window > 0, a row at position
  /// p attends to (p - window, p].
  virtual void prefill_attention(std::int32_t layer, std::size_t index, std::int64_t window) = 0;
  /// As prefill_attention(), for all decode rows.
  virtual void decode_attention(std::int32_t layer, std::int64_t window) = 0;
  /// gated[rows, width] = act(x[:, :width]) * x[:, width:] of x = [rows, 2 width], or act(x) of plain MLPs.
  virtual void activation(model::Activation kind, bool gated, Buffer x, Buffer y, std::int64_t rows,
                          std::int64_t width) = 0;
  /// Chooses the best experts of each token from router logits [rows, experts]. Their softmax weights sum to 1.
  /// expert_in = the rows of normed, sorted by expert.
  virtual void route(std::int32_t experts, std::int32_t per_token) = 0;
  /// y = x W_e^T for the rows of every expert e.
  virtual void expert_linear(const Linear& weights, Buffer x, Buffer y) = 0;
  /// delta = sum over a token's experts of weight * expert_out.
  virtual void combine(std::int32_t per_token) = 0;
  /// The buffer becomes its sum over the ranks.
  virtual void all_reduce(Buffer buffer, std::int64_t rows) = 0;
  /// Scales and caps the logits as the architecture states. Then finds the best token in this rank's part of the
  /// vocabulary, [vocab_begin, vocab_begin + valid).
  /// exchange_samples() finds the best of all ranks and stores it in the sequence's slot. wait() returns it.
  virtual void sample(std::int64_t vocab_begin, std::int64_t valid) = 0;
  /// Makes the best token of all ranks known to each; a collective call.
  virtual void exchange_samples() = 0;

  /// Blocks until all enqueued work is complete. Used to time single ops.
  virtual void synchronize() {}

  // ---- KV blocks between forwards ----------------------------------------------------------------------------
  /// Swapping: copies a whole block (all layers), bytes_per_block() bytes, to host memory and back.
  [[nodiscard]] virtual std::int64_t bytes_per_block() const = 0;
  virtual void read_block(std::int32_t block, void* host) = 0;
  virtual void write_block(std::int32_t block, const void* host) = 0;
};

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
/// Throws DeviceError, stating the reason, if no GPU can be used.
void require_gpu();
/// Returns the version in NCCL's own form, such as 23003 for 2.30.3; 0 without NCCL.
[[nodiscard]] int nccl_version();
/// Makes the endpoints of a group: endpoint i is that of rank i, on devices[i] (gpu_placement.h). `kind` is nccl, or
/// loopback with one device for all. Throws DeviceError as make_cuda_backend does.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_cuda_group(CommunicatorKind kind,
                                                                         std::span<const int> devices);

/// What several processes need to form one NCCL group. Every process has the same number of ranks.
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
