// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/host_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "model/error.h"

namespace plimsoll::exec {

namespace {

// Allocations of 1 MiB and more begin at a huge-page boundary. A matrix of a few megabytes that is read once per step
// from small pages spends a tenth of its time on address translation.
constexpr std::size_t kHugePage = std::size_t{2} << 20, kHugePageFrom = std::size_t{1} << 20;

// Reserves `bytes` at a multiple of `alignment`. Returns MAP_FAILED if there is no room.
void* reserve(std::size_t bytes, std::size_t alignment) {
  const std::size_t slack = alignment > 1 ? alignment : 0;
  void* const pages =
      mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED || slack == 0) return pages;
  auto* const first = static_cast<std::byte*>(pages);
  const std::size_t before = (alignment - reinterpret_cast<std::uintptr_t>(first) % alignment) % alignment;
  if (before > 0) munmap(first, before);
  if (slack > before) munmap(first + before + bytes, slack - before);
  return first + before;
}

}  // namespace

HostMemory::HostMemory(std::size_t bytes, std::string_view what) : bytes_(bytes) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugePageFrom;
  if (huge)
    bytes_ = bytes =
        (bytes + kHugePage - 1) / kHugePage * kHugePage;  // a multiple of the page size, so that no page is split
  void* const pages = reserve(bytes, huge ? kHugePage : 1);
  if (pages == MAP_FAILED) {
    throw DeviceError("cannot reserve " + std::to_string(bytes) + " bytes of memory for " + std::string(what) + ": " +
                      std::strerror(errno));
  }
  if (huge) madvise(pages, bytes, MADV_HUGEPAGE);  // a hint: small pages work too
  data_ = static_cast<std::byte*>(pages);
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace plimsoll::exec
