// SPDX-License-Identifier: Apache-2.0
// Reads whole small files and formats pieces of text for messages. Private to configs/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "model/error.h"

namespace plimsoll::configs {

/// Returns the bytes of a file. Throws InputError if it is missing, a directory, unreadable or larger than 4 MiB.
/// `expected` says what the file should be ("a YAML file").
[[nodiscard]] std::string read_text_file(const std::string& path, std::string_view expected);

/// Returns the position of a byte: lines and columns count from 1, columns in bytes.
[[nodiscard]] Where place_in(std::string_view text, std::size_t offset, const std::string& name);

/// Returns the text if it has at most `limit` bytes, else its first whole UTF-8 characters and an ellipsis.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t limit = 40);

}  // namespace plimsoll::configs
