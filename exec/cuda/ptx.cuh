// SPDX-License-Identifier: Apache-2.0
// Instructions that C++ cannot express, one function each, named as in the PTX manual (sm_80 and later).
// tests/exec/cuda/emulation/ has a header of this name with the same functions for the CPU: change both together.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "exec/cuda/bf16.h"

namespace plimsoll::exec::cuda {

/// Returns the block's dynamic shared memory.
__device__ __forceinline__ unsigned char* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char plimsoll_dynamic_shared[];
  return plimsoll_dynamic_shared;
}

/// Blocks until the previous kernel of the stream has ended and its writes are visible (launch.cuh). Before it, a
/// kernel may read only what no kernel writes.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Once every block has called it or ended, the next kernel of the stream may be launched, up to its own wait.
__device__ __forceinline__ void let_next_kernel_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ Bf16 to_bf16(float x) {
  Bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
/// Two numbers in one register, the first in the lower half.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

/// d += a b on one warp: a [16, 16] row-major, b [16, 8] column-major, both bf16; d [16, 8] f32. With g = lane / 4 and
/// t = lane % 4, a lane holds a[g][2t..], a[g + 8][2t..], a[g][2t + 8..], a[g + 8][2t + 8..] (pairs), b[2t..][g],
/// b[2t + 8..][g], and d[g][2t], d[g][2t + 1], d[g + 8][2t], d[g + 8][2t + 1].
__device__ __forceinline__ void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

/// Loads four 8 x 8 matrices of 16-bit numbers. Lane 8 i + r gives the address of row r of matrix i. Register i of lane
/// 4 r + c receives elements [r][2c] and [r][2c + 1] of matrix i.
__device__ __forceinline__ void ldmatrix_x4(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
/// The same, transposed: register i of lane 4 r + c receives [2c][r] and [2c + 1][r].
__device__ __forceinline__ void ldmatrix_x4_trans(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

/// Copies 16 bytes to shared memory in the background, or fills them with zeros.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, bool present) {
  const int bytes = present ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)), "l"(global), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Left` of this thread's newest copy groups are incomplete.
template <int Left>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

/// Loads 16 bytes that are read once and that no kernel writes, so they need not stay in the cache. It keeps its place
/// before wait_for_previous_kernel().
__device__ __forceinline__ uint4 load_streaming(const void* global) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(global));
  return v;
}

/// One access of 16 bytes where the compiler cannot know that a pointer is one to device memory.
__device__ __forceinline__ uint4 load_16(const void* global) {
  uint4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(global)
               : "memory");
  return v;
}
__device__ __forceinline__ void store_16(void* global, const uint4& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

/// Flags between GPUs: everything written before a release is visible after an acquire that reads the released value.
__device__ __forceinline__ void store_release_system(std::uint32_t* flag, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
__device__ __forceinline__ std::uint32_t load_acquire_system(const std::uint32_t* flag) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}

}  // namespace plimsoll::exec::cuda
