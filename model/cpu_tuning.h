// SPDX-License-Identifier: Apache-2.0
// How the CPU executor runs products on one machine. `calibrate` chooses it by a probe and keeps it with the
// calibration. It changes durations; only the choice of instructions changes results, by rounding.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace plimsoll::model {

/// How a product is cut so that its operands stay in caches, and what it prefetches. A tile is as many rows as have
/// room in the registers.
struct CpuBlocking {
  std::int64_t tiles = 8;     // tiles of rows that pass over the same weights
  std::int64_t depth = 1024;  // columns of the weights that they pass over before the next rows of weights
  std::int64_t ahead = 4096;  // bytes that a product of one tile prefetches ahead
  bool far = false;           // prefetch into the second-level cache and not into the first
  bool operator==(const CpuBlocking&) const = default;
};

/// The blocking of products with one row, with one tile of several rows, with up to kFewTiles, and with more.
struct CpuBlockings {
  static constexpr std::int64_t kFewTiles = 3;
  // A single row waits for memory alone. The hardware's prefetcher serves it best; it only needs help with new pages.
  CpuBlocking one = {.ahead = 512, .far = true}, tile = {}, few = {}, many = {};
  [[nodiscard]] const CpuBlocking& of(std::int64_t rows, std::int64_t tiles) const {
    return rows <= 1 ? one : tiles <= 1 ? tile : tiles <= kFewTiles ? few : many;
  }
  bool operator==(const CpuBlockings&) const = default;
};

/// The instructions that multiply bf16 weights: f32 ones, or those that multiply pairs of bf16 and round activations
/// to bf16.
enum class Bf16Products : std::uint8_t { f32, avx512_bf16, amx };
inline constexpr std::array<std::string_view, 3> kBf16ProductNames = {"f32", "avx512-bf16", "amx"};

struct CpuTuning {
  CpuBlockings floats = {}, integers = {}, int4 = {};  // by the type of the weights; integers: those of 8 bits
  Bf16Products bf16 = Bf16Products::f32;
  int threads = 0;       // of all ranks together; 0 for one per core
  int decode_parts = 4;  // parts of decode attention for each thread
  bool operator==(const CpuTuning&) const = default;
};

}  // namespace plimsoll::model
