// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/exec/cuda/emulation/cuda_runtime.h"

using plimsoll::exec::cuda_emulation::Machine;

using Work = std::function<void()>;

struct CUstream_st {
  std::mutex queue_mutex, run_mutex;
  std::deque<Work> queue;
  std::uint64_t enqueued = 0;
  std::atomic<std::uint64_t> executed{0};
  bool capturing = false;
  std::vector<Work> captured;
  std::shared_ptr<CUstream_st> handle;  // keeps the stream alive until it is destroyed; events may keep it longer
};
struct CUevent_st {
  std::shared_ptr<CUstream_st> stream;
  std::uint64_t at = 0;
  std::atomic<double> seconds{0};
};
struct CUgraph_st {
  std::vector<Work> work;
};
struct CUgraphExec_st {
  std::vector<Work> work;
};

namespace {

std::mutex allocations_mutex;
std::map<void*, std::size_t> device_allocations, pinned_allocations;
Machine machine;
std::size_t allocation_count = 0;
thread_local int current_device = 0;
thread_local int captures = 0;  // while a thread captures, calls that would synchronise fail

std::atomic<int> seconds_passed = 0;  // pass_a_second()

double now() {
  return seconds_passed + std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs the stream's work up to the given position. Two threads may request that at the same time, and wait for each
// other's streams.
void run_until(CUstream_st& stream, std::uint64_t place) {
  while (stream.executed < place) {
    const std::unique_lock running(stream.run_mutex, std::try_to_lock);
    if (!running) {
      std::this_thread::yield();
      continue;
    }
    while (stream.executed < place) {
      Work work;
      {
        const std::lock_guard lock(stream.queue_mutex);
        work = std::move(stream.queue.front());
        stream.queue.pop_front();
      }
      work();
      ++stream.executed;
    }
  }
}

// The stream of calls that state none; the streams of our code do not wait for it. It is not destroyed at exit.
CUstream_st& default_stream() {
  static auto* const stream = new CUstream_st;
  return *stream;
}

std::uint64_t end_of(CUstream_st& stream) {
  const std::lock_guard lock(stream.queue_mutex);
  return stream.enqueued;
}

bool is_pinned(const void* pointer) {
  const std::lock_guard lock(allocations_mutex);
  const auto after = pinned_allocations.upper_bound(const_cast<void*>(pointer));
  if (after == pinned_allocations.begin()) return false;
  const auto it = std::prev(after);
  return static_cast<const char*>(pointer) < static_cast<const char*>(it->first) + it->second;
}

cudaError_t allocate(std::map<void*, std::size_t>& into, void** pointer, std::size_t bytes) {
  *pointer = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  const std::lock_guard lock(allocations_mutex);
  ++allocation_count;
  into[*pointer] = bytes;
  return cudaSuccess;
}

cudaError_t release(std::map<void*, std::size_t>& from, void* pointer) {
  if (pointer == nullptr) return cudaSuccess;
  const std::lock_guard lock(allocations_mutex);
  if (from.erase(pointer) == 0) return cudaErrorInvalidValue;
  ++allocation_count;
  std::free(pointer);
  return cudaSuccess;
}

std::size_t allocated() {
  std::size_t sum = 0;
  for (const auto& [pointer, bytes] : device_allocations) sum += bytes;
  return sum;
}

}  // namespace

namespace plimsoll::exec::cuda_emulation {

void pass_a_second() { ++seconds_passed; }

void enqueue(cudaStream_t stream, Work work) {
  if (stream->capturing) {
    stream->captured.push_back(std::move(work));
    return;
  }
  const std::lock_guard lock(stream->queue_mutex);
  stream->queue.push_back(std::move(work));
  ++stream->enqueued;
}

void set_machine(const Machine& m) { machine = m; }

std::size_t allocation_calls() {
  const std::lock_guard lock(allocations_mutex);
  return allocation_count;
}

std::size_t live_allocations() {
  const std::lock_guard lock(allocations_mutex);
  return device_allocations.size() + pinned_allocations.size();
}

}  // namespace plimsoll::exec::cuda_emulation

using plimsoll::exec::cuda_emulation::enqueue;

cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine.devices;
  return machine.devices > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= machine.devices) return cudaErrorInvalidValue;
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated GPU", 8, 0, 4, 1 << 16, machine.memory};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 1 << 16;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(allocations_mutex);
  *total = machine.memory;
  *free = machine.memory - allocated();
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "emulated error"; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorNoDevice ? "cudaErrorNoDevice" : "cudaError";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  std::size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  if (bytes > free) return cudaErrorMemoryAllocation;
  return allocate(device_allocations, pointer, bytes);
}
cudaError_t cudaFree(void* pointer) {
  cudaStreamSynchronize(nullptr);  // wait for the device before its memory is freed
  return release(device_allocations, pointer);
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) { return allocate(pinned_allocations, pointer, bytes); }
cudaError_t cudaFreeHost(void* pointer) { return release(pinned_allocations, pointer); }

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  if (kind != cudaMemcpyHostToDevice || is_pinned(from)) return cudaErrorInvalidValue;  // not used, so not emulated
  // The host may reuse its memory immediately; the device has the data only when the default stream reaches this copy.
  const auto* bytes_from = static_cast<const char*>(from);
  enqueue(&default_stream(), [to, staged = std::vector<char>(bytes_from, bytes_from + bytes)] {
    std::memcpy(to, staged.data(), staged.size());
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  enqueue(stream, [=] {
    for (std::size_t row = 0; row < height; ++row)
      std::memcpy(static_cast<char*>(to) + row * to_pitch, static_cast<const char*>(from) + row * from_pitch, width);
  });
  // Pageable memory is copied before the call returns.
  const bool pageable = kind != cudaMemcpyDeviceToDevice && !is_pinned(kind == cudaMemcpyHostToDevice ? from : to);
  if (!pageable) return cudaSuccess;
  return stream->capturing ? cudaErrorStreamCaptureUnsupported : cudaStreamSynchronize(stream);
}
cudaError_t cudaMemset(void* at, int value, std::size_t bytes) {
  if (captures > 0) return cudaErrorStreamCaptureUnsupported;
  return cudaMemsetAsync(at, value, bytes, &default_stream());
}
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, [=] { std::memset(at, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const auto created = std::make_shared<CUstream_st>();
  created->handle = created;
  *stream = created.get();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  cudaStreamSynchronize(stream);
  std::exchange(stream->handle, nullptr).reset();
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream == nullptr) stream = &default_stream();
  if (stream->capturing) return cudaErrorStreamCaptureUnsupported;
  run_until(*stream, end_of(*stream));
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->stream == nullptr) return cudaSuccess;
  enqueue(stream, [other = event->stream, place = event->at] { run_until(*other, place); });
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->capturing) return cudaErrorInvalidValue;
  stream->capturing = true;
  ++captures;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!stream->capturing) return cudaErrorInvalidValue;
  stream->capturing = false;
  --captures;
  *graph = new CUgraph_st{std::move(stream->captured)};
  stream->captured.clear();
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event->stream != nullptr) cudaEventSynchronize(event);  // recorded work still refers to it
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (stream->capturing) return cudaErrorStreamCaptureUnsupported;
  enqueue(stream, [event] { event->seconds = now(); });
  event->stream = stream->handle;
  event->at = end_of(*stream);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->stream != nullptr) run_until(*event->stream, event->at);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = static_cast<float>((end->seconds - begin->seconds) * 1e3);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  for (const Work& work : executable->work) enqueue(stream, work);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
