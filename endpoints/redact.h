// SPDX-License-Identifier: Apache-2.0
// A server's words, fit to be shown: nothing that was sent to it, and nothing that a terminal would act on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::endpoints {

/// At most 200 printable ASCII characters of `text`. Every occurrence of a secret becomes "[...]", and so does every
/// run of 8 or more characters that `sent` (a prompt) contains.
[[nodiscard]] std::string shown_text(std::string_view text, const std::vector<std::string>& secrets,
                                     std::string_view sent);

}  // namespace plimsoll::endpoints
