// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/safetensors_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "exec/weights/integers.h"
#include "model/error.h"
#include "model/input_file.h"

namespace plimsoll::exec {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are read as they lie in the file");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the format's own limit

struct TypeName {
  std::string_view name;
  unsigned bits;
  ElementType type = ElementType::other;
};
constexpr std::array kTypes = {TypeName{"F64", 64, ElementType::f64},
                               TypeName{"F32", 32, ElementType::f32},
                               TypeName{"F16", 16, ElementType::f16},
                               TypeName{"BF16", 16, ElementType::bf16},
                               TypeName{"I64", 64, ElementType::i64},
                               TypeName{"U64", 64},
                               TypeName{"C64", 64},
                               TypeName{"I32", 32, ElementType::i32},
                               TypeName{"U32", 32},
                               TypeName{"I16", 16},
                               TypeName{"U16", 16},
                               TypeName{"I8", 8, ElementType::i8},
                               TypeName{"U8", 8},
                               TypeName{"BOOL", 8},
                               TypeName{"F8_E4M3", 8},
                               TypeName{"F8_E5M2", 8},
                               TypeName{"F8_E8M0", 8},
                               TypeName{"F8_E4M3FNUZ", 8},
                               TypeName{"F8_E5M2FNUZ", 8},
                               TypeName{"F6_E2M3", 6},
                               TypeName{"F6_E3M2", 6},
                               TypeName{"F4", 4}};

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_;
};

std::span<const std::byte> map_file(const std::string& path) {
  const int opened = open_input(path);
  if (opened < 0) fail_file(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  const Descriptor file(opened);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_file(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) fail_file(path, "is not a regular file, expected a .safetensors file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < kLengthBytes)
    fail_file(path,
              fmt::format("has {} bytes, a .safetensors file begins with 8 bytes that hold the header's length", size));
  // The file is mapped, not read: a rank touches only the pages of its part, and processes on one host share them.
  void* const map = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (map == MAP_FAILED) fail_file(path, fmt::format("cannot be mapped: {}", std::strerror(errno)));
  return {static_cast<const std::byte*>(map), size};
}

// Returns the bytes of a tensor of that shape and type; nullopt if the number overflows.
std::optional<std::uint64_t> bytes_of(const std::vector<std::uint64_t>& shape, unsigned bits) {
  // Check for an empty tensor before multiplying: its other sizes may overflow.
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return 0;
  std::uint64_t total = bits;
  for (const std::uint64_t size : shape) {
    if (__builtin_mul_overflow(total, size, &total)) return {};
  }
  return total % 8 == 0 ? std::optional(total / 8) : std::nullopt;
}

FileTensor checked(const HeaderTensor& found, std::span<const std::byte> data) {
  const auto* const type =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeName& t) { return t.name == found.type; });
  if (type == kTypes.end()) throw InputError(fmt::format("unknown dtype {}", quoted_name(found.type)));
  if (found.begin > found.end)
    throw InputError(fmt::format("data_offsets [{}, {}] are reversed", found.begin, found.end));
  if (found.end > data.size())
    throw InputError(fmt::format("data_offsets [{}, {}] reach past the end of the data, {} bytes", found.begin,
                                 found.end, data.size()));
  FileTensor tensor{.type = type->type,
                    .type_name = found.type,
                    .shape = {},
                    .bytes = data.subspan(found.begin, found.end - found.begin)};
  for (const std::uint64_t size : found.shape) {
    constexpr auto kMaxSize = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (size > kMaxSize) throw InputError(fmt::format("a size of {} is too large", size));
    tensor.shape.push_back(static_cast<std::int64_t>(size));
  }
  // The sizes come from the file, so their product may not fit 64 bits.
  const std::optional<std::uint64_t> bytes = bytes_of(found.shape, type->bits);
  if (bytes != found.end - found.begin)
    throw InputError(fmt::format("data_offsets [{}, {}] hold {} bytes, shape {} of {} takes {}", found.begin, found.end,
                                 found.end - found.begin, shape_text(tensor.shape), found.type,
                                 bytes ? std::to_string(*bytes) : "another number"));
  return tensor;
}

