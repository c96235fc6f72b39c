// SPDX-License-Identifier: Apache-2.0
// A parsed JSON text may take far more memory than the text itself, because of nesting and of values other than
// numbers. Both are counted before untrusted text is parsed.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::net {

/// Returns why the text must not be parsed, such as "nests deeper than 64 levels"; empty if it may be parsed. It need
/// not be valid JSON.
[[nodiscard]] std::string fault_of_json_shape(std::string_view text);

}  // namespace plimsoll::net
