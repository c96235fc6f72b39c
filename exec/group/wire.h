// SPDX-License-Identifier: Apache-2.0
// The messages between the processes of a tensor-parallel group. A message is a version, a kind and the kind's
// contents. Integers take seven bits per byte, lowest first, so a decode row takes about ten bytes. Floats are copied
// as they are: all machines of a group have the same byte order. All processes run the same program (cli/rank_group.h);
// the version is still checked, because a misread message would run a wrong forward.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "net/link.h"

namespace plimsoll::exec::group {

inline constexpr std::uint8_t kWireVersion = 3;

enum class Kind : std::uint8_t {
  load,
  loaded,  // load engines (messages.h); they are loaded
  forward,
  logits,  // messages.h; its answer with all_logits
  trace,
  fetch_traces,
  times,  // measure every op; ask for the times; the answer
  read_block,
  block,
  write_block,  // read a KV block; the answer; write one
  end,          // destroy the engine
  alive,        // a follower's heartbeat, sent at intervals whatever it does
  done,         // from the leader: the run has ended without error
  failed,
  peer_failed,  // the process ends: its own reason, or that another process failed
  tokens,       // what a forward of a whole engine sampled (engine_process.h)
  send_blocks,
  blocks  // read several KV blocks; the answer
};

class Writer {
 public:
  explicit Writer(Kind kind);
  void byte(std::uint8_t value) { bytes_.push_back(std::byte{value}); }
  void whole(std::uint64_t value);
  /// Uses few bytes for numbers near 0 of either sign.
  void number(std::int64_t value);
  void f32(float value) { raw(std::as_bytes(std::span(&value, 1))); }
  void f64(double value) { raw(std::as_bytes(std::span(&value, 1))); }
  void text(std::string_view value);
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  [[nodiscard]] const net::Bytes& bytes() const { return bytes_; }

 private:
  net::Bytes bytes_;
};

/// Reads one message, which must outlive it. Throws DeviceError if the message has another version or is too short.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> message);
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::uint8_t byte() { return std::to_integer<std::uint8_t>(raw(1).front()); }
  [[nodiscard]] std::uint64_t whole();
  [[nodiscard]] std::int64_t number();
  /// As number(). Throws DeviceError if the value does not fit 32 bits.
  [[nodiscard]] std::int32_t number32();
  /// As number(), for an enumeration with values from 0 to `last`. Throws DeviceError for any other value.
  template <class Enum>
  [[nodiscard]] Enum one_of(Enum last) {
    return static_cast<Enum>(below(static_cast<std::int64_t>(last) + 1));
  }
  /// Reads the number of items that follow, each at least one byte long.
  [[nodiscard]] std::size_t count();
  [[nodiscard]] float f32();
  [[nodiscard]] double f64();
  [[nodiscard]] std::string text();
  [[nodiscard]] std::span<const std::byte> raw(std::size_t size);
  /// Throws DeviceError if bytes are left.
  void end() const;

 private:
  [[nodiscard]] std::int64_t below(std::int64_t limit);
  std::span<const std::byte> rest_;
  Kind kind_ = Kind::end;
};

/// Returns a message of that kind without contents.
[[nodiscard]] net::Bytes plain(Kind kind);

}  // namespace plimsoll::exec::group
