// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/safetensors_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "model/error.h"

namespace plimsoll::exec {
namespace {

constexpr std::size_t kAlignment = 8;
static_assert(std::endian::native == std::endian::little, "the format is little-endian");

std::int64_t bytes_of(const SafetensorsWriter::Tensor& tensor) {
  return tensor.rows * tensor.columns * static_cast<std::int64_t>(sizeof(float));
}

std::string header_of(const std::vector<SafetensorsWriter::Tensor>& tensors) {
  std::string header = "{";
  std::int64_t begin = 0;
  for (const SafetensorsWriter::Tensor& tensor : tensors) {
    const std::int64_t end = begin + bytes_of(tensor);
    header += fmt::format("{}{}:{{\"dtype\":\"F32\",\"shape\":[{},{}],\"data_offsets\":[{},{}]}}",
                          header.size() > 1 ? "," : "", nlohmann::json(tensor.name).dump(), tensor.rows, tensor.columns,
                          begin, end);
    begin = end;
  }
  header += '}';
  // The format pads the header with blanks, so that the data are aligned.
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  return header;
}

}  // namespace

// The process id keeps programs that write the same file apart; rename() makes the last one win.
SafetensorsWriter::SafetensorsWriter(std::string path, const std::vector<Tensor>& tensors)
    : path_(std::move(path)), temporary_(fmt::format("{}.{}.tmp", path_, ::getpid())) {
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) refuse();
  const std::string header = header_of(tensors);
  const std::uint64_t length = header.size();
  auto offset = static_cast<std::int64_t>(sizeof(length) + header.size());
  for (const Tensor& tensor : tensors) {
    places_.emplace_back(offset, tensor.columns);
    offset += bytes_of(tensor);
  }
  try {
    write_at(&length, sizeof(length), 0);
    write_at(header.data(), header.size(), sizeof(length));
  } catch (...) {
    ::close(file_);
    std::remove(temporary_.c_str());
    throw;
  }
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

void SafetensorsWriter::write(std::size_t tensor, std::int64_t row, std::span<const float> values) {
  const auto [offset, columns] = places_.at(tensor);
  write_at(values.data(), values.size_bytes(), offset + row * columns * static_cast<std::int64_t>(sizeof(float)));
}

void SafetensorsWriter::close() {
  // close() may report an error of an earlier write, for example on a full network disk.
  if (file_ >= 0 && ::close(std::exchange(file_, -1)) != 0) refuse();
}

// The file gets its name only when it is complete. Until then readers see the old file or none.
void SafetensorsWriter::finish() {
  close();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) refuse();
  temporary_.clear();
}

// pwrite() takes a position, so tensors may be written in any order.
void SafetensorsWriter::write_at(const void* bytes, std::size_t size, std::int64_t offset) {
  const auto* next = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = ::pwrite(file_, next, size, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse();
    next += written;
    offset += written;
    size -= static_cast<std::size_t>(written);
  }
}

void SafetensorsWriter::refuse() const {
  const int error = errno;
  throw DeviceError(fmt::format("cannot write '{}': {}", path_, std::strerror(error)));
}

}  // namespace plimsoll::exec
