// SPDX-License-Identifier: Apache-2.0
// Memory for weights, caches and buffers on the host: from the kernel in whole pages, so that what is never used costs
// nothing.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll::exec {

/// Zeroed pages that cost nothing until they are touched; huge ones where the kernel has them. Owns them.
class HostMemory {
 public:
  HostMemory() = default;
  /// Throws DeviceError naming `what` where the address space does not suffice.
  HostMemory(std::size_t bytes, std::string_view what);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace plimsoll::exec
