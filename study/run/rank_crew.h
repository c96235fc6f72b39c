// SPDX-License-Identifier: Apache-2.0
// A sweep spread over processes, on one or many hosts. One process leads: it hands out tasks, one at a time, to
// whatever place is free, its own included, and alone keeps and prints results. The others follow: they answer tasks
// until the leader ends the run. A follower that dies is a closed connection, one that is stopped sends no sign of
// life, one that fails may answer what cannot be read: its task is done again elsewhere.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "net/lobby.h"

namespace plimsoll::study {

/// Which process a connection comes from. As text without line breaks.
struct RankName {
  int rank = 0;
  int process = 0;  // its id on its host
  std::string host;
  bool operator==(const RankName&) const = default;
  /// Of this process.
  [[nodiscard]] static RankName own(int rank);
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static RankName read(const std::string& text);
};

/// A follower says that it is alive this often, and counts as lost when it has said nothing for so long.
struct Pulse {
  std::chrono::milliseconds beat{1000}, silence{15000};
};

/// Spreads the points of a sweep over the processes of a group. Results do not depend on which process ran a point.
class RankCrew {
 public:
  /// What became of a task that a follower did not answer.
  enum class Loss { died, silent, unreadable };
  struct Lost {
    RankName rank;
    Loss loss;
    std::size_t tasks = 1;
  };

  /// Listens at these addresses. Throws DeviceError.
  explicit RankCrew(const std::vector<std::string>& addresses, Pulse pulse = {});
  /// Ends the run of the followers, except while an exception unwinds the stack: they then see that the leader is gone.
  ~RankCrew();
  RankCrew(const RankCrew&) = delete;
  RankCrew& operator=(const RankCrew&) = delete;

  [[nodiscard]] const net::Meeting& meeting() const { return lobby_.meeting(); }
  /// Lets followers in from now on, beside `local` tasks at once here. Only those whose greeting is `same` take part:
  /// the same program, study and options. `on_stranger` gets the greetings of the others, on a thread of its own.
  void open(std::size_t local, std::string same, std::function<void(const std::string&)> on_stranger);

  /// Whether an answer of a follower can be used. Any thread.
  using IsAnswer = std::function<bool(const std::string& answer)>;
  /// Runs `task` wherever there is room, by `here` or by a follower, and returns its answer; waits for a free place.
  /// Empty as soon as `give_up`, asked ten times a second, says so. A task that a follower cannot do is done here, so
  /// that its failure is reported here. Any number of threads.
  [[nodiscard]] std::string run(const std::string& task, const std::function<bool()>& give_up,
                                const std::function<std::string()>& here, const IsAnswer& is_answer = {});
  /// Tasks that followers answered.
  [[nodiscard]] std::size_t answered() const;
  /// Tasks that followers took and did not answer, by follower and reason.
  [[nodiscard]] std::vector<Lost> lost() const;

 private:
  struct Place {
    net::Link link;  // not open: a place of this process
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
  int exceptions_;  // in flight when it was made
  net::Lobby lobby_;
  std::string same_;
  std::function<void(const std::string&)> on_stranger_;
  mutable std::mutex mutex_;
  std::condition_variable free_;
  std::vector<Place> places_;   // free ones
  std::vector<Place> dropped_;  // connections of followers that were lost: they still hear of the end
  std::vector<Lost> lost_;
  std::size_t answered_ = 0;
  std::jthread door_;
};

/// The leader, as a follower sees it.
class RankLeader {
 public:
  enum class End { done, refused, lost };  // the run is over; this process may not take part; the leader is gone before

  /// Connects, so that the end of the leader is seen from now on. Throws DeviceError if it cannot be reached.
  RankLeader(net::Meeting meeting, RankName own, Pulse pulse = {});

  /// `answer` gets a task and whether the leader is gone meanwhile, and returns the answer; "" for a task it cannot do.
  /// Any thread.
  using Answer = std::function<std::string(const std::string& task, const std::function<bool()>& gone)>;
  /// Serves `jobs` tasks at once until the leader ends the run, refuses this process or is gone. Once.
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
