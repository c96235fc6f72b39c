// SPDX-License-Identifier: Apache-2.0
// The header of a .safetensors file as it is written, before its offsets are checked. Private to exec/.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::exec {

struct HeaderTensor {
  std::string type;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes after the header
};

/// Parses the header. `file` is used in messages. Throws InputError, naming the tensor, if the text is not a header.
[[nodiscard]] std::map<std::string, HeaderTensor, std::less<>> read_header(std::string_view text,
                                                                           const std::string& file);

}  // namespace plimsoll::exec
