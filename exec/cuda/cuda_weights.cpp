// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cuda_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "exec/cuda/bf16.h"

namespace plimsoll::exec::cuda {

namespace {

constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;  // 4 MB of f32: large enough to copy at full speed
constexpr unsigned kMaxThreads = 16;

// Uploads a matrix in pieces of whole rows. Each thread takes the next piece when it is free.
class Upload {
 public:
  Upload(const LinearSpec& spec, Element element, const FillRows& fill, void* to)
      : spec_(spec),
        element_(element),
        fill_(fill),
        to_(static_cast<std::byte*>(to)),
        rows_(std::clamp<std::int64_t>(kPieceElements / std::max<std::int64_t>(1, spec.k), 1,
                                       std::max<std::int64_t>(1, spec.n))),
        pieces_a_copy_((spec.n + rows_ - 1) / rows_) {
    check(cudaGetDevice(&device_), "reading the current device");
  }

  void run() {
    const auto pieces = static_cast<unsigned>(std::min<std::int64_t>(spec_.copies * pieces_a_copy_, kMaxThreads));
    const unsigned wanted = std::clamp(std::thread::hardware_concurrency(), 1U, kMaxThreads);
    {
      std::vector<std::jthread> threads;  // joined even if starting one throws
      try {
        for (unsigned i = 1; i < std::min(pieces, wanted); ++i) threads.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        // If threads cannot be started, those that did start do all the work.
      }
      work();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    try {
      // The current device belongs to a thread, so each new thread selects it.
      check(cudaSetDevice(device_), "selecting the device");
      const StreamOwner stream = make_stream();
      std::vector<float> values(static_cast<std::size_t>(rows_ * spec_.k));
      const PinnedBuffer staging(values.size() * static_cast<std::size_t>(bytes_of(element_)));
      for (std::int64_t piece = next_++; piece < spec_.copies * pieces_a_copy_; piece = next_++) {
        upload(piece, values, staging, stream.get());
      }
    } catch (...) {
      // Takes away the remaining pieces, so that the other threads stop after their current one.
      next_ = spec_.copies * pieces_a_copy_;
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void upload(std::int64_t piece, std::vector<float>& values, const PinnedBuffer& staging, cudaStream_t stream) {
    const std::int64_t copy = piece / pieces_a_copy_, row = piece % pieces_a_copy_ * rows_;
    const std::int64_t rows = std::min(rows_, spec_.n - row);
    fill_(copy, row, rows, values.data());
    const auto elements = static_cast<std::size_t>(rows * spec_.k);
    convert({values.data(), elements}, element_, staging.get());
    const std::int64_t place = (copy * spec_.n + row) * spec_.k * bytes_of(element_);
    check(cudaMemcpyAsync(to_ + place, staging.get(), elements * static_cast<std::size_t>(bytes_of(element_)),
                          cudaMemcpyHostToDevice, stream),
          "copying weights");
    // The staging buffer is reused for the next piece. Other threads convert their pieces meanwhile.
    check(cudaStreamSynchronize(stream), "copying weights");
  }

  const LinearSpec& spec_;
  Element element_;
  const FillRows& fill_;
  std::byte* to_;
  std::int64_t rows_, pieces_a_copy_;  // rows per piece; pieces per copy of the matrix
  int device_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void convert(std::span<const float> from, Element element, void* to) {
  if (element == Element::f32) {
    std::memcpy(to, from.data(), from.size_bytes());
    return;
  }
  auto* bits = static_cast<std::uint16_t*>(to);
  for (const float value : from) *bits++ = bf16_bits(value);
}

CudaLinear::CudaLinear(const LinearSpec& spec, Element element, const FillRows& fill)
    : spec_(spec), memory_(static_cast<std::size_t>(spec.n * spec.k * spec.copies * bytes_of(element)), "weights") {
  Upload(spec_, element, fill, memory_.get()).run();
}

CudaVector::CudaVector(std::span<const float> values, Element element) : f32_(values.size_bytes(), "weights") {
  copy_in(f32_, values.data(), "copying weights");
  if (element == Element::f32) return;
  std::vector<std::uint16_t> narrow(values.size());
  convert(values, element, narrow.data());
  bf16_ = DeviceBuffer(narrow.size() * sizeof(std::uint16_t), "weights");
  copy_in(bf16_, narrow.data(), "copying weights");
}

}  // namespace plimsoll::exec::cuda
