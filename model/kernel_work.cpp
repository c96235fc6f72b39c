// SPDX-License-Identifier: Apache-2.0
// What the keys of measured kernels mean: names, features, work, roofline.
#include <algorithm>
#include <array>
#include <cmath>

#include "model/error.h"
#include "model/kernel_table.h"
#include "model/op_cost.h"
#include "model/p_norm.h"

namespace plimsoll::model {
namespace {

constexpr double kActivationBytes = 2;

double log2_of(double value) { return std::log2(std::max(value, 1e-9)); }

KernelWork gemm_work(const KernelKey& key, double rows, double weight_bytes) {
  const double n = key[0], k = key[1];
  return {2 * rows * n * k, n * k * weight_bytes, rows * (n + k) * kActivationBytes};
}

// Returns the integral of x^power from `low` to `high`.
double power_integral(double power, double low, double high) {
  const double n = power + 1;
  return std::abs(n) < 1e-9 ? std::log(high / low) : (std::pow(high, n) - std::pow(low, n)) / n;
}

// Returns by how many standard deviations the largest of `ranks` equal normal variables exceeds their mean.
double largest_of(double ranks) {
  // For 1, 2, 4 … 256 ranks; beyond, each doubling adds a little less.
  static constexpr std::array<double, 9> kLargest = {0, 0.564, 1.029, 1.424, 1.766, 2.070, 2.344, 2.594, 2.826};
  const double doublings = std::max(0.0, log2_of(ranks)), last = kLargest.size() - 1.0;
  const auto below = static_cast<std::size_t>(std::min(doublings, last - 1));
  return kLargest[below] + (doublings - static_cast<double>(below)) * (kLargest[below + 1] - kLargest[below]);
}

// Returns the share of all (token, expert) pairs on the busiest of `ep` ranks, whose time is the one measured. The
// benchmark draws the load of each expert from a power law between 1 and 0.8 of the tokens. The load of a rank is the
// sum over its experts, and few pairs scatter by chance. An expert gets at most all tokens.
double busiest_share(const KernelKey& key, double tokens) {
  const double ranks = key[6], chosen = key[2], local = key[3] / ranks;
  if (key[4] == 0 || ranks == 1) return 1 / ranks;
  const double skew = key[4] / 100.0, most = std::max(2.0, 0.8 * tokens);
  const double weight = power_integral(-skew, 1, most), mean = power_integral(1 - skew, 1, most) / weight;
  const double spread = power_integral(2 - skew, 1, most) / weight / (mean * mean) - 1;
  const double variance = std::max(0.0, spread) / local + ranks / (tokens * chosen);
  return std::min({1.0, std::max(1 / ranks, local / chosen), (1 + largest_of(ranks) * std::sqrt(variance)) / ranks});
}

// Three matrices for every expert reached by some token, as in op_list.cpp. A rank holds experts / ep, of width / tp.
// Without skew the benchmark gives every expert a token before it gives one a second token.
KernelWork moe_work(const KernelKey& key, double tokens, double weight_bytes) {
  const double hidden = key[0], width = static_cast<double>(key[1]) / key[5];
  const double local = static_cast<double>(key[3]) / key[6], pairs_a_token = key[2] * busiest_share(key, tokens);
  const double rows = tokens * pairs_a_token;
  const double missed = std::log1p(-std::min(pairs_a_token / local, 1 - 1e-12));
  const double reached = key[4] == 0 ? std::min(local, std::max(1.0, rows)) : -local * std::expm1(tokens * missed);
  const double matrices = 3 * hidden * width;
  return {2 * rows * matrices, reached * matrices * weight_bytes, rows * (2 * hidden + 3 * width) * kActivationBytes};
}

// Per sequence: queries and outputs of `rows` tokens, keys and values of `attended` tokens, and `pairs` comparisons.
struct AttentionSize {
  double rows, attended, pairs;
};

KernelWork attention_work(const KernelKey& key, const AttentionSize& size, double kv_bytes) {
  const double sequences = key[0], width = static_cast<double>(key[1]) * key[3];
  const double kv_width = static_cast<double>(key[2]) * key[3];
  return {4 * width * size.pairs * sequences, 2 * kv_width * size.attended * kv_bytes * sequences,
          2 * width * size.rows * kActivationBytes * sequences};
}

}  // namespace

std::string_view name(KernelOp op) {
  static constexpr std::array<std::string_view, kKernelOps> kNames = {"gemm", "moe", "prefill_attention",
                                                                      "decode_attention"};
  return kNames[static_cast<std::size_t>(op)];
}

std::span<const std::string_view> key_names(KernelOp op) {
  static constexpr std::array<std::string_view, 3> kGemm = {"n", "k", "m"};
  static constexpr std::array<std::string_view, 8> kMoe = {"hidden", "intermediate", "topk", "experts",
                                                           "skew",   "tp",           "ep",   "tokens"};
  static constexpr std::array<std::string_view, 5> kPrefill = {"batch", "heads", "kv_heads", "head_dim", "tokens"};
  static constexpr std::array<std::string_view, 5> kDecode = {"batch", "heads", "kv_heads", "head_dim", "context"};
  switch (op) {
    case KernelOp::gemm: return kGemm;
    case KernelOp::moe: return kMoe;
    case KernelOp::prefill_attention: return kPrefill;
    case KernelOp::decode_attention: return kDecode;
  }
  PLIMSOLL_CHECK(false, "no such op");
}

std::span<const std::string_view> feature_names(KernelOp op) {
  static constexpr std::array<std::string_view, 4> kGemm = {"n", "k", "n k", "beyond the cache"};
  static constexpr std::array<std::string_view, 8> kMoe = {
      "hidden", "width of a rank", "experts a token", "experts of a rank", "skew", "TP", "EP", "beyond the cache"};
  static constexpr std::array<std::string_view, 5> kPrefill = {"batch", "heads", "group", "head size", "batch x heads"};
  static constexpr std::array<std::string_view, 5> kDecode = {"batch x KV heads", "KV heads", "group", "head size",
                                                              "batch"};
  switch (op) {
    case KernelOp::gemm: return kGemm;
    case KernelOp::moe: return kMoe;
    case KernelOp::prefill_attention: return kPrefill;
    case KernelOp::decode_attention: return kDecode;
  }
  PLIMSOLL_CHECK(false, "no such op");
}

namespace {

// Rises from 0 to 1 within a doubling around the knee.
double step_at(double value, double knee) { return knee > 0 ? 1 / (1 + std::exp(-4 * (value - knee))) : 0; }

}  // namespace

KernelFeatures features(KernelOp op, const KernelKey& key, double knee) {
  const double a = log2_of(key[0]), b = log2_of(key[1]);
  switch (op) {
    case KernelOp::gemm: return {a, b, a + b, step_at(a + b, knee)};
    case KernelOp::moe: {
      const double tp = log2_of(key[5]), ep = log2_of(key[6]);
      const double width = b - tp, local = log2_of(key[3]) - ep;
      return {a, width, log2_of(key[2]), local, key[4] / 100.0, tp, ep, step_at(a + width + local, knee)};
    }
    case KernelOp::prefill_attention: return {a, b, b - log2_of(key[2]), log2_of(key[3]), a + b};
    case KernelOp::decode_attention: {
      const double kv_heads = log2_of(key[2]);
      return {a + kv_heads, kv_heads, b - kv_heads, log2_of(key[3]), a};
    }
  }
  PLIMSOLL_CHECK(false, "no such op");
}

std::optional<double> stored_bytes(std::string_view dtype) {
  // Four-bit types have a scale per block: 8 bits per block of 16 (nvfp4) or 32 (mxfp4), 16 bits per group of 128
  // (int4).
  if (dtype == "bfloat16" || dtype == "float16" || dtype == "half") return 2;
  if (dtype == "fp8" || dtype == "fp8_block" || dtype == "int8") return 1;
  if (dtype == "nvfp4") return 0.5 + 1.0 / 16;
  if (dtype == "w4a16_mxfp4" || dtype == "w4a8_mxfp4_mxfp8") return 0.5 + 1.0 / 32;
  if (dtype == "int4_wo") return 0.5 + 2.0 / 128;
  return {};
}

bool is_narrow(std::string_view dtype) {
  return dtype == "fp8" || dtype == "fp8_block" || dtype == "nvfp4" || dtype == "w4a8_mxfp4_mxfp8";
}

FlopsPerSecond kernel_peak(const Accelerator& accelerator, std::string_view dtype) {
  return matmul_peak(accelerator, is_narrow(dtype) ? DType::fp8 : DType::bf16);
}

KernelWork kernel_work(KernelOp op, const KernelKey& key, double column, double bytes) {
  switch (op) {
    case KernelOp::gemm: return gemm_work(key, column, bytes);
    case KernelOp::moe: return moe_work(key, column, bytes);
    case KernelOp::prefill_attention: return attention_work(key, {column, column, column * (column + 1) / 2}, bytes);
    case KernelOp::decode_attention: return attention_work(key, {1, column, column}, bytes);
  }
  PLIMSOLL_CHECK(false, "no such op");
}

// Attention reads the cache, whose type may differ from that of the products.
KernelWork kernel_work(const KernelTable& table, const KernelKey& key, double column) {
  KernelWork work =
      kernel_work(table.op, key, column, stored_bytes(table.kv_dtype.empty() ? table.dtype : table.kv_dtype).value());
  if (table.op == KernelOp::moe && table.all_pairs) work.passing /= busiest_share(key, column);
  return work;
}

double cache_hits(const WarmCache& cache, Bytes bytes) {
  constexpr int kMaxSteps = 40;
  const double load = bytes.value / cache.bytes.value;
  if (load <= 1) return 1;
  double hits = 0;  // Newton's method from below finds the smaller solution; the other one is 1
  for (int step = 0; step < kMaxSteps; ++step) {
    const double survives = std::exp(-load * (1 - hits)), change = (survives - hits) / (1 - load * survives);
    hits += change;
    if (change < 1e-9) break;
  }
  return hits;
}

double kernel_roofline(KernelOp op, const OpCoefficients& c, const KernelRoof& roof, const KernelWork& work) {
  const bool decode = op == KernelOp::decode_attention;
  const double hits = roof.cache.bytes.value > 0 ? cache_hits(roof.cache, Bytes(work.stored + work.passing)) : 0;
  const double stored = work.stored * (1 - hits + hits / roof.cache.speedup);
  const double time = roofline_time(c, roof, Flops(work.flops), Bytes(stored + (decode ? 0 : work.passing))).count();
  return decode ? time + work.passing / (roof.bandwidth.value * c.memory_efficiency) : time;
}

double chunk_time(double t0, double whole, double cached) { return t0 + std::max(0.0, whole - cached); }

}  // namespace plimsoll::model
