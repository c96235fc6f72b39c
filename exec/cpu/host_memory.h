// SPDX-License-Identifier: Apache-2.0
// Host memory for weights, caches and buffers. It comes from the kernel in whole pages, so unused parts cost nothing.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll::exec {

/// Owns zeroed pages that cost nothing until touched. Uses huge pages where the kernel supports them.
class HostMemory {
 public:
  HostMemory() = default;
  /// Throws DeviceError, naming `what`, if the address space is exhausted.
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
