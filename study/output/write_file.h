// SPDX-License-Identifier: Apache-2.0
// Whole files or none: text goes to a temporary name beside the target, which it then replaces.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::study {

/// A file that is whole under its temporary name and waits for others to be, too. Without commit() nothing is left of
/// it.
class PendingFile {
 public:
  /// Throws DeviceError when the disk refuses.
  PendingFile(std::string path, std::string_view text);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  /// Gives it its name. Throws DeviceError when the disk refuses.
  void commit();

 private:
  std::string path_, temporary_;  // temporary_: empty after commit()
};

/// Throws DeviceError when the disk refuses.
void write_file(const std::string& path, std::string_view text);
/// Makes the folder and its parents. Throws InputError if another kind of file exists there, DeviceError if the system
/// refuses.
void make_folder(const std::string& path);

}  // namespace plimsoll::study
