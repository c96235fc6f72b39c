// SPDX-License-Identifier: Apache-2.0
// What is UTF-8: asked by the readers of configurations and of traces.
#pragma once

#include <cstddef>
#include <string_view>

namespace plimsoll {

/// Bytes of the well-formed UTF-8 sequence that starts the text, 0 if none does (Unicode 15, table 3-7: no overlong
/// forms, no surrogates, nothing beyond U+10FFFF). The text is not empty.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

}  // namespace plimsoll
