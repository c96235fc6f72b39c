// SPDX-License-Identifier: Apache-2.0
// RAII owners of CUDA resources: device and pinned memory, streams, events, graphs.
#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <utility>

#include "exec/cuda/check.h"

namespace plimsoll::exec::cuda {

template <auto Destroy, class Handle>
struct Destroyer {
  using pointer = Handle;
  void operator()(Handle handle) const {
    static_cast<void>(Destroy(handle));
  }  // ignores errors: at exit the driver may already be unloaded
};
template <auto Destroy, class Handle>
using Owner = std::unique_ptr<Handle, Destroyer<Destroy, Handle>>;

using StreamOwner = Owner<cudaStreamDestroy, cudaStream_t>;
using EventOwner = Owner<cudaEventDestroy, cudaEvent_t>;
using GraphOwner = Owner<cudaGraphDestroy, cudaGraph_t>;
using GraphExecOwner = Owner<cudaGraphExecDestroy, cudaGraphExec_t>;

[[nodiscard]] inline StreamOwner make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return StreamOwner(stream);
}
[[nodiscard]] inline EventOwner make_event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags), "creating an event");
  return EventOwner(event);
}

/// Throws DeviceError: "needs 1.50 GiB for the KV cache, 0.72 GiB free of 79.11 GiB".
[[noreturn]] inline void out_of_memory(std::size_t bytes, const char* what) {
  std::size_t free = 0, total = 0;
  static_cast<void>(cudaMemGetInfo(&free, &total));
  const auto gib = [](std::size_t n) { return static_cast<double>(n) / (1024.0 * 1024.0 * 1024.0); };
  throw DeviceError(fmt::format("out of GPU memory: needs {:.2f} GiB for {}, {:.2f} GiB free of {:.2f} GiB", gib(bytes),
                                what, gib(free), gib(total)));
}

/// Memory of a fixed size that Free releases. get() is null where the size is 0.
template <auto Free>
class Memory {
 public:
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] void* get() const { return memory_.get(); }
  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(memory_.get());
  }

 protected:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {}
  void own(void* pointer) { memory_.reset(pointer); }

 private:
  Owner<Free, void*> memory_;
  std::size_t bytes_ = 0;
};

/// Device memory of a fixed size, aligned to 256 bytes. Throws DeviceError with the sizes if too little is free.
class DeviceBuffer : public Memory<cudaFree> {
 public:
  DeviceBuffer() : Memory(0) {}
  DeviceBuffer(std::size_t bytes, const char* what) : Memory(bytes) {
    if (bytes == 0) return;
    void* pointer = nullptr;
    const cudaError_t error = cudaMalloc(&pointer, bytes);
    if (error == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      out_of_memory(bytes, what);
    }
    check(error, what);
    own(pointer);
  }
};

/// fill() and the copy return only when the transfer is complete and visible to every stream. cudaMemset and cudaMemcpy
/// alone may return earlier, and the streams of make_stream() do not wait for them.
inline void fill(const DeviceBuffer& buffer, int byte, const char* what) {
  if (buffer.bytes() == 0) return;
  check(cudaMemset(buffer.get(), byte, buffer.bytes()), what);
  check(cudaStreamSynchronize(nullptr), what);
}
inline void copy_in(const DeviceBuffer& buffer, const void* host, const char* what) {
  if (buffer.bytes() == 0) return;
  check(cudaMemcpy(buffer.get(), host, buffer.bytes(), cudaMemcpyHostToDevice), what);
  check(cudaStreamSynchronize(nullptr), what);
}

/// Pinned host memory, which the GPU accesses directly.
class PinnedBuffer : public Memory<cudaFreeHost> {
 public:
  PinnedBuffer() : Memory(0) {}
  explicit PinnedBuffer(std::size_t bytes) : Memory(bytes) {
    if (bytes == 0) return;
    void* pointer = nullptr;
    check(cudaMallocHost(&pointer, bytes), "allocating pinned memory");
    own(pointer);
  }
};

}  // namespace plimsoll::exec::cuda
