// SPDX-License-Identifier: Apache-2.0
// exec/cuda/blas.h on the CPU. It computes every product in one of two ways, which differ in the order of the sum. It
// also proposes a third way and refuses to run it, as the real library may. Timed by events, it is slow, so our own
// kernel wins wherever it competes, however slowly the emulation runs it.
#include "exec/cuda/blas.h"

#include "exec/cuda/bf16.h"
#include "model/error.h"

namespace plimsoll::exec::cuda {

namespace {

float read(Element element, const void* from, std::int64_t at) {
  return element == Element::f32 ? static_cast<const float*>(from)[at] : to_float(static_cast<const Bf16*>(from)[at]);
}

void multiply(const MatmulShape& s, bool backwards, const MatmulOperands& o) {
  for (std::int64_t row = 0; row < s.m; ++row) {
    for (std::int64_t column = 0; column < s.n; ++column) {
      float sum = 0;
      for (std::int64_t i = 0; i < s.k; ++i) {
        const std::int64_t at = backwards ? s.k - 1 - i : i;
        sum += read(s.x, o.x, row * s.k + at) * read(s.x, o.w, column * s.k + at);
      }
      const std::int64_t to = row * s.n + column;
      if (s.accumulate) sum += read(s.y, o.y, to);
      if (s.bias) sum += read(s.y, o.bias, column);
      if (s.y == Element::f32)
        static_cast<float*>(o.y)[to] = sum;
      else
        static_cast<Bf16*>(o.y)[to].bits = bf16_bits(sum);
    }
  }
}

}  // namespace

struct Blas::State {};

Blas::Blas() = default;
Blas::~Blas() = default;

std::string Blas::version() const { return "emulated"; }

std::vector<MatmulAlgorithm> Blas::ways(const MatmulShape&, int most) {
  std::vector<MatmulAlgorithm> all{{0}, {1}, {2}};
  if (most == 1) all.resize(1);
  return all;
}

bool Blas::fits(const MatmulShape&, const MatmulAlgorithm& algorithm) { return algorithm[0] == 0; }

void Blas::run(const MatmulShape& shape, const MatmulAlgorithm& algorithm, const MatmulOperands& operands,
               cudaStream_t stream) {
  if (algorithm[0] > 1) throw DeviceError("cuBLASLt: a product failed");
  cuda_emulation::enqueue(stream, [=] {
    multiply(shape, algorithm[0] == 1, operands);
    cuda_emulation::pass_a_second();
  });
}

}  // namespace plimsoll::exec::cuda
