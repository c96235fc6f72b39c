// SPDX-License-Identifier: Apache-2.0
#include "net/lobby.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <random>
#include <sstream>
#include <utility>

#include "net/endpoint.h"

namespace plimsoll::net {
namespace {

constexpr std::chrono::milliseconds kConnectWithin{2000}, kPause{10};

// Takes the same time wherever the two texts differ, so that timing reveals nothing about the token.
bool begins_with_token(std::string_view message, std::string_view token) {
  if (message.size() <= token.size() || message[token.size()] != ' ') return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < token.size(); ++i)
    difference |= static_cast<unsigned>(static_cast<unsigned char>(message[i]) ^ static_cast<unsigned char>(token[i]));
  return difference == 0;
}

}  // namespace

std::string Meeting::text() const {
  std::string text = host + ' ' + token;
  for (const Endpoint& endpoint : endpoints) text += ' ' + endpoint.address + ':' + std::to_string(endpoint.port);
  return text;
}

Meeting Meeting::read(const std::string& text) {
  Meeting meeting;
  std::istringstream words(text);
  words >> meeting.host >> meeting.token;
  Endpoint endpoint;
  while (std::getline(words >> std::ws, endpoint.address, ':') && words >> endpoint.port)
    meeting.endpoints.push_back(endpoint);
  return meeting;
}

// Tries the leader's addresses in turn, because this host may not reach every network of the leader.
Link reach(const Meeting& meeting) {
  for (const Meeting::Endpoint& endpoint : meeting.endpoints) {
    Socket socket = connect_to(endpoint.address, endpoint.port, within(kConnectWithin));
    if (socket.is_open()) return Link(std::move(socket));
  }
  return {};
}

// 128 bits: any host may connect, but only the group knows the token.
std::string random_token() {
  std::random_device device;
  std::string token;
  for (int i = 0; i < 4; ++i) {
    std::array<char, 9> digits{};
    std::snprintf(digits.data(), digits.size(), "%08x", device());
    token += digits.data();
  }
  return token;
}

Lobby::Lobby(const std::vector<std::string>& addresses, std::chrono::milliseconds patience) : patience_(patience) {
  meeting_.host = host_name();
  meeting_.token = random_token();
  for (const std::string& address : addresses) {
    listening_.push_back(listen_at(address));
    meeting_.endpoints.push_back({address, port_of(listening_.back())});
  }
}

void Lobby::keep(Link link, std::string introduction) {
  visitors_.push_back({std::move(link), MessageReader(kMaxNext), kNever, std::move(introduction)});
}

std::vector<Link> Lobby::dismiss() {
  std::vector<Link> guests;
  for (Visitor& visitor : visitors_)
    if (!visitor.introduction.empty()) guests.push_back(std::move(visitor.link));
  std::erase_if(visitors_, [](const Visitor& visitor) { return !visitor.link.is_open(); });
  return guests;
}

// Reads all pending messages before it closes connections for lack of room. A guest identifies itself as soon as it
// connects, so a crowd of silent strangers cannot push it out.
std::optional<Lobby::Guest> Lobby::next(Deadline until) {
  while (true) {
    if (auto guest = hear()) return guest;
    accept();
    if (auto guest = hear()) return guest;
    if (std::chrono::steady_clock::now() >= until) return {};
    wait(until);
  }
}

std::optional<Lobby::Guest> Lobby::hear() {
  const auto now = std::chrono::steady_clock::now();
  for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
    const auto state = visitor->reader.advance(visitor->link.socket(), false);
    if (state == MessageReader::State::partial && now < visitor->until) {
      ++visitor;
      continue;
    }
    Visitor done = std::move(*visitor);
    visitor = visitors_.erase(visitor);
    if (state != MessageReader::State::complete) continue;
    std::string message = text_of(done.reader.take());
    if (!done.introduction.empty())
      return Guest{std::move(done.link), std::move(done.introduction), std::move(message)};
    if (begins_with_token(message, meeting_.token))
      return Guest{std::move(done.link), {}, message.substr(meeting_.token.size() + 1)};
  }
  // Closes the oldest strangers above the limit, so that a flood of connections cannot use up all sockets.
  const auto is_stranger = [](const Visitor& visitor) { return visitor.introduction.empty(); };
  for (auto count = std::ranges::count_if(visitors_, is_stranger); count > static_cast<std::ptrdiff_t>(kMaxStrangers);
       --count)
    visitors_.erase(std::ranges::find_if(visitors_, is_stranger));
  return {};
}

// Accepts a few connections at a time, so that their messages are read in between.
void Lobby::accept() {
  is_full_ = false;
  for (const Socket& listening : listening_) {
    for (std::size_t i = 0; i < kMaxStrangers; ++i) {
      errno = 0;
      Socket socket = accept_from(listening, Deadline::min());
      is_full_ = is_full_ || errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (!socket.is_open()) break;
      visitors_.push_back({Link(std::move(socket)), MessageReader(kMaxFirst), within(patience_), {}});
    }
  }
}

// A connection that the system has no room for stays pending. Retry after a pause, not in a busy loop.
void Lobby::wait(Deadline until) const {
  std::vector<pollfd> events;
  if (is_full_)
    until = std::min(until, within(kPause));
  else
    for (const Socket& listening : listening_) events.push_back({listening.fd(), POLLIN, 0});
  for (const Visitor& visitor : visitors_) {
    events.push_back({visitor.link.fd(), POLLIN, 0});
    until = std::min(until, visitor.until);
  }
  static_cast<void>(::poll(events.data(), events.size(), poll_time(until)));
}

}  // namespace plimsoll::net
