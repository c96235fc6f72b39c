// SPDX-License-Identifier: Apache-2.0
// Texts over a stream socket: what the ranks of a distributed sweep say to each other, and those of a tensor-parallel group
// when they meet. Internal to study/rank_* and cli/rank_group.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::study {

/// Owns a file descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { close(); }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  [[nodiscard]] int fd() const { return fd_; }
  int release();
  void close();

 private:
  int fd_ = -1;
};

/// Listens on any free port, of this host alone or of all its networks. Throws DeviceError.
[[nodiscard]] Socket listen_somewhere(bool this_host_only);
[[nodiscard]] std::uint16_t port_of(const Socket& socket);
/// Addresses under which this host may be reached, numeric, without the loopback.
[[nodiscard]] std::string host_addresses();
/// Not open where nobody answers within two seconds.
[[nodiscard]] Socket connect_to(const std::string& address, std::uint16_t port);
/// The next connection; not open where none comes within `milliseconds`.
[[nodiscard]] Socket accept_within(const Socket& listening, int milliseconds);

/// False where the other side is gone.
[[nodiscard]] bool send_text(const Socket& socket, std::string_view text);
/// The next text; nullopt where the other side is gone, or as soon as `give_up` (asked ten times a second) says so.
[[nodiscard]] std::optional<std::string> receive_text(const Socket& socket, const std::function<bool()>& give_up = {});
/// Whether the other side has closed; says so without taking anything.
[[nodiscard]] bool is_gone(const Socket& socket);

}  // namespace plimsoll::study
