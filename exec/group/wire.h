// SPDX-License-Identifier: Apache-2.0
// What the processes of a tensor-parallel group say to each other, as bytes: a version, a kind, then what belongs to
// the kind. Whole numbers take seven bits a byte, the lowest first, so that a decode row takes some ten bytes; floats
// have the bytes of the machine, and all machines of a group the same order. All processes are of one program
// (cli/rank_group.h); the version stands in every message all the same, as a message that is misread runs a wrong
// forward.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/link.h"

namespace plimsoll::exec::group {

inline constexpr std::uint8_t kWireVersion = 2;

enum class Kind : std::uint8_t {
  load,
  loaded,  // engines: engine_order.h; they are there
  forward,
  logits,  // forward_wire.h; with all_logits, the answer
  trace,
  fetch_traces,
  times,  // note every op; what was noted; the answer
  read_block,
  block,
  write_block,  // a KV block; the answer
  end,          // of the engine
  alive,        // of a follower: now and then, whatever it does meanwhile
  done,         // of the leader: the run is over, and all is well
  failed,
  peer_failed  // the process ends: why, or because another one does
};

class Writer {
 public:
  explicit Writer(Kind kind);
  void byte(std::uint8_t value) { bytes_.push_back(std::byte{value}); }
  void whole(std::uint64_t value);
  /// Small where the number is near 0 on either side.
  void number(std::int64_t value);
  void f32(float value) { raw(std::as_bytes(std::span(&value, 1))); }
  void f64(double value) { raw(std::as_bytes(std::span(&value, 1))); }
  void text(std::string_view value);
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  [[nodiscard]] const net::Bytes& bytes() const { return bytes_; }

 private:
  net::Bytes bytes_;
};

/// Of one message, which outlives it. Throws DeviceError for one of another version, or that ends too early.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> message);
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::uint8_t byte() { return std::to_integer<std::uint8_t>(raw(1).front()); }
  [[nodiscard]] std::uint64_t whole();
  [[nodiscard]] std::int64_t number();
  /// As number(). Throws DeviceError for one that 32 bits do not hold.
  [[nodiscard]] std::int32_t number32();
  /// As number(), of an enumeration from 0 to `last`. Throws DeviceError for another one.
  template <class Enum>
  [[nodiscard]] Enum one_of(Enum last) {
    return static_cast<Enum>(below(static_cast<std::int64_t>(last) + 1));
  }
  /// How many of something follow, each of at least a byte.
  [[nodiscard]] std::size_t count();
  [[nodiscard]] float f32();
  [[nodiscard]] double f64();
  [[nodiscard]] std::string text();
  [[nodiscard]] std::span<const std::byte> raw(std::size_t size);
  /// Throws DeviceError where something is left.
  void end() const;

 private:
  [[nodiscard]] std::int64_t below(std::int64_t limit);
  std::span<const std::byte> rest_;
  Kind kind_ = Kind::end;
};

/// A message without contents.
[[nodiscard]] net::Bytes plain(Kind kind);

}  // namespace plimsoll::exec::group
