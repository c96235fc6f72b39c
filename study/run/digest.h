// SPDX-License-Identifier: Apache-2.0
// Digests that tell whether a stored result still holds: of texts, files, the catalogue and the program itself.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::study {

/// 128 bits from SHA-1, as a name-based UUID (RFC 4122, version 5).
using Digest = std::array<std::uint8_t, 16>;

[[nodiscard]] Digest digest_of(std::string_view text);
/// Of the file's bytes; of nothing where it cannot be read.
[[nodiscard]] Digest digest_of_file(const std::string& path);
/// Of the names and bytes of all files below, whatever the order in which the disk lists them.
[[nodiscard]] Digest digest_of_folder(const std::string& path);
/// Of several, in their order.
[[nodiscard]] Digest digest_of_folders(std::span<const std::string> paths);
/// Of the running program: the linker's build id, which changes with any of its code.
[[nodiscard]] Digest program_digest();

[[nodiscard]] std::string hex(const Digest& digest);

}  // namespace plimsoll::study
