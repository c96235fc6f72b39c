// SPDX-License-Identifier: Apache-2.0
// A sweep spread over processes on one or several hosts. One process leads: it hands out tasks, one at a time, to any
// free place, including its own. Only the leader stores and prints results. The followers answer tasks until the leader
// ends the run. A follower that dies closes its connection, one that is stopped sends no heartbeats, and one that fails
// may send an unreadable answer. In each case, its task is done again elsewhere.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "net/lobby.h"

namespace plimsoll::study {

/// The process at the other end of a connection. Sent as text without line breaks.
struct RankName {
  int rank = 0;
  int process = 0;  // process id on its host
  std::string host;
  bool operator==(const RankName&) const = default;
  /// Returns the name of this process.
  [[nodiscard]] static RankName own(int rank);
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static RankName read(const std::string& text);
};

/// A follower sends a heartbeat every `beat`, and counts as lost after `silence` without one.
struct Pulse {
  std::chrono::milliseconds beat{1000}, silence{15000};
};

/// The leader's side: spreads the points of a sweep over the processes of a group. Results do not depend on which
/// process ran a point.
class RankCrew {
 public:
  /// Why a follower did not answer a task.
  enum class Loss { died, silent, unreadable };
  struct Lost {
    RankName rank;
    Loss loss;
    std::size_t tasks = 1;
  };

  /// Listens at these addresses. Throws DeviceError if that fails.
  explicit RankCrew(const std::vector<std::string>& addresses, Pulse pulse = {});
  /// Ends the followers' run, except while an exception unwinds the stack: they then detect that the leader is gone.
  ~RankCrew();
  RankCrew(const RankCrew&) = delete;
  RankCrew& operator=(const RankCrew&) = delete;

  [[nodiscard]] const net::Meeting& meeting() const { return lobby_.meeting(); }
  /// Accepts followers from now on, besides `local` concurrent tasks in this process. Only followers whose greeting is
  /// `same` take part: they have the same program, study and options. `on_stranger` is called with other greetings, on
  /// a thread of its own.
  void open(std::size_t local, std::string same, std::function<void(const std::string&)> on_stranger);

  /// Returns whether a follower's answer can be used. May be called on any thread.
  using IsAnswer = std::function<bool(const std::string& answer)>;
  /// Waits for a free place, runs `task` there, by `here` or by a follower, and returns its answer. Returns an empty
  /// text as soon as `give_up`, called ten times a second, returns true. A task that a follower cannot do is done here,
  /// so that its failure is reported here. Thread-safe.
  [[nodiscard]] std::string run(const std::string& task, const std::function<bool()>& give_up,
                                const std::function<std::string()>& here, const IsAnswer& is_answer = {});
  /// Returns how many tasks followers have answered.
  [[nodiscard]] std::size_t answered() const;
  /// Returns the tasks that followers took and did not answer, by follower and reason.
  [[nodiscard]] std::vector<Lost> lost() const;

 private:
  struct Place {
    net::Link link;  // if not open: a place of this process
    RankName rank;
  };
  void welcome(const std::stop_token& stop);
  [[nodiscard]] std::optional<Place> take(const std::function<bool()>& give_up);
  void give(Place place);
  [[nodiscard]] std::optional<std::string> ask(const Place& place, const std::string& task,
                                               const std::function<bool()>& give_up, Loss& loss) const;
  void drop(Place place, Loss loss);
  void finish();

  Pulse pulse_;
  int exceptions_;  // uncaught exceptions at construction
  net::Lobby lobby_;
  std::string same_;
  std::function<void(const std::string&)> on_stranger_;
  mutable std::mutex mutex_;
  std::condition_variable free_;
  std::vector<Place> places_;   // free places
  std::vector<Place> dropped_;  // connections of lost followers, which still get the end message
  std::vector<Lost> lost_;
  std::size_t answered_ = 0;
  std::jthread door_;
};

/// The leader as a follower sees it.
class RankLeader {
 public:
  enum class End { done, refused, lost };  // the run is over; this process may not take part; the leader ended early

  /// Connects, so that an end of the leader is noticed from now on. Throws DeviceError if it cannot be reached.
  RankLeader(net::Meeting meeting, RankName own, Pulse pulse = {});

  /// Gets a task, and a function that returns whether the leader is gone; returns the answer, or "" for a task it
  /// cannot do. May be called on any thread.
  using Answer = std::function<std::string(const std::string& task, const std::function<bool()>& gone)>;
  /// Serves `jobs` tasks at a time until the leader ends the run, refuses this process or is gone. Call once.
  [[nodiscard]] End follow(const std::string& greeting, std::size_t jobs, const Answer& answer);

 private:
  [[nodiscard]] net::Link connect() const;
  [[nodiscard]] End serve(const net::Link& link, const std::string& greeting, const Answer& answer) const;

  net::Meeting meeting_;
  RankName own_;
  Pulse pulse_;
  net::Link first_;
};

}  // namespace plimsoll::study
