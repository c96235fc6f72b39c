// SPDX-License-Identifier: Apache-2.0
#include "study/run/rank_crew.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>

#include "model/error.h"
#include "net/endpoint.h"
#include "study/run/digest.h"

namespace plimsoll::study {
namespace {

constexpr std::chrono::milliseconds kLookEvery{100};
constexpr std::size_t kMaxMessage = std::size_t{64} << 20U;  // bytes
// The leader's control messages. Tasks begin with a digit, these do not.
constexpr std::string_view kWelcome = "welcome", kStranger = "stranger", kDone = "done";
// A follower's messages: an empty one is a heartbeat, any other one is an answer preceded by its digest.
std::string sealed(const std::string& answer) { return hex(digest_of(answer)) + answer; }

// A process that dies while it writes may leave half an answer: it must not become a result.
std::optional<std::string> unsealed(const std::string& message) {
  const std::size_t size = 2 * Digest{}.size();
  if (message.size() < size || message.compare(0, size, hex(digest_of(message.substr(size)))) != 0) return {};
  return message.substr(size);
}

// Sends heartbeats while a task runs. Sends one message at a time.
class Beating {
 public:
  Beating(const net::Link& link, std::chrono::milliseconds beat)
      : link_(link), thread_([this, beat](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          while (!wake_.wait_for(lock, stop, beat, [&stop] { return stop.stop_requested(); }))
            static_cast<void>(link_.send(std::string_view()));
        }) {}

