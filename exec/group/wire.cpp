// SPDX-License-Identifier: Apache-2.0
#include "exec/group/wire.h"

#include <fmt/format.h>

#include <cstring>

#include "model/error.h"

namespace plimsoll::exec::group {

namespace {
constexpr unsigned kMore = 0x80, kBits = 7, kMask = 0x7f;

[[noreturn]] void refuse(const char* what) {
  throw DeviceError(fmt::format("a message from another process {}", what));
}
}  // namespace

Writer::Writer(Kind kind) {
  byte(kWireVersion);
  byte(static_cast<std::uint8_t>(kind));
}

// Writes 7 bits per byte, the lowest first; the top bit of a byte means that more bytes follow.
void Writer::whole(std::uint64_t value) {
  for (; value > kMask; value >>= kBits) byte(static_cast<std::uint8_t>((value & kMask) | kMore));
  byte(static_cast<std::uint8_t>(value));
}

// Moves the sign to the lowest bit, so that small negative numbers stay short too.
void Writer::number(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  whole(value < 0 ? ~(bits << 1U) : bits << 1U);
}

void Writer::text(std::string_view value) {
  whole(value.size());
  raw(std::as_bytes(std::span(value)));
}

Reader::Reader(std::span<const std::byte> message) : rest_(message) {
  const std::uint8_t version = byte();
  if (version != kWireVersion)
    throw DeviceError(fmt::format("a message from another process is of version {}, this program uses version {}",
                                  version, kWireVersion));
  const std::uint8_t kind = byte();
  if (kind > static_cast<std::uint8_t>(Kind::blocks)) refuse("is of an unknown kind");
  kind_ = static_cast<Kind>(kind);
}

std::uint64_t Reader::whole() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += kBits) {
    const unsigned next = byte();
    value |= static_cast<std::uint64_t>(next & kMask) << shift;
    if ((next & kMore) == 0) return value;
  }
  refuse("holds a number that is too large");
}

std::int64_t Reader::number() {
  const std::uint64_t bits = whole();
  return static_cast<std::int64_t>((bits & 1U) != 0 ? ~(bits >> 1U) : bits >> 1U);
}

std::int32_t Reader::number32() {
  const std::int64_t value = number();
  if (value != static_cast<std::int32_t>(value)) refuse("holds a number that is too large");
  return static_cast<std::int32_t>(value);
}

std::int64_t Reader::below(std::int64_t limit) {
  const std::int64_t value = number();
  if (value < 0 || value >= limit) refuse("holds an unknown value");
  return value;
}

std::size_t Reader::count() {
  const std::uint64_t value = whole();
  if (value > rest_.size()) refuse("is cut off");
  return static_cast<std::size_t>(value);
}

float Reader::f32() {
  float value = 0;
  std::memcpy(&value, raw(sizeof value).data(), sizeof value);
  return value;
}

double Reader::f64() {
  double value = 0;
  std::memcpy(&value, raw(sizeof value).data(), sizeof value);
  return value;
}

std::string Reader::text() {
  const std::span<const std::byte> bytes = raw(count());
  std::string value(bytes.size(), '\0');
  if (!bytes.empty()) std::memcpy(value.data(), bytes.data(), bytes.size());
  return value;
}

std::span<const std::byte> Reader::raw(std::size_t size) {
  if (size > rest_.size()) refuse("is cut off");
  const std::span<const std::byte> bytes = rest_.first(size);
  rest_ = rest_.subspan(size);
  return bytes;
}

void Reader::end() const {
  if (!rest_.empty()) refuse("has surplus bytes at its end");
}

net::Bytes plain(Kind kind) { return Writer(kind).bytes(); }

}  // namespace plimsoll::exec::group
