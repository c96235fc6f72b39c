// SPDX-License-Identifier: Apache-2.0
// How processes that belong together find each other. Each publishes its endpoints and a secret token (Meeting), and
// accepts only connections whose first message begins with that token (Lobby).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "net/link.h"

namespace plimsoll::net {

/// The endpoints of a process and the token that it accepts. text() is a single line.
struct Meeting {
  struct Endpoint {
    std::string address;  // numeric
    std::uint16_t port = 0;
    bool operator==(const Endpoint&) const = default;
  };
  std::string host, token;  // the name of the host; the token contains no blank
  std::vector<Endpoint> endpoints;
  bool operator==(const Meeting&) const = default;
  [[nodiscard]] std::string text() const;
  /// Parses the result of text(). Missing parts stay empty.
  [[nodiscard]] static Meeting read(const std::string& text);
};

/// Connects to the first endpoint that answers; tries each for two seconds. The link is not open if none answers.
[[nodiscard]] Link reach(const Meeting& meeting);

/// Returns 128 random bits as hexadecimal digits.
[[nodiscard]] std::string random_token();

/// Listens, and reads the first messages of many new connections concurrently, so a silent or slow peer delays no
/// other. It closes a connection whose first message does not begin with the token and a blank, is longer than
/// kMaxFirst, or is not complete within `patience`. Above kMaxStrangers such connections it closes the oldest. One
/// thread.
class Lobby {
 public:
  static constexpr std::size_t kMaxFirst = 4096;      // bytes, before the token is verified
  static constexpr std::size_t kMaxNext = 1U << 16U;  // bytes, from accepted guests
  static constexpr std::size_t kMaxStrangers = 64;    // connections

  /// Listens at each address, with a new token. Throws DeviceError.
  explicit Lobby(const std::vector<std::string>& addresses,
                 std::chrono::milliseconds patience = std::chrono::seconds(5));
  [[nodiscard]] const Meeting& meeting() const { return meeting_; }

  /// An accepted connection and its message without the token.
  struct Guest {
    Link link;
    std::string introduction;  // the first message of a guest passed to keep(); otherwise empty
    std::string message;
  };
  /// Returns the next message of a guest; nullopt if none arrives by the deadline. Forgets guests that leave.
  [[nodiscard]] std::optional<Guest> next(Deadline until);
  /// Waits for a further message of a guest without a time limit. `introduction` must not be empty.
  void keep(Link link, std::string introduction);
  /// Returns the guests passed to keep() that have sent nothing since.
  [[nodiscard]] std::vector<Link> dismiss();

 private:
  struct Visitor {
    Link link;
    MessageReader reader;
    Deadline until;  // kNever once accepted
    std::string introduction;
  };
  [[nodiscard]] std::optional<Guest> hear();
  void accept();
  void wait(Deadline until) const;

  std::chrono::milliseconds patience_;
  std::vector<Socket> listening_;
  Meeting meeting_;
  std::list<Visitor> visitors_;  // oldest first
  bool is_full_ = false;         // the system refused a connection for lack of room
};

}  // namespace plimsoll::net
