// SPDX-License-Identifier: Apache-2.0
#include "configs/text_file.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace plimsoll::configs {

namespace {

constexpr std::size_t kMaxFile = 4U << 20U;

}  // namespace

std::string read_text_file(const std::string& path, std::string_view expected) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  const Where where{path, 0, 0};
  if (!fs::exists(status)) throw InputError(where, fmt::format("no such file, expected {}", expected));
  if (fs::is_directory(status)) throw InputError(where, fmt::format("is a directory, expected {}", expected));
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw InputError(where, "cannot be opened for reading");
  std::string text;
  std::array<char, 16384> buffer{};
  while (stream.read(buffer.data(), buffer.size()) || stream.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kMaxFile) throw InputError(where, fmt::format("larger than 4 MiB, expected {}", expected));
  }
  if (stream.bad()) throw InputError(where, "cannot be read");
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

std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  constexpr std::size_t kEllipsis = 3;  // bytes of "…"
  std::size_t end = limit - kEllipsis;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace plimsoll::configs
