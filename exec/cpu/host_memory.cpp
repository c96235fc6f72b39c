// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/host_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "model/error.h"

namespace plimsoll::exec {

namespace {

// Below this, huge pages would waste more than they save.
constexpr std::size_t kHugePageFrom = std::size_t{8} << 20;

}  // namespace

HostMemory::HostMemory(std::size_t bytes, std::string_view what) : bytes_(bytes) {
  if (bytes == 0) return;
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) {
    throw DeviceError("cannot reserve " + std::to_string(bytes) + " bytes of memory for " + std::string(what) + ": " +
                      std::strerror(errno));
  }
  if (bytes >= kHugePageFrom) madvise(pages, bytes, MADV_HUGEPAGE);  // a wish: small pages do as well
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
