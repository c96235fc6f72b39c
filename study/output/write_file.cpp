// SPDX-License-Identifier: Apache-2.0
#include "study/output/write_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "model/error.h"

namespace plimsoll::study {
namespace {

[[noreturn]] void refuse(const std::string& path) {
  const int error = errno;
  throw DeviceError(fmt::format("cannot write '{}': {}", path, std::strerror(error)));
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

// The process id keeps two runs that share a folder from writing to each other's temporary file.
PendingFile::PendingFile(std::string path, std::string_view text)
    : path_(std::move(path)), temporary_(fmt::format("{}.{}.tmp", path_, ::getpid())) {
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(temporary_.c_str(), "wb"));
  if (!file) refuse(path_);
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  const bool closed = std::fclose(file.release()) == 0;
  if (written && closed) return;
  const int error = errno;
  std::remove(temporary_.c_str());
  errno = error;
  refuse(path_);
}

PendingFile::~PendingFile() {
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

void PendingFile::commit() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) refuse(path_);
  temporary_.clear();
}

void write_file(const std::string& path, std::string_view text) { PendingFile(path, text).commit(); }

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  std::error_code unknown;  // for example if a name is too long; the first error is more useful
  if (std::filesystem::is_directory(path, unknown)) return;
  if (std::filesystem::exists(path, unknown)) throw InputError(fmt::format("--out '{}' is a file, not a folder", path));
  throw DeviceError(fmt::format("cannot make the folder '{}': {}", path, error.message()));
}

}  // namespace plimsoll::study