// The tensors must follow each other without gaps and fill the file. Bytes outside all tensors could hide another file.
void check_cover(const SafetensorsFile::Tensors& tensors, std::span<const std::byte> data, const std::string& path) {
  std::vector<std::pair<std::span<const std::byte>, const std::string*>> places;
  for (const auto& [name, tensor] : tensors) places.emplace_back(tensor.bytes, &name);
  // By position, then by size, so that an empty tensor comes before the one at the same place.
  std::sort(places.begin(), places.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.data(), a.first.size()) < std::pair(b.first.data(), b.first.size());
  });
  const std::byte* end = data.data();
  const std::string* before = nullptr;
  for (const auto& [bytes, name] : places) {
    if (bytes.data() < end)
      fail_file(path, fmt::format("tensor {} overlaps {}", quoted_name(*name), quoted_name(*before)));
    if (bytes.data() > end)
      fail_file(path, fmt::format("tensor {}: the {} bytes before it belong to no tensor{}", quoted_name(*name),
                                  bytes.data() - end,
                                  before == nullptr ? "" : fmt::format(" and follow {}", quoted_name(*before))));
    end = bytes.data() + bytes.size();
    before = name;
  }
  const std::ptrdiff_t rest = data.data() + data.size() - end;
  if (rest > 0) fail_file(path, fmt::format("the last {} bytes belong to no tensor", rest));
}

SafetensorsFile::Tensors read_tensors(std::span<const std::byte> map, const std::string& path) {
  std::uint64_t length = 0;
  std::memcpy(&length, map.data(), kLengthBytes);
  // Limit the length before adding it to anything: it may be close to 2^64.
  const std::uint64_t most = std::min<std::uint64_t>(kMaxHeader, map.size() - kLengthBytes);
  if (length > most)
    fail_file(
        path,
        fmt::format(
            "the header's stated length is {} bytes, at most {} are possible: truncated, or not a .safetensors file",
            length, most));
  const auto* const text = reinterpret_cast<const char*>(map.data()) + kLengthBytes;
  const std::span<const std::byte> data = map.subspan(kLengthBytes + length);
  SafetensorsFile::Tensors tensors;
  for (const auto& [name, found] : read_header({text, length}, path)) {
    try {
      tensors.emplace(name, checked(found, data));
    } catch (const InputError& error) {
      fail_file(path, fmt::format("tensor {}: {}", quoted_name(name), error.text()));
    }
  }
  check_cover(tensors, data, path);
  return tensors;
}

float of_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }
float from_f64(double value) { return static_cast<float>(value); }

template <class Stored, class Convert>
void convert(const std::byte* from, std::int64_t count, float* out, Convert to_float) {
  for (std::int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, from + static_cast<std::size_t>(i) * sizeof(Stored), sizeof(Stored));
    out[i] = to_float(stored);
  }
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void fail_file(const std::string& path, const std::string& text) { throw InputError(Where{path, 0, 0}, text); }

std::string quoted_name(std::string_view name) {
  std::size_t shown = std::min<std::size_t>(name.size(), 120);
  while (shown < name.size() && (static_cast<unsigned char>(name[shown]) & 0xc0U) == 0x80U)
    --shown;  // keep UTF-8 characters whole
  std::string text = "'";
  for (const char c : name.substr(0, shown)) text += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  return text + (shown < name.size() ? "…'" : "'");
}

void read_elements(const FileTensor& tensor, std::int64_t first, std::int64_t count, float* out) {
  const std::byte* const begin = tensor.bytes.data();
  switch (tensor.type) {
    case ElementType::f32: std::memcpy(out, begin + first * 4, static_cast<std::size_t>(count) * 4); return;
    case ElementType::f16: convert<std::uint16_t>(begin + first * 2, count, out, from_f16); return;
    case ElementType::bf16: convert<std::uint16_t>(begin + first * 2, count, out, of_bf16); return;
    case ElementType::f64: convert<double>(begin + first * 8, count, out, from_f64); return;
    case ElementType::i64:
    case ElementType::i32:
    case ElementType::i8:
    case ElementType::other: break;
  }
  PLIMSOLL_CHECK(false, "only tensors of floats are read");
}

SafetensorsFile::SafetensorsFile(const std::string& path) : path_(path), map_(map_file(path)) {
  try {
    tensors_ = read_tensors(map_, path_);
  } catch (...) {
    ::munmap(const_cast<std::byte*>(map_.data()), map_.size());
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::munmap(const_cast<std::byte*>(map_.data()), map_.size()); }

}  // namespace plimsoll::exec
