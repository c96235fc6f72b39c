// SPDX-License-Identifier: Apache-2.0
// The products of pairs without their instructions: each operation rounds as the instruction does. For tests.
#include "exec/cpu/kernels_pairs.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/kernels_amx.h"
#include "exec/cpu/simd_portable.h"

namespace plimsoll::exec {

namespace {

// The instructions take denormal operands and results for zeros of the same sign.
float without_denormals(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000U) == 0) bits &= 0x80000000U;
  __builtin_memcpy(&value, &bits, sizeof bits);
  return value;
}

float half(std::uint32_t word, bool upper) {
  const std::uint32_t bits = upper ? word & 0xffff0000U : word << 16U;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return without_denormals(value);
}

std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Adds the product of one half of two words to a sum, rounded once.
float add_product(float sum, std::uint32_t a, std::uint32_t b, bool upper) {
  return without_denormals(__builtin_fmaf(half(a, upper), half(b, upper), sum));
}

struct PortablePairs : Portable {
  static F fma(F a, F b, F sums) {
    for (int i = 0; i < kWidth; ++i) {
      const std::uint32_t x = bits_of(a[i]), w = bits_of(b[i]);
      sums[i] = add_product(add_product(without_denormals(sums[i]), x, w, true), x, w, false);
    }
    return sums;
  }
};

// A step adds up the products of the lower halves and those of the upper halves apart, and then both to the sums.
class EmulatedTiles {
 public:
  static constexpr int kRows = AmxShape::kRows;

  void configure(int first, int second) {
    rows_[0] = rows_[1] = first;
    rows_[2] = rows_[3] = second;
  }
  void release() {}
  void load_sums(int i, const float* from) { __builtin_memcpy(sums_[i], from, sizeof sums_[i]); }
  void store_sums(int i, float* to) {
    __builtin_memcpy(to, sums_[i], static_cast<std::size_t>(rows_[i]) * sizeof sums_[i][0]);
  }
  void step(const std::uint32_t* a, const std::uint32_t* b, std::int64_t row_words, const std::uint32_t* weights) {
    for (int i = 0; i < (b == nullptr ? 2 : 4); ++i)
      multiply(i, i < 2 ? a : b, row_words, weights + i % 2 * AmxShape::kColumns);
  }

 private:
  void multiply(int i, const std::uint32_t* x, std::int64_t row_words, const std::uint32_t* weights) {
    for (int row = 0; row < rows_[i]; ++row) {
      for (int column = 0; column < AmxShape::kColumns; ++column) {
        float lower = 0, upper = 0;
        for (int k = 0; k < AmxShape::kWords; ++k) {
          const std::uint32_t value = x[row * row_words + k], weight = weights[k * AmxShape::kPanel + column];
          lower = add_product(lower, value, weight, false);
          upper = add_product(upper, value, weight, true);
        }
        float& sum = sums_[i][row][column];
        sum = without_denormals(without_denormals(sum) + without_denormals(lower + upper));
      }
    }
  }

  float sums_[4][AmxShape::kRows][AmxShape::kColumns] = {};
  int rows_[4] = {};
};

}  // namespace

constinit const ProductKernels kPortablePairs = pair_set<PortablePairs>("portable pairs");
constinit const ProductKernels kPortableAmx = amx_set<EmulatedTiles>("portable amx");

}  // namespace plimsoll::exec
