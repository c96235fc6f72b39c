// SPDX-License-Identifier: Apache-2.0
// A .safetensors file: eight bytes of length, a JSON header that says where each tensor lies, then the tensors. The
// file is memory-mapped, and nothing in it is believed: after the constructor every tensor is known to lie inside the
// map. Format: github.com/huggingface/safetensors, README, "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::exec {

/// Types that weights are read from; other has a known size but cannot be read.
enum class ElementType : std::uint8_t { f64, f32, f16, bf16, other };

struct FileTensor {
  ElementType type = ElementType::other;
  std::string type_name;             // "BF16", as in the file
  std::vector<std::int64_t> shape;   // empty: one number
  std::span<const std::byte> bytes;  // row-major, little-endian, not aligned
};
/// "[64, 176]".
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);
/// A name out of a file, short and without control characters, for messages.
[[nodiscard]] std::string quoted_name(std::string_view name);

/// out[i] = element first + i of the tensor, which is of a type that can be read and has that many.
void read_elements(const FileTensor& tensor, std::int64_t first, std::int64_t count, float* out);

class SafetensorsFile {
 public:
  using Tensors = std::map<std::string, FileTensor, std::less<>>;

  /// Throws InputError for a file that is not there or not of this format, naming the tensor that is wrong: a header
  /// that is longer than the file or no JSON, names that stand twice, offsets that are reversed, overlap, leave a gap,
  /// reach past the end or do not match shape and type. The file must not shrink while it is open.
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  [[nodiscard]] const Tensors& tensors() const { return tensors_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::span<const std::byte> map_;
  Tensors tensors_;
};

}  // namespace plimsoll::exec
