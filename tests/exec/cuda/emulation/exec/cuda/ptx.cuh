// SPDX-License-Identifier: Apache-2.0
// exec/cuda/ptx.cuh on the CPU: the effect of each instruction, with the fragment layouts of the PTX manual.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <thread>

#include "exec/cuda/bf16.h"

namespace plimsoll::exec::cuda {

inline unsigned char* dynamic_shared() { return static_cast<unsigned char*>(cuda_emulation::dynamic_shared()); }

inline void wait_for_previous_kernel() { cuda_emulation::races::wait_for_previous_grid(); }
inline void let_next_kernel_start() { cuda_emulation::races::let_next_grid_start(); }

inline Bf16 to_bf16(float x) { return {bf16_bits(x)}; }
inline std::uint32_t pack_bf16(float low, float high) { return bf16_bits(low) | std::uint32_t{bf16_bits(high)} << 16; }

inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  struct Fragments {
    Bf16 a[8], b[4];
  } own;
  std::memcpy(own.a, a, sizeof own.a);
  std::memcpy(own.b, &b0, sizeof b0);
  std::memcpy(own.b + 2, &b1, sizeof b1);
  const std::byte* mail = cuda_emulation::exchange(&own, sizeof own);
  const auto of = [mail](unsigned lane) -> const Fragments& {
    return *reinterpret_cast<const Fragments*>(mail + lane * cuda_emulation::kLaneStride);
  };
  // Element (row, k) of a lies in lane 4 (row % 8) + k % 8 / 2, register row / 8 + 2 (k / 8), half k % 2.
  const auto a_at = [&](unsigned row, unsigned k) {
    return to_float(of(row % 8 * 4 + k % 8 / 2).a[(row / 8 + k / 8 * 2) * 2 + k % 2]);
  };
  const auto b_at = [&](unsigned k, unsigned column) {
    return to_float(of(column * 4 + k % 8 / 2).b[k / 8 * 2 + k % 2]);
  };
  const unsigned lane = cuda_emulation::thread().lane;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) d[i] += a_at(row, k) * b_at(k, column);
  }
}

template <bool Transposed>
inline void emulated_ldmatrix(std::uint32_t (&r)[4], const void* row) {
  const std::byte* mail = cuda_emulation::exchange(&row, sizeof row);
  const unsigned lane = cuda_emulation::thread().lane, major = lane / 4, minor = lane % 4 * 2;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    std::uint32_t halves[2];
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned at_row = Transposed ? minor + i : major, at_column = Transposed ? major : minor + i;
      const std::uint16_t* address = nullptr;
      std::memcpy(&address, mail + (matrix * 8 + at_row) * cuda_emulation::kLaneStride, sizeof address);
      halves[i] = address[at_column];
    }
    r[matrix] = halves[0] | halves[1] << 16;
  }
  (void)cuda_emulation::exchange(row, 1);  // .sync: no thread goes on before all have read their rows
}
inline void ldmatrix_x4(std::uint32_t (&r)[4], const void* row) { emulated_ldmatrix<false>(r, row); }
inline void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row) { emulated_ldmatrix<true>(r, row); }

inline void cp_async_16(void* shared, const void* global, bool present) {
  cuda_emulation::copy_later(shared, global, present ? 16 : 0);
}
inline void cp_async_commit() { cuda_emulation::commit_copies(); }
template <int Left>
void cp_async_wait() {
  cuda_emulation::wait_for_copies(Left);
}

inline uint4 load_streaming(const void* global) {
  uint4 v;
  cuda_emulation::races::read_constant(global, &v, sizeof v);
  return v;
}

inline uint4 load_16(const void* global) { return *static_cast<const uint4*>(global); }
inline void store_16(void* global, const uint4& v) { *static_cast<uint4*>(global) = v; }

inline void store_release_system(std::uint32_t* flag, std::uint32_t value) {
  __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}
inline std::uint32_t load_acquire_system(const std::uint32_t* flag) {
  std::this_thread::yield();  // polled in a loop; lets the thread of the other rank run
  return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

}  // namespace plimsoll::exec::cuda
