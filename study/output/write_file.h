// SPDX-License-Identifier: Apache-2.0
// Writes a file completely or not at all: text goes to a temporary file beside the target, which it then replaces.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll::study {

/// A complete file under its temporary name, waiting for other files to be complete too. Without commit() the
/// destructor removes it.
class PendingFile {
 public:
  /// Throws DeviceError if the file cannot be written.
  PendingFile(std::string path, std::string_view text);
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  /// Renames the file to its final name. Throws DeviceError on failure.
  void commit();

 private:
  std::string path_, temporary_;  // temporary_ is empty after commit()
};

/// Throws DeviceError if the file cannot be written.
void write_file(const std::string& path, std::string_view text);
/// Makes the folder and its parents. Throws InputError if the path is another kind of file, DeviceError if the system
/// fails to make it.
void make_folder(const std::string& path);

}  // namespace plimsoll::study
