// SPDX-License-Identifier: Apache-2.0
// The inner loops: a table of functions over raw pointers for each instruction set. They use no threads and allocate no
// memory. They are written once as templates (kernels_*.h) and compiled three times.
//
// Each output is a sum over k in rising order in one accumulator, whichever tile computes it. Its bits therefore depend
// neither on the neighbouring rows nor on the thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/cpu_tuning.h"

namespace plimsoll::exec {

/// Weights are [panels][k][panel], panel = ProductKernels::panel columns. Missing columns of the last panel are zero.
/// bf16 panels interleave their two halves: columns c and c + panel / 2 share a 32-bit word. Kernels of pairs have
/// words of two adjacent k of a column instead, and k counts words.
struct GemmTask {
  const float* x = nullptr;  // rows packed by pack_rows
  std::int64_t rows = 0, k = 0, n = 0;
  const void* weights = nullptr;
  bool bf16 = false;
  std::int64_t panel_begin = 0, panel_end = 0;
  float* y = nullptr;           // [rows, n]
  const float* bias = nullptr;  // [n] or null
  bool accumulate = false;      // y += instead of y =
  model::CpuBlocking blocking = {};
};

/// Adjacent KV heads and the queries of their groups, for adjacent positions of one sequence.
struct AttentionTask {
  const float* q = nullptr;  // [positions] rows, q_stride apart, of [heads, group, head_dim]
  std::int64_t q_stride = 0;
  std::int64_t positions = 0, heads = 1, group = 0, head_dim = 0;
  float scale = 1;
  const float* sinks = nullptr;         // [heads, group]: a score of each query without a value; null if none
  float cap = 0;                        // scores become cap tanh(score / cap); 0: unchanged
  const std::int64_t* first = nullptr;  // [positions]: the position attends to tokens [first, last)
  const std::int64_t* last = nullptr;
  const void* keys = nullptr;     // those of this layer and the first head, in block 0
  std::int64_t head_stride = 0;   // elements from one head to the next in a block
  std::int64_t value_offset = 0;  // elements from a token's key to its value
  std::int64_t block_stride = 0;  // elements from one block to the next
  const std::int32_t* blocks = nullptr;
  std::int64_t block_tokens = 16;
  std::int64_t wrap = 1;  // token t is stored at t % wrap
  bool bf16 = false;
  const void* zeros = nullptr;  // attention_padding() bytes that replace missing tokens
  float* out = nullptr;         // laid out as q
  std::int64_t out_stride = 0;
  float* scratch = nullptr;  // attention_scratch() floats
};

struct NormRow {
  bool mean = false;  // layernorm
  float epsilon = 0;
  const float* weight = nullptr;  // null: 1
  const float* bias = nullptr;    // null: 0
};

struct HeadRope {
  const float* norm = nullptr;  // weight of an RMS norm to apply first; null for none
  float epsilon = 0;
  std::int32_t rotary_dim = 0;
  bool interleaved = false;
};

enum class Pointwise : std::uint8_t { silu, gelu, gelu_tanh, relu, relu2 };

/// As model::ClampedSwiglu.
struct SwigluClamps {
  float limit = 7, alpha = 1.702F;
};

/// Products of packed rows with panels of weights.
struct ProductKernels {
  const char* name = "";
  int panel = 0;       // columns of a weight panel
  int rows = 0;        // most rows in a tile
  bool pairs = false;  // only bf16 weights, and rows are rounded to bf16

  /// Packs x, `rows` rows that are `stride` apart, into the form that GemmTask expects: rows * k floats in tiles
  /// [k][height]. The tiles have at most `rows` rows and nearly equal heights. Packs the tiles [tile_begin, tile_end)
  /// of tile_count(rows).
  void (*pack_rows)(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t k, std::int64_t tile_begin,
                    std::int64_t tile_end, float* packed) = nullptr;
  void (*gemm)(const GemmTask& task) = nullptr;

