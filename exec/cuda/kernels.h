// SPDX-License-Identifier: Apache-2.0
// The kernels as functions that enqueue them; no function here waits. Rows are row-major and contiguous. `element` says
// whether activations are f32 or bf16; sums are always f32. Unless stated otherwise, pointers are device pointers, and
// rows of activations, weights and the KV cache begin at multiples of 16 bytes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "exec/cuda/step.h"
#include "model/architecture.h"

namespace plimsoll::exec::cuda {

enum class Element : std::uint8_t { f32, bf16 };
/// Returns how kernels hold numbers of a study's type: those of every narrower type than fp32 as bf16.
[[nodiscard]] constexpr Element element_of(model::DType dtype) {
  return dtype == model::DType::fp32 ? Element::f32 : Element::bf16;
}
[[nodiscard]] constexpr std::int64_t bytes_of(Element element) { return element == Element::f32 ? 4 : 2; }

/// [layer][K|V][block][kv_head][block_tokens][head_dim]; `plane` elements hold K (or V) of one layer.
struct KvGeometry {
  std::int32_t kv_heads = 0, block_tokens = 0, head_dim = 0;
  std::int64_t plane = 0;
};

// ---- pointwise.cu ------------------------------------------------------------------------------------------------
struct EmbedArguments {
  const void* table = nullptr;          // [vocab_rows, width]
  const void* positions = nullptr;      // [max_position, width] or null
  const std::int32_t* slots = nullptr;  // the last sampled tokens, by slot
  void* residual = nullptr;             // [rows, width]
  std::int64_t vocab_begin = 0, vocab_rows = 0, max_position = 0, rows = 0, width = 0;
  float scale = 1;
};
/// residual[r] = scale table[token] (+ positions[position]); tokens of other ranks give 0. width must be a multiple
/// of 8.
void embed(Element element, const EmbedArguments& arguments, const StepView& step, cudaStream_t stream);

struct NormArguments {
  const float* weight = nullptr;
  const float* bias = nullptr;  // null: none
  float epsilon = 0;
  model::Norm kind = model::Norm::rmsnorm;
  void* residual = nullptr;     // [*, width]
  const void* delta = nullptr;  // added to the residual first; null: none
  float delta_scale = 1;        // of the delta as it is added
  bool identity = false;        // normed = residual
  void* normed = nullptr;       // [rows, width]; may be the residual itself
  const std::int32_t* gather =
      nullptr;  // normed[i] comes from residual[gather[i]], which is not written; null: from residual[i]
  std::int64_t rows = 0, width = 0;
};
/// residual += delta_scale delta (rounded to the element), normed = norm(residual). width must be a multiple of 8, at
/// most 16384.
void norm(Element element, const NormArguments& arguments, cudaStream_t stream);
constexpr std::int64_t kMaxNorm = 16384;

/// y[r] = act(x[r, :width]) * x[r, width:] of x [rows, 2 width], or act(x) of x [rows, width]. Any width.
void activation(Element element, model::Activation kind, bool gated, const void* x, void* y, std::int64_t rows,
                std::int64_t width, cudaStream_t stream);

/// y = model::ClampedSwiglu of x [rows, 2 width], its gates before its up values.
struct ClampArguments {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t rows = 0, width = 0;
  float limit = 7, alpha = 1.702F;
};
void clamped_swiglu(Element element, const ClampArguments& arguments, cudaStream_t stream);

/// One KV block: `planes` pieces of `piece` bytes, a multiple of 16, `pitch` bytes apart in the cache, and one after
/// another in pinned host memory.
struct BlockCopy {
  void* cache = nullptr;
  void* host = nullptr;
  std::int64_t pitch = 0, planes = 0, piece = 0;
  bool to_host = true;
};
void move_block(const BlockCopy& copy, cudaStream_t stream);

// ---- rope.cu -----------------------------------------------------------------------------------------------------
/// The frequencies of a rotation, on the device, and the factor of its sines and cosines.
struct RopeAngles {
  const double* frequencies = nullptr;
  std::int32_t pairs = 0;
  double magnitude = 1;
};
/// table[row][i] = magnitude (cos, sin) of position[row] * frequencies[i], computed in f64.
void rope_table(const RopeAngles& angles, std::int64_t rows, const StepView& step, float2* table, cudaStream_t stream);

struct RopeArguments {
  const float* bias = nullptr;    // [(heads + 2 kv_heads) head_dim]; null: none
  const float* q_norm = nullptr;  // [head_dim]; null: none
  const float* k_norm = nullptr;
  float epsilon = 0;
  const float2* table = nullptr;  // [rows][pairs]
  std::int32_t pairs = 0;         // rotary_dim / 2; 0: no rotation
  bool interleaved = false;
  void* qkv = nullptr;   // [rows, (heads + 2 kv_heads) head_dim]; q is updated in place
  void* keys = nullptr;  // planes of this layer
  void* values = nullptr;
  std::int32_t heads = 0;
  std::int64_t rows = 0;
};
void rope_append(Element element, Element kv_element, const RopeArguments& arguments, const KvGeometry& kv,
                 const StepView& step, cudaStream_t stream);

/// As the two norms of rope_append, but over all query heads together and all key heads together: qkv (+ bias) normed
/// in place, with weights [heads head_dim] and [kv_heads head_dim].
void wide_norms(Element element, const RopeArguments& arguments, const KvGeometry& kv, cudaStream_t stream);

// ---- attention ---------------------------------------------------------------------------------------------------
struct AttentionArguments {
  const void* qkv = nullptr;  // q of row r, head h at r * row_stride + h * head_dim
  const void* keys = nullptr;
  const void* values = nullptr;
  void* attended = nullptr;     // [rows, heads head_dim]
  std::int64_t row_stride = 0;  // elements
  std::int32_t heads = 0;
  std::int64_t window = 0;  // 0 if none
  float scale = 0;
  float cap = 0;                 // scores become cap tanh(score / cap); 0: unchanged
  const float* sinks = nullptr;  // [heads]: a score without a value; null: none
};

/// The head dimensions that the tensor-core kernels support.
constexpr std::int32_t kTensorCoreHeads[] = {64, 80, 96, 112, 128, 160, 192, 256};
[[nodiscard]] constexpr bool has_tensor_core_attention(std::int32_t head_dim) {
  return std::find(std::begin(kTensorCoreHeads), std::end(kTensorCoreHeads), head_dim) != std::end(kTensorCoreHeads);
}

/// Scratch memory of the split decode kernel.
struct DecodeScratch {
  float* partial = nullptr;          // decode_partial_floats() floats
  std::uint32_t* arrived = nullptr;  // decode_counters() counters, zero between launches
};
/// Arguments of plan_decodes(): parts beyond one a row, which fill the multiprocessors, and the fewest keys of a part.
[[nodiscard]] std::int64_t decode_extra_parts(std::int32_t heads, std::int32_t kv_heads, std::int32_t multiprocessors);
[[nodiscard]] std::int64_t decode_smallest_part(std::int32_t head_dim);
/// Scratch for the parts of every plan.
[[nodiscard]] std::int64_t decode_partial_floats(std::int32_t head_dim, std::int32_t multiprocessors);
[[nodiscard]] std::int64_t decode_counters(std::int64_t sequences, std::int32_t heads, std::int32_t kv_heads);
/// Attention of all decode rows in one kernel, for bf16 activations and cache and a head_dim with tensor cores. `parts`
/// is the number of step.parts.
void decode_attention_bf16(const AttentionArguments& arguments, const KvGeometry& kv, const StepView& step,
                           std::int64_t parts, const DecodeScratch& scratch, cudaStream_t stream);

/// Causal attention of all prefill rows over the pages of the cache, for bf16 activations and cache and a head_dim with
/// tensor cores. `tiles` is the number of step.tiles, which are cut by kPrefillTileRows.
void prefill_attention_bf16(const AttentionArguments& arguments, const KvGeometry& kv, const StepView& step,
                            std::int64_t tiles, cudaStream_t stream);
/// Rows of a query tile for every head dimension. The head dimension fixes how many blocks share a tile.
constexpr std::int32_t kPrefillTileRows = 128;

/// Attention for any types and head dimensions up to 256, for the `count` sequences of `list` (step.prefill or
/// step.decode) with at most `longest` rows each. It is the reference for the two functions above.
void plain_attention(Element element, Element kv_element, const AttentionArguments& arguments, const KvGeometry& kv,
                     const StepView& step, const DeviceSequence* list, std::int64_t count, std::int64_t longest,
                     cudaStream_t stream);

// ---- gemv.cu -----------------------------------------------------------------------------------------------------
/// The activation() of a product's result y [m, n].
struct ProductActivation {
  void* to = nullptr;  // [m, n / 2] if gated, else [m, n], of y's type; null: no activation
  model::Activation kind = model::Activation::silu;
  bool gated = false;
};
struct GemvArguments {
  const void* weight = nullptr;  // [n, k]
  const void* x = nullptr;       // [m, k]
  const float* bias = nullptr;   // [n] or null
  void* y = nullptr;             // [m, n]
  std::int64_t m = 0, n = 0, k = 0;
  bool accumulate = false;      // y += instead of y =
  ProductActivation then = {};  // computed from y as rounded, without writing y; not with accumulate
};
/// y = x W^T for few rows: reads W once per kGemvRows rows of x. Any n and k; rows need not be aligned. The weights may
/// be read before the previous kernel of the stream has ended.
void gemv(Element element, Element y_element, const GemvArguments& arguments, cudaStream_t stream);
constexpr std::int64_t kGemvRows = 8;

// ---- experts.cu --------------------------------------------------------------------------------------------------
struct Routing {                    // the routing of one layer
  std::int32_t* chosen = nullptr;   // [tokens * per_token]: expert
  float* weight = nullptr;          // [tokens * per_token]
  std::int32_t* place = nullptr;    // [tokens * per_token]: row in the sorted order
  std::int32_t* offsets = nullptr;  // [experts + 1]: first sorted row of each expert
};
struct RouteArguments {
  const float* logits = nullptr;       // [tokens, experts]
  const float* choice_bias = nullptr;  // [experts], added to the sigmoids for the choice; null: none
  std::int64_t tokens = 0, width = 0;
  std::int32_t experts = 0, per_token = 0;
  bool sigmoid = false, normalised = true;  // as in model::Routing, as is `scale`
  float scale = 1;
  const void* from = nullptr;  // [tokens, width]
  void* to = nullptr;          // [tokens * per_token, width]
};
/// Computes `routing`, and to = rows of `from` sorted by expert. Ties go to the lower expert; the rows of an expert
/// keep the order of tokens. width must be a multiple of 8. There may be at most 1024 experts and 32 per token.
void route(Element element, const RouteArguments& arguments, const Routing& routing, cudaStream_t stream);
constexpr std::int32_t kMaxExperts = 1024, kMaxExpertsPerToken = 32;

struct ExpertArguments {
  const void* weight = nullptr;  // [experts, n, k]
  const float* bias = nullptr;   // [experts, n] or null
  const void* x = nullptr;       // [rows, k]
  void* y = nullptr;             // [rows, n]
  std::int64_t rows = 0, n = 0, k = 0;
  std::int32_t experts = 0;
  const std::int32_t* offsets = nullptr;  // Routing::offsets
};
/// y[r] = x[r] W_e^T (+ bias_e) for the sorted rows r of every expert e. Any n and k.
void expert_linear(Element element, const ExpertArguments& arguments, cudaStream_t stream);
struct CombineArguments {
  const void* expert_out = nullptr;
  void* delta = nullptr;        // [tokens, width]
  bool shared = false;          // delta has the result of the shared experts
  const float* gate = nullptr;  // [tokens]: that result is multiplied by its sigmoid; null: 1
  std::int64_t tokens = 0, width = 0;
  std::int32_t per_token = 0;
};
/// delta[t] = sum of weight * expert_out[place] over a token's experts, in order of choice (+ the shared experts).
void combine(Element element, const CombineArguments& arguments, const Routing& routing, cudaStream_t stream);

// ---- sample.cu ---------------------------------------------------------------------------------------------------
/// logits = scale logits, then cap tanh(logits / cap) unless cap is 0.
void finish_logits(float* logits, std::int64_t count, float scale, float cap, cudaStream_t stream);
/// least[row] = the least logit of logits [rows, stride], of the first `valid`, that the row's sampling leaves
/// (exec/cpu/least_logit.h); -infinity if it leaves all.
void least_logits(const float* logits, std::int64_t rows, std::int64_t stride, std::int64_t valid, const StepView& step,
                  float* least, cudaStream_t stream);
/// best[row] = the largest (value, lowest token) of logits [rows, stride] over the first `valid`, as one ordered
/// number. Logits below least[row] do not count; `least` may be null.
void sample(const float* logits, std::int64_t rows, std::int64_t stride, std::int64_t vocab_begin, std::int64_t valid,
            const StepView& step, const float* least, std::uint64_t* best, cudaStream_t stream);
/// Chooses the best over `ranks` lists of best [ranks, rows]: sets ids[row], and slots[step.sample_slot[row]] unless
/// that slot is -1.
void choose(const std::uint64_t* best, std::int32_t ranks, std::int64_t rows, const StepView& step, std::int32_t* ids,
            std::int32_t* slots, cudaStream_t stream);

// ---- reduce.cu ---------------------------------------------------------------------------------------------------
constexpr int kMaxRanks = 16;
struct RankPointers {
  void* of[kMaxRanks];
};
/// Replaces the `ranks` buffers on one device by their sum, added in order of rank in f32. Buffers are aligned to 16
/// bytes.
void sum_ranks(Element element, const RankPointers& buffers, int ranks, std::int64_t elements, cudaStream_t stream);

/// One rank's view of an all-reduce through memory that every rank can read and write; see peer_communicator.cpp.
struct PeerPart {
  RankPointers staging;                    // [2][capacity] bytes of every rank
  RankPointers flags;                      // [kPeerBlocks][kMaxRanks] counters of every rank
  std::uint32_t* calls = nullptr;          // [kPeerBlocks], of this rank only
  const std::uint32_t* aborted = nullptr;  // in host memory; nonzero: stop waiting, the sums are invalid
  int rank = 0, ranks = 1;
  std::int64_t capacity = 0;  // bytes
};
constexpr int kPeerBlocks = 32;
void peer_all_reduce(Element element, const PeerPart& part, void* data, std::int64_t elements, cudaStream_t stream);

}  // namespace plimsoll::exec::cuda
