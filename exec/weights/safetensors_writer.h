// SPDX-License-Identifier: Apache-2.0
// Writes f32 tensors of known sizes to a .safetensors file piece by piece, so that they need not fit in memory. The
// file appears under its name when it is whole.
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

  /// Opens a temporary file beside `path`. Throws DeviceError when the disk refuses, here and below.
  SafetensorsWriter(std::string path, const std::vector<Tensor>& tensors);
  /// Without finish(): leaves nothing behind.
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Rows of tensor number `tensor` from `row` on.
  void write(std::size_t tensor, std::int64_t row, std::span<const float> values);
  /// Call when every row is written: the file is whole, under its temporary name still.
  void close();
  /// Gives it its name, after close() where that has not been.
  void finish();

 private:
  void write_at(const void* bytes, std::size_t size, std::int64_t offset);
  [[noreturn]] void refuse() const;

  std::string path_, temporary_;
  int file_ = -1;                                              // -1: closed
  std::vector<std::pair<std::int64_t, std::int64_t>> places_;  // offset in the file, columns
};

}  // namespace plimsoll::exec
