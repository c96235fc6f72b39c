// SPDX-License-Identifier: Apache-2.0
#include "net/json_shape.h"

#include <fmt/format.h>

#include <cstddef>

namespace plimsoll::net {

namespace {
constexpr int kDeepest = 64;
constexpr std::size_t kMostValues = 100'000;
}  // namespace

std::string fault_of_json_shape(std::string_view text) {
  int depth = 0;
  std::size_t values = 0;  // strings, names, lists and objects
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
      ++values;
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > kDeepest) return fmt::format("nests deeper than {} levels", kDeepest);
    } else if (c == ']' || c == '}') {
      --depth;
    }
    if (values > kMostValues) return fmt::format("has more than {} strings, lists and objects", kMostValues);
  }
  return {};
}

}  // namespace plimsoll::net
