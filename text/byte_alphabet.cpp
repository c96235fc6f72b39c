// SPDX-License-Identifier: Apache-2.0
#include "text/byte_alphabet.h"

#include <cstddef>

#include "text/utf8.h"

namespace plimsoll::text {
namespace {

constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

const std::array<std::string, 256>& byte_alphabet() {
  static const std::array<std::string, 256> kAlphabet = [] {
    std::array<std::string, 256> out;
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) append_utf8(out[byte], is_printable(byte) ? byte : next++);
    return out;
  }();
  return kAlphabet;
}

std::optional<std::string> bytes_of(std::string_view text) {
  static const std::array<int, 0x180> kBytes = [] {
    std::array<int, 0x180> out{};
    out.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      std::size_t at = 0;
      out[read_code_point(byte_alphabet()[byte], at)] = static_cast<int>(byte);
    }
    return out;
  }();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = read_code_point(text, at);
    if (c >= kBytes.size() || kBytes[c] < 0) return std::nullopt;
    out.push_back(static_cast<char>(static_cast<unsigned char>(kBytes[c])));
  }
  return out;
}

}  // namespace plimsoll::text
