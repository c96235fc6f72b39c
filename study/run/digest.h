// SPDX-License-Identifier: Apache-2.0
// Digests of texts, files, the catalogue and the program itself, which tell whether a stored result is still valid.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::study {

/// 128 bits from SHA-1, as a name-based UUID (RFC 4122, version 5).
using Digest = std::array<std::uint8_t, 16>;

/// Returns the digest of a text.
[[nodiscard]] Digest digest_of(std::string_view text);
/// Returns the digest of the file's bytes; of an empty text if the file cannot be read.
[[nodiscard]] Digest digest_of_file(const std::string& path);
/// Returns the digest of the names and bytes of all files below the folder, independent of their order on disk.
[[nodiscard]] Digest digest_of_folder(const std::string& path);
/// Returns one digest of several folders, in the given order.
[[nodiscard]] Digest digest_of_folders(std::span<const std::string> paths);
/// Returns the digest of the running program: the linker's build id, which changes with any of its code.
[[nodiscard]] Digest program_digest();

/// Returns the digest as 32 hexadecimal digits.
[[nodiscard]] std::string hex(const Digest& digest);

}  // namespace plimsoll::study
