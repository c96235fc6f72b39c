// SPDX-License-Identifier: Apache-2.0
#include "model/error.h"

#include <cstdio>
#include <cstdlib>

namespace plimsoll {

std::string to_string(const Where& where) {
  if (where.file.empty()) return {};
  std::string text = where.file;
  if (where.line > 0) {
    text += ':' + std::to_string(where.line);
    if (where.column > 0) text += ':' + std::to_string(where.column);
  }
  return text + ": ";
}

InputError::InputError(Where where, const std::string& text)
    : std::runtime_error(to_string(where) + text), where_(std::move(where)), text_(text) {}

void check_failed(const char* condition, const char* file, int line, std::string_view why) {
  std::fprintf(stderr, "plimsoll: bug at %s:%d: %.*s (violated: %s)\n", file, line, static_cast<int>(why.size()),
               why.data(), condition);
  std::abort();
}

}  // namespace plimsoll
