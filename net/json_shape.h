// SPDX-License-Identifier: Apache-2.0
// A parsed JSON text may take far more memory than the text: nesting, and values that are not numbers. Both are counted
// before a text of others is parsed.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::net {

/// Why the text must not be parsed into memory, such as "nests deeper than 64 levels"; empty: it may. It need not be
/// valid JSON.
[[nodiscard]] std::string fault_of_json_shape(std::string_view text);

}  // namespace plimsoll::net