 private:
  const net::Link& link_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last, because it uses the other members
};

}  // namespace

// ---- names ------------------------------------------------------------------------------------------------------

RankName RankName::own(int rank) { return {rank, ::getpid(), net::host_name()}; }

std::string RankName::text() const { return fmt::format("{} {} {}", rank, process, host); }

RankName RankName::read(const std::string& text) {
  RankName name;
  std::istringstream words(text);
  words >> name.rank >> name.process >> name.host;
  return name;
}

// ---- the leader -------------------------------------------------------------------------------------------------

RankCrew::RankCrew(const std::vector<std::string>& addresses, Pulse pulse)
    : pulse_(pulse), exceptions_(std::uncaught_exceptions()), lobby_(addresses) {}

RankCrew::~RankCrew() {
  door_ = {};  // joins the thread
  if (std::uncaught_exceptions() == exceptions_) finish();
}

// A process stopped by a signal cannot exit, and mpirun waits for it. So it is continued, to learn that the run is
// over.
void RankCrew::finish() {
  while (auto guest = lobby_.next(net::Deadline::min())) lobby_.keep(std::move(guest->link), "guest");
  for (net::Link& link : lobby_.dismiss()) places_.push_back({std::move(link), {}});
  for (std::vector<Place>* places : {&places_, &dropped_}) {
    for (const Place& place : *places) {
      if (!place.link.is_open()) continue;
      static_cast<void>(place.link.send(kDone, net::within(kLookEvery)));
      place.link.socket().shut_sending();
    }
  }
  for (const Lost& lost : lost_) {
    const bool here = lost.rank.host == net::host_name() && lost.rank.process > 0 && lost.rank.process != ::getpid();
    if (lost.loss == Loss::silent && here) ::kill(lost.rank.process, SIGCONT);
  }
}

void RankCrew::open(std::size_t local, std::string same, std::function<void(const std::string&)> on_stranger) {
  places_.resize(local);
  same_ = std::move(same);
  on_stranger_ = std::move(on_stranger);
  door_ = std::jthread([this](const std::stop_token& stop) { welcome(stop); });
}

// A follower connects early, to detect a missing leader, and sends its greeting when it has read the study.
void RankCrew::welcome(const std::stop_token& stop) {
  std::string told;
  while (!stop.stop_requested()) {
    auto guest = lobby_.next(net::within(kLookEvery));
    if (!guest) continue;
    if (guest->introduction.empty()) {
      lobby_.keep(std::move(guest->link), guest->message);
    } else if (guest->message == same_) {
      if (guest->link.send(kWelcome, net::within(pulse_.silence)))
        give({std::move(guest->link), RankName::read(guest->introduction)});
    } else {
      static_cast<void>(guest->link.send(kStranger, net::within(kLookEvery)));
      if (guest->message != std::exchange(told, guest->message) && on_stranger_) on_stranger_(guest->message);
    }
  }
}

std::optional<RankCrew::Place> RankCrew::take(const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  while (!free_.wait_for(lock, kLookEvery, [this] { return !places_.empty(); })) {
    lock.unlock();
    if (give_up()) return {};
    lock.lock();
  }
  Place place =
      std::move(places_.back());  // followers are at the end and are used first: this process has other work to do
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

// Returns the answer; nullopt if there is none. `loss` is then the reason, unless the task was cancelled.
std::optional<std::string> RankCrew::ask(const Place& place, const std::string& task,
                                         const std::function<bool()>& give_up, Loss& loss) const {
  loss = Loss::died;
  if (!place.link.send(task, net::within(pulse_.silence))) return {};
  auto lost_at = net::within(pulse_.silence);
  while (!give_up()) {
    if (!place.link.wait(std::min(lost_at, net::within(kLookEvery)))) {
      if (std::chrono::steady_clock::now() < lost_at) continue;
      loss = Loss::silent;
      return {};
    }
    const auto until = net::within(pulse_.silence);
    auto message = place.link.receive_text(kMaxMessage, until);
    if (!message && std::chrono::steady_clock::now() >= until) loss = Loss::silent;
    if (!message) return {};
    if (!message->empty()) return message;
    // An empty message is a heartbeat.
    lost_at = net::within(pulse_.silence);
  }
  return {};
}

// A process that is stopped or sends unreadable answers gets no more tasks, on any of its connections.
void RankCrew::drop(Place place, Loss loss) {
  const std::lock_guard lock(mutex_);
  const RankName rank = place.rank;
  const auto known =
      std::ranges::find_if(lost_, [&](const Lost& each) { return each.rank == rank && each.loss == loss; });
  if (known != lost_.end())
    ++known->tasks;
  else
    lost_.push_back({rank, loss});
  dropped_.push_back(std::move(place));
  if (loss == Loss::died) return;
  const auto others = std::ranges::stable_partition(
      places_, [&](const Place& each) { return !(each.link.is_open() && each.rank == rank); });
  std::ranges::move(others, std::back_inserter(dropped_));
  places_.erase(others.begin(), others.end());
}

std::string RankCrew::run(const std::string& task, const std::function<bool()>& give_up,
                          const std::function<std::string()>& here, const IsAnswer& is_answer) {
  struct Back {  // returns a place of this process in any case
    RankCrew* crew;
    ~Back() { crew->give({}); }
  };
  while (!give_up()) {
    std::optional<Place> place = take(give_up);
    if (!place) break;
    if (!place->link.is_open()) {
      const Back back{this};
      return here();
    }
    Loss loss{};
    std::optional<std::string> answer = ask(*place, task, give_up, loss);
    // The task was cancelled. The follower may still be working on it, so its place is not used again.
    if (!answer && give_up()) {
      static_cast<void>(place->link.send(kDone, net::within(kLookEvery)));
      const std::lock_guard lock(mutex_);
      dropped_.push_back(std::move(*place));
      break;
    }
    if (answer) {
      answer = unsealed(*answer);
      if (answer && !answer->empty() && is_answer && !is_answer(*answer)) answer.reset();
      loss = Loss::unreadable;
    }
    if (!answer) {
      drop(std::move(*place), loss);
      continue;
    }
    give(std::move(*place));
    // The follower could not do the task: do it here, so that its error is reported.
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

std::vector<RankCrew::Lost> RankCrew::lost() const {
  const std::lock_guard lock(mutex_);
  return lost_;
}

// ---- a follower -------------------------------------------------------------------------------------------------

RankLeader::RankLeader(net::Meeting meeting, RankName own, Pulse pulse)
    : meeting_(std::move(meeting)), own_(std::move(own)), pulse_(pulse), first_(connect()) {
  if (!first_.is_open())
    throw DeviceError(fmt::format("rank {} on {} cannot reach rank 0 on {}", own_.rank, own_.host, meeting_.host));
}

net::Link RankLeader::connect() const {
  net::Link link = net::reach(meeting_);
  if (link.is_open() && !link.send(meeting_.token + ' ' + own_.text())) return {};
  return link;
}

RankLeader::End RankLeader::follow(const std::string& greeting, std::size_t jobs, const Answer& answer) {
  std::vector<End> ends(std::max<std::size_t>(jobs, 1), End::lost);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      threads.emplace_back([&, i] {
        const net::Link link = i == 0 ? std::move(first_) : connect();
        if (link.is_open()) ends[i] = serve(link, greeting, answer);
      });
    }
  }
  return ends.front();  // the other connections only add places and may end later
}

RankLeader::End RankLeader::serve(const net::Link& link, const std::string& greeting, const Answer& answer) const {
  // If the greeting cannot be sent, the leader's last message may still be readable.
  static_cast<void>(link.send(greeting));
  while (const auto message = link.receive_text(kMaxMessage)) {
    if (*message == kDone) return End::done;
    if (*message == kStranger) return End::refused;
    if (*message == kWelcome) continue;
    std::string text;
    {
      const Beating beating(link, pulse_.beat);
      text = sealed(answer(*message, [&link] { return link.socket().is_peer_gone(); }));
    }
    static_cast<void>(link.send(text));
  }
  return End::lost;
}

}  // namespace plimsoll::study
