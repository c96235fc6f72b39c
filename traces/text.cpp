// SPDX-License-Identifier: Apache-2.0
#include "traces/text.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "model/input_file.h"

namespace plimsoll::traces {
namespace {

std::string place(const TraceProblem& problem) {
  std::string out;
  if (!problem.column.empty()) out = problem.column + ": ";
  return out + problem.text + " [" + problem.code + "]";
}

}  // namespace

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7F) {
      out += fmt::format("\\x{:02X}", byte);
    } else {
      out += c;
    }
  }
  out += text.size() > kShown ? fmt::format("…' ({} bytes)", text.size()) : "'";
  return out;
}

bool is_plain_ascii(std::string_view text) {
  // No branches, so that the compiler can vectorise the loop.
  unsigned bad = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    bad |= static_cast<unsigned>(byte == 0) | (byte & 0x80U);
  }
  return bad == 0;
}

BadByte find_bad_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\0') return {at, "nul-byte", "NUL byte"};
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) {
      return {at, "invalid-utf8", fmt::format("byte 0x{:02X} is not UTF-8", static_cast<unsigned char>(text[at]))};
    }
    at += length;
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string to_string(const TraceProblem& problem) {
  std::string out = problem.file;
  if (problem.line != 0) out += fmt::format(":{}", problem.line);
  if (problem.line != 0 && problem.byte_column != 0) out += fmt::format(":{}", problem.byte_column);
  return out + ": " + place(problem);
}

TraceError::TraceError(TraceProblem problem)
    : InputError(Where{problem.file, problem.line, problem.byte_column}, place(problem)),
      problem_(std::move(problem)) {}

void reject(TraceProblem problem) { throw TraceError(std::move(problem)); }

}  // namespace plimsoll::traces
