// SPDX-License-Identifier: Apache-2.0
#include "configs/text_file.h"

#include <fmt/format.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "model/input_file.h"

namespace plimsoll::configs {

namespace {

constexpr std::size_t kMaxFile = 4U << 20U;

struct Descriptor {
  explicit Descriptor(int opened) : value(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  int value;
};

}  // namespace

std::string read_text_file(const std::string& path, std::string_view expected) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const Where where{path, 0, 0};
  if (!fs::exists(status)) throw InputError(where, fmt::format("no such file, expected {}", expected));
  if (fs::is_directory(status)) throw InputError(where, fmt::format("is a directory, expected {}", expected));
  const Descriptor file{open_input(path)};
  if (file.value < 0 && errno == ETIMEDOUT)
    throw InputError(where, fmt::format("is a FIFO without a writer, expected {}", expected));
  if (file.value < 0) throw InputError(where, "cannot be opened for reading");
  std::string text;
  std::array<char, 16384> buffer{};
  while (const ssize_t got = ::read(file.value, buffer.data(), buffer.size())) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw InputError(where, "cannot be read");
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > kMaxFile) throw InputError(where, fmt::format("larger than 4 MiB, expected {}", expected));
  }
  return text;
}

Where place_in(std::string_view text, std::size_t offset, const std::string& name) {
  Where where{name, 1, 1};
  for (const char c : text.substr(0, offset)) {
    ++where.column;
    if (c != '\n') continue;
    ++where.line;
    where.column = 1;
  }
  return where;
}

// Cuts between characters: bytes 10xxxxxx continue a UTF-8 character.
std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  constexpr std::size_t kEllipsis = 3;  // bytes of "…"
  std::size_t end = limit - kEllipsis;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace plimsoll::configs
