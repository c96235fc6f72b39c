// SPDX-License-Identifier: Apache-2.0
// Writes f32 tensors of known sizes to a .safetensors file piece by piece, so that they need not fit in memory. The
// file appears under its name only once it is complete.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::exec {

class SafetensorsWriter {
 public:
  struct Tensor {
    std::string name;
    std::int64_t rows = 0, columns = 0;
  };

  /// Opens a temporary file beside `path`. Throws DeviceError if the disk refuses; so do the calls below.
  SafetensorsWriter(std::string path, const std::vector<Tensor>& tensors);
  /// Removes the temporary file unless finish() was called.
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Writes rows of tensor number `tensor`, starting at `row`.
  void write(std::size_t tensor, std::int64_t row, std::span<const float> values);
  /// Call after every row is written. Closes the file, which keeps its temporary name.
  void close();
  /// Gives the file its name. Calls close() if that has not happened.
  void finish();

 private:
  void write_at(const void* bytes, std::size_t size, std::int64_t offset);
  [[noreturn]] void refuse() const;

  std::string path_, temporary_;
  int file_ = -1;                                              // -1: closed
  std::vector<std::pair<std::int64_t, std::int64_t>> places_;  // offset in the file, columns
};

}  // namespace plimsoll::exec
