// SPDX-License-Identifier: Apache-2.0
// A .safetensors file: eight bytes of length, a JSON header with the position of each tensor, then the tensors. The
// file is memory-mapped and untrusted: the constructor verifies that every tensor lies inside the map. Format:
// github.com/huggingface/safetensors, README, "Format".
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

/// Types that weights can be read from: floats by read_elements(), integers by PackedTensor. `other` is a type of known
/// size that cannot be read.
enum class ElementType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i8, other };
[[nodiscard]] constexpr bool is_float(ElementType type) { return type <= ElementType::bf16; }

struct FileTensor {
  ElementType type = ElementType::other;
  std::string type_name;             // "BF16", as in the file
  std::vector<std::int64_t> shape;   // empty: a scalar
  std::span<const std::byte> bytes;  // row-major, little-endian, not aligned
};
/// Returns "[64, 176]".
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);
/// Returns a name from a file, shortened and without control characters, for messages.
[[nodiscard]] std::string quoted_name(std::string_view name);

/// Throws InputError about a file as a whole.
[[noreturn]] void fail_file(const std::string& path, const std::string& text);

/// out[i] = element first + i of the tensor. Its type must be a float, and it must have that many elements.
void read_elements(const FileTensor& tensor, std::int64_t first, std::int64_t count, float* out);

class SafetensorsFile {
 public:
  using Tensors = std::map<std::string, FileTensor, std::less<>>;

  /// Opens and verifies a file, which must not shrink while it is open. Throws InputError, naming the tensor, if the
  /// file is missing or malformed. Malformed: the header is longer than the file or not JSON, names are duplicate, or
  /// offsets are reversed, overlap, leave a gap, exceed the file or do not match shape and type.
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

// ---- safetensors_header.cpp: the header as written, before its offsets are checked. Private to exec/weights ------

struct HeaderTensor {
  std::string type;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes after the header
};

/// Parses the header. `file` is used in messages. Throws InputError, naming the tensor, if the text is not a header.
[[nodiscard]] std::map<std::string, HeaderTensor, std::less<>> read_header(std::string_view text,
                                                                           const std::string& file);

}  // namespace plimsoll::exec
