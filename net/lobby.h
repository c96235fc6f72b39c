// SPDX-License-Identifier: Apache-2.0
// How processes that belong together find each other: each says where it listens and a secret token (Meeting), and lets
// in only the connections whose first message begins with that token (Lobby).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/link.h"

namespace plimsoll::net {

/// Where a process listens, and the token of those that may come. As text without line breaks.
struct Meeting {
  struct Endpoint {
    std::string address;  // numeric
    std::uint16_t port = 0;
    bool operator==(const Endpoint&) const = default;
  };
  std::string host, token;  // name of the host; the token has no blank
  std::vector<Endpoint> endpoints;
  bool operator==(const Meeting&) const = default;
  [[nodiscard]] std::string text() const;
  /// Of a text() made by this program: what is missing stays empty.
  [[nodiscard]] static Meeting read(const std::string& text);
};

/// A connection to the first endpoint that answers, each within two seconds; not open if none does.
[[nodiscard]] Link reach(const Meeting& meeting);

/// 128 random bits, in hexadecimal digits.
[[nodiscard]] std::string random_token();

/// Listens, and waits for the messages of many new connections at once: a silent peer, or one that sends a byte now and
/// then, delays no other. A connection is closed when its first message does not begin with the token and a blank, is
/// longer than kMaxFirst, or is not complete within `patience`; and the oldest of more than kMaxStrangers is. One
/// thread.
class Lobby {
 public:
  static constexpr std::size_t kMaxFirst = 4096;      // bytes, before the token is known
  static constexpr std::size_t kMaxNext = 1U << 16U;  // bytes, of those that were let in
  static constexpr std::size_t kMaxStrangers = 64;    // connections

  /// Listens at each of the addresses, under a new token. Throws DeviceError.
  explicit Lobby(const std::vector<std::string>& addresses,
                 std::chrono::milliseconds patience = std::chrono::seconds(5));
  [[nodiscard]] const Meeting& meeting() const { return meeting_; }

  /// A connection that was let in, with its message; the token is cut off.
  struct Guest {
    Link link;
    std::string introduction;  // the first message, for a guest that was kept; otherwise empty
    std::string message;
  };
  /// The next message of a guest; nullopt if none comes by the deadline. Guests that leave are forgotten.
  [[nodiscard]] std::optional<Guest> next(Deadline until);
  /// Waits for a further message of a guest, for as long as it takes. introduction: not empty.
  void keep(Link link, std::string introduction);
  /// The guests that were kept and have not said more.
  [[nodiscard]] std::vector<Link> dismiss();

 private:
  struct Visitor {
    Link link;
    MessageReader reader;
    Deadline until;  // kNever for a guest
    std::string introduction;
  };
  [[nodiscard]] std::optional<Guest> hear();
  void accept();
  void wait(Deadline until) const;

  std::chrono::milliseconds patience_;
  std::vector<Socket> listening_;
  Meeting meeting_;
  std::list<Visitor> visitors_;  // the oldest first
  bool is_full_ = false;         // the system had no room for a connection
};

}  // namespace plimsoll::net
