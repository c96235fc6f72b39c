// SPDX-License-Identifier: Apache-2.0
// Whole small files, and pieces of text for messages; private to configs/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "model/error.h"

namespace plimsoll::configs {

/// The bytes of a file. Throws InputError if it is missing, a directory, unreadable or larger than 4 MiB; `expected` is
/// what it should have been ("a YAML file").
[[nodiscard]] std::string read_text_file(const std::string& path, std::string_view expected);

/// The place of a byte: lines and columns count from 1, columns in bytes.
[[nodiscard]] Where place_in(std::string_view text, std::size_t offset, const std::string& name);

/// The text itself when it has at most `limit` bytes, else its first whole UTF-8 characters and an ellipsis.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t limit = 40);

}  // namespace plimsoll::configs
