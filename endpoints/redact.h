// SPDX-License-Identifier: Apache-2.0
// Makes a server's text safe to print: it then contains nothing that was sent, and nothing that a terminal interprets.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::endpoints {

/// Returns at most 200 printable ASCII characters of `text`. Every occurrence of a secret is replaced by "[...]", and
/// so is every run of 8 or more characters that also occurs in `sent` (a prompt).
[[nodiscard]] std::string shown_text(std::string_view text, const std::vector<std::string>& secrets,
                                     std::string_view sent);

}  // namespace plimsoll::endpoints
