// SPDX-License-Identifier: Apache-2.0
#include "study/run/rank_crew.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <sstream>
#include <utility>

#include "model/error.h"

namespace plimsoll::study {
namespace {

constexpr int kLookEvery = 100;        // milliseconds
constexpr std::string_view kWelcome = "welcome", kStranger = "stranger";

std::string random_word() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

Socket reach(const Meeting& meeting) {
  if (meeting.host == host_name()) {
    if (Socket socket = connect_to("127.0.0.1", meeting.port); socket.is_open()) return socket;
  }
  std::istringstream addresses(meeting.addresses);
  for (std::string address; addresses >> address;) {
    if (Socket socket = connect_to(address, meeting.port); socket.is_open()) return socket;
  }
  return {};
}

std::string Meeting::text() const { return fmt::format("{} {} {} {}", host, port, token, addresses); }

Meeting Meeting::read(const std::string& text) {
  Meeting meeting;
  std::istringstream words(text);
  words >> meeting.host >> meeting.port >> meeting.token;
  std::getline(words >> std::ws, meeting.addresses);
  return meeting;
}

RankCrew::RankCrew(bool this_host_only) : listening_(listen_somewhere(this_host_only)) {
  meeting_ = {host_name(), this_host_only ? std::string() : host_addresses(), port_of(listening_), random_word()};
}

RankCrew::~RankCrew() = default;

Meeting RankCrew::meeting() const { return meeting_; }

void RankCrew::open(std::size_t local, std::string same, std::function<void(const std::string&)> on_stranger) {
  places_.resize(local);
  same_ = std::move(same);
  on_stranger_ = std::move(on_stranger);
  door_ = std::jthread([this](const std::stop_token& stop) { welcome(stop); });
}

// Whoever does not say the token within a second is none of ours and is not spoken of.
void RankCrew::welcome(const std::stop_token& stop) {
  std::string told;
  while (!stop.stop_requested()) {
    Socket socket = accept_within(listening_, kLookEvery);
    if (!socket.is_open()) continue;
    int patience = 10;
    const auto hello = receive_text(socket, [&] { return --patience < 0 || stop.stop_requested(); });
    if (!hello || !hello->starts_with(meeting_.token + ' ')) continue;
    const std::string greeting = hello->substr(meeting_.token.size() + 1);
    if (greeting != same_) {
      static_cast<void>(send_text(socket, kStranger));
      if (greeting != std::exchange(told, greeting) && on_stranger_) on_stranger_(greeting);
      continue;
    }
    if (send_text(socket, kWelcome)) give({false, std::move(socket)});
  }
}

std::optional<RankCrew::Place> RankCrew::take(const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  while (!free_.wait_for(lock, std::chrono::milliseconds(kLookEvery), [this] { return !places_.empty(); })) {
    lock.unlock();
    if (give_up()) return {};
    lock.lock();
  }
  Place place = std::move(places_.back());   // followers come last and are taken first: this process has other things to do
  places_.pop_back();
  return place;
}

void RankCrew::give(Place place) {
  {
    const std::lock_guard lock(mutex_);
    places_.push_back(std::move(place));
  }
  free_.notify_one();
}

std::string RankCrew::run(const std::string& task, const std::function<bool()>& give_up, const std::function<std::string()>& here) {
  struct Back {                        // a place of this process is given back whatever happens
    RankCrew* crew;
    ~Back() { crew->give({}); }
  };
  while (!give_up()) {
    std::optional<Place> place = take(give_up);
    if (!place) break;
    if (place->local) {
      const Back back{this};
      return here();
    }
    const bool sent = send_text(place->socket, task);
    std::optional<std::string> answer = sent ? receive_text(place->socket, give_up) : std::nullopt;
    if (!answer) {                     // given up, or lost; its connection ends here
      if (give_up()) break;
      const std::lock_guard lock(mutex_);
      ++lost_;
      continue;
    }
    give(std::move(*place));
    if (answer->empty()) return here();
    const std::lock_guard lock(mutex_);
    ++answered_;
    return std::move(*answer);
  }
  return {};
}

std::size_t RankCrew::answered() const {
  const std::lock_guard lock(mutex_);
  return answered_;
}

std::size_t RankCrew::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

bool follow(const Meeting& meeting, const std::string& greeting, std::size_t jobs,
            const std::function<std::string(const std::string&, const std::function<bool()>&)>& answer) {
  std::atomic<bool> welcome{true};
  const auto serve = [&] {
    const Socket socket = reach(meeting);
    if (!socket.is_open() || !send_text(socket, meeting.token + ' ' + greeting) || receive_text(socket) != kWelcome) {
      welcome = false;
      return;
    }
    while (const auto task = receive_text(socket)) {
      if (!send_text(socket, answer(*task, [&] { return is_gone(socket); }))) return;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < jobs; ++i) threads.emplace_back(serve);
  }
  return welcome;
}

}  // namespace plimsoll::study
