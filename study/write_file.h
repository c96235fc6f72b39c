// SPDX-License-Identifier: Apache-2.0
// Whole files or none: text goes to a temporary name beside the target, which it then replaces.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::study {

/// Throws DeviceError when the disk refuses.
void write_file(const std::string& path, std::string_view text);
/// Makes the folder and its parents. Throws InputError when something else stands there, DeviceError when refused.
void make_folder(const std::string& path);

}  // namespace plimsoll::study
