// SPDX-License-Identifier: Apache-2.0
// A minimal client: a socket on loopback that sends bytes and reads the answer.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::net::testing {

class PlainClient {
 public:
  /// `window`: size of the receive buffer in bytes; 0: the system's default.
  explicit PlainClient(std::uint16_t port, int window = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (window > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  ~PlainClient() { ::close(fd_); }
  PlainClient(const PlainClient&) = delete;
  PlainClient& operator=(const PlainClient&) = delete;

  void send(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t size = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (size <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(size));
    }
  }
  /// Reads until the server closes the connection, or the received text contains `mark`.
  std::string read(std::string_view mark = {}) {
    char buffer[4096];
    while (mark.empty() || text_.find(mark) == std::string::npos) {
      const ssize_t size = ::recv(fd_, buffer, sizeof buffer, 0);
      if (size <= 0) break;
      text_.append(buffer, static_cast<std::size_t>(size));
    }
    return std::move(text_);
  }

 private:
  int fd_;
  std::string text_;
};

inline std::string post(const std::string& path, const std::string& body, const std::string& headers = {}) {
  return "POST " + path + " HTTP/1.1\r\nHost: t\r\nConnection: close\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
inline std::string get(const std::string& path, const std::string& headers = {}) {
  return "GET " + path + " HTTP/1.1\r\nHost: t\r\nConnection: close\r\n" + headers + "\r\n";
}
/// Returns the answer to one request on a new connection.
inline std::string talk(std::uint16_t port, const std::string& request) {
  PlainClient client(port);
  client.send(request);
  return client.read();
}
inline std::string body_of(const std::string& answer) {
  const std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}
inline std::uint16_t port_of(const std::string& url) {
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

}  // namespace plimsoll::net::testing
