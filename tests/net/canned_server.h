// SPDX-License-Identifier: Apache-2.0
// A server on 127.0.0.1 that sends what a test specifies, byte by byte if needed: for answers that no library would
// send.
#pragma once

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "net/endpoint.h"
#include "net/socket.h"

namespace plimsoll::net {

/// One connection of a canned server, as seen by its script.
class CannedPeer {
 public:
  explicit CannedPeer(const Socket& socket, std::function<void()> close_all = {})
      : socket_(socket), close_all_(std::move(close_all)) {}
  /// Returns the next complete request, header and body; empty if the client is gone.
  [[nodiscard]] std::string request();
  /// Returns false if the client is gone.
  bool send(std::string_view bytes) const {
    const std::array parts{std::as_bytes(std::span(bytes))};
    return socket_.send(parts, within(std::chrono::seconds(20)));
  }
  /// Closes the connection; request() then returns an empty text.
  void hang_up() const { socket_.shut(); }
  /// Closes this connection and accepts no further ones.
  void close_server() const {
    close_all_();
    hang_up();
  }
  /// Waits until the client closes the connection.
  void wait_closed() const {
    char byte = 0;
    while (::recv(socket_.fd(), &byte, 1, 0) > 0) {}
  }

 private:
  const Socket& socket_;
  std::function<void()> close_all_;
  std::string rest_;
};

inline std::string CannedPeer::request() {
  constexpr std::string_view kLength = "Content-Length: ";
  while (true) {
    const std::size_t header = rest_.find("\r\n\r\n");
    if (header != std::string::npos) {
      const std::size_t field = rest_.find(kLength);
      const std::size_t body = field < header ? std::stoul(rest_.substr(field + kLength.size())) : 0;
      const std::size_t whole = header + 4 + body;
      if (rest_.size() >= whole) {
        std::string text = rest_.substr(0, whole);
        rest_.erase(0, whole);
        return text;
      }
    }
    std::array<char, 4096> buffer;
    const ssize_t got = ::recv(socket_.fd(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return {};
    rest_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

/// Accepts connections until it is destroyed; each has its own thread.
class RawServer {
 public:
  using Serve = std::function<void(const Socket&)>;
  explicit RawServer(Serve serve)
      : listening_(listen_at(kLoopback)), serve_(std::move(serve)), accepts_([this] { accept(); }) {}
  ~RawServer() {
    over_ = true;
    accepts_.join();
    for (const Socket& socket : sockets_) socket.shut();
    for (std::thread& peer : peers_) peer.join();
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_of(listening_); }
  /// Returns the number of connections so far.
  [[nodiscard]] std::size_t connections() const { return accepted_; }
  /// Stops listening: new connections are refused.
  void close() {
    over_ = true;
    listening_.shut();
  }

 private:
  void accept() {
    while (!over_) {
      Socket socket = accept_from(listening_, within(std::chrono::milliseconds(20)));
      if (!socket.is_open()) continue;
      ++accepted_;
      sockets_.push_back(std::move(socket));
      peers_.emplace_back([this, &connection = sockets_.back()] {
        serve_(connection);
        connection.shut();
      });
    }
  }

  Socket listening_;
  Serve serve_;
  std::atomic<bool> over_{false};
  std::atomic<std::size_t> accepted_{0};
  std::deque<Socket> sockets_;
  std::deque<std::thread> peers_;
  std::thread accepts_;
};

/// Runs the script on every connection.
class CannedServer {
 public:
  using Script = std::function<void(CannedPeer&)>;
  explicit CannedServer(const Script& script)
      : server_([this, script](const Socket& socket) {
          CannedPeer peer(socket, [this] { server_.close(); });
          script(peer);
        }) {}
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port()); }
  [[nodiscard]] std::uint16_t port() const { return server_.port(); }
  [[nodiscard]] std::size_t connections() const { return server_.connections(); }

 private:
  RawServer server_;
};

}  // namespace plimsoll::net
