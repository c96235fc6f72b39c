// SPDX-License-Identifier: Apache-2.0
// Replaces CUDA's header when kernels run on the CPU: the part of the language and of the runtime that exec/cuda uses.
// Streams delay their work until a call waits for it, so tests detect results that are read too early and buffers that
// are reused too early. The default stream (null), which other streams do not wait for, is delayed too.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "tests/exec/cuda/emulation/grid.h"
#include "tests/exec/cuda/emulation/races.h"

// ---- language ----------------------------------------------------------------------------------------------------
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __shared__ static thread_local
#define threadIdx (::plimsoll::exec::cuda_emulation::thread().thread)
#define blockIdx (::plimsoll::exec::cuda_emulation::thread().block)
#define blockDim (::plimsoll::exec::cuda_emulation::thread().block_size)
#define gridDim (::plimsoll::exec::cuda_emulation::thread().grid_size)

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

inline void __syncthreads() { plimsoll::exec::cuda_emulation::block_barrier(); }
inline void __syncwarp() { plimsoll::exec::cuda_emulation::warp_barrier(); }
inline void __threadfence() { plimsoll::exec::cuda_emulation::races::fence(); }
inline void __threadfence_system() { plimsoll::exec::cuda_emulation::races::fence(); }

template <class T>
T cuda_emulation_from_lane(T value, unsigned lane) {
  using namespace plimsoll::exec::cuda_emulation;
  T result;
  std::memcpy(&result, exchange(&value, sizeof value) + lane % 32 * kLaneStride, sizeof result);
  return result;
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return cuda_emulation_from_lane(value, static_cast<unsigned>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return cuda_emulation_from_lane(value, plimsoll::exec::cuda_emulation::thread().lane ^ static_cast<unsigned>(mask));
}
template <class T>
T __shfl_up_sync(unsigned, T value, unsigned distance) {
  const unsigned lane = plimsoll::exec::cuda_emulation::thread().lane;
  return cuda_emulation_from_lane(value, lane < distance ? lane : lane - distance);
}
inline unsigned __ballot_sync(unsigned, bool predicate) {
  const std::byte* mail = plimsoll::exec::cuda_emulation::exchange(&predicate, sizeof predicate);
  unsigned result = 0;
  for (unsigned i = 0; i < 32; ++i) {
    result |= static_cast<unsigned>(mail[i * plimsoll::exec::cuda_emulation::kLaneStride] != std::byte{0}) << i;
  }
  return result;
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }

inline unsigned atomicAdd(unsigned* at, unsigned value) {
  plimsoll::exec::cuda_emulation::races::atomic(at);
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
inline unsigned atomicInc(unsigned* at, unsigned last) {
  plimsoll::exec::cuda_emulation::races::atomic(at);
  unsigned old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(at, &old, old >= last ? 0 : old + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return old;
}
inline unsigned long long atomicMax(unsigned long long* at, unsigned long long value) {
  plimsoll::exec::cuda_emulation::races::atomic(at);
  unsigned long long old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (old < value && !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  return old;
}

inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}

// ---- runtime -----------------------------------------------------------------------------------------------------
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNotReady = 600,
  cudaErrorPeerAccessAlreadyEnabled = 704,
  cudaErrorStreamCaptureUnsupported = 900
};
enum cudaDeviceAttr { cudaDevAttrL2CacheSize = 38 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaEventDefault = 0 };

struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;

struct cudaDeviceProp {
  char name[256];
  int major, minor, multiProcessorCount, l2CacheSize;
  std::size_t totalGlobalMem;
};

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaMalloc(void** pointer, std::size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemset(void* at, int value, std::size_t bytes);
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);

namespace plimsoll::exec::cuda_emulation {
/// Appends work to a stream, or to the graph that it captures.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Puts the clock of events forward by a second. Work that calls it seems slower than work that does not.
void pass_a_second();
/// The simulated hardware. With 0 devices there is no GPU.
struct Machine {
  int devices = 1;
  std::size_t memory = std::size_t{4} << 30;
};
void set_machine(const Machine& machine);
/// Returns how often memory was allocated or freed, including pinned memory: each call may wait for a device.
[[nodiscard]] std::size_t allocation_calls();
/// Returns the number of allocations that are not freed.
[[nodiscard]] std::size_t live_allocations();
}  // namespace plimsoll::exec::cuda_emulation