  [[nodiscard]] std::int64_t tile_count(std::int64_t m) const { return (m + rows - 1) / rows; }
  /// Returns the number of panels that a product of m rows in one tile reads in parallel.
  [[nodiscard]] std::int64_t panels_at_once(std::int64_t m) const { return m > rows ? 1 : m * 4 > rows ? rows / m : 4; }
  [[nodiscard]] std::int64_t panels(std::int64_t n) const { return (n + panel - 1) / panel; }
  /// The 32-bit words of a packed row of k numbers. Pairs are padded with zeros to whole rows of an AMX tile.
  [[nodiscard]] std::int64_t row_words(std::int64_t k) const { return pairs ? (k + 31) / 32 * 16 : k; }
};

/// The kernels of one instruction set, as plain functions; chosen once when the program starts.
struct KernelSet : ProductKernels {
  void (*attention)(const AttentionTask& task) = nullptr;
  void (*norm)(const NormRow& spec, const float* x, std::int64_t n, float* y) = nullptr;
  void (*add)(const float* x, std::int64_t n, float* y) = nullptr;                      // y += x
  void (*add_scaled)(const float* x, float scale, std::int64_t n, float* y) = nullptr;  // y += scale x
  void (*activate)(Pointwise kind, const float* x, std::int64_t n, float* y) = nullptr;
  void (*activate_gated)(Pointwise kind, const float* gate, const float* up, std::int64_t n, float* y) = nullptr;
  void (*clamped_swiglu)(const SwigluClamps& clamps, const float* gate, const float* up, std::int64_t n,
                         float* y) = nullptr;
  /// Normalises and rotates one head in place. `cosines` and `sines` belong to the position, rotary_dim / 2 each.
  void (*rope)(const HeadRope& spec, const float* cosines, const float* sines, std::int64_t head_dim,
               float* head) = nullptr;
  void (*cap)(float limit, std::int64_t n, float* x) = nullptr;  // x = limit tanh(x / limit)
  void (*to_bf16)(const float* x, std::int64_t n, std::uint16_t* y) = nullptr;
  /// Returns the index of the largest of n values, the first one if several are equal. NaN never wins; returns 0 if all
  /// values are NaN.
  std::int64_t (*argmax)(const float* x, std::int64_t n, float* value) = nullptr;

  // For probes.h: independent multiply-adds (returns the flops executed), and the sum of a buffer's 4-byte words.
  double (*multiply_add)(std::int64_t rounds, float* sink) = nullptr;
  float (*read)(const void* data, std::size_t bytes) = nullptr;
};

/// Tokens that share one softmax update.
constexpr std::int64_t kAttentionTile = 64;

/// Returns the floats of scratch that attention needs for `rows` = heads * positions * group query rows.
[[nodiscard]] std::size_t attention_scratch(const KernelSet& kernels, std::int64_t rows, std::int64_t head_dim);
/// Bytes past the end of a cache that attention may read and discard; also the size of AttentionTask::zeros.
[[nodiscard]] std::size_t attention_padding(std::int64_t head_dim);

// The compiled sets. runnable_kernels() returns those that this machine can run.
extern const KernelSet kPortableKernels;
extern const KernelSet kAvx2Kernels;  // only with PLIMSOLL_X86
extern const KernelSet kAvx512Kernels;
// Products of pairs. The portable ones compute what the instructions compute, bit for bit: they are for tests.
extern const ProductKernels kPortablePairs, kPortableAmx;
extern const ProductKernels kAvx512Pairs;  // VDPBF16PS; only with PLIMSOLL_X86
extern const ProductKernels kAmxPairs;     // TDPBF16PS

// Selects the kernels for this machine.

/// Returns the fastest set that this machine can run, or the set named by the environment variable PLIMSOLL_CPU_ISA
/// (avx512, avx2, portable; avx512-bf16 and amx name the set that they belong to). Throws DeviceError if that name is
/// unknown or this machine cannot run the set.
[[nodiscard]] const KernelSet& select_kernels();
/// Returns all sets that this machine can run, fastest first.
[[nodiscard]] std::vector<const KernelSet*> runnable_kernels();
/// Returns the products of pairs that this machine can run beside this set.
[[nodiscard]] std::vector<const ProductKernels*> runnable_pairs(const KernelSet& kernels);
/// Returns what multiplies bf16 weights: what PLIMSOLL_CPU_ISA names, else `tuned` if this machine can run it, else
/// `kernels`.
[[nodiscard]] const ProductKernels& select_bf16_products(const KernelSet& kernels, model::Bf16Products tuned);

}  // namespace plimsoll::exec
