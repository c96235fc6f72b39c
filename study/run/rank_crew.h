// SPDX-License-Identifier: Apache-2.0
// A sweep spread over processes, on one or many machines. One leads: it hands out tasks, one at a time, to whoever is
// free, itself included, and alone keeps and prints results. The others follow: they answer tasks until the leader is
// gone. A follower that dies, at whatever moment, is a closed connection: its task goes to somebody else.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "study/run/rank_frames.h"

namespace plimsoll::study {

/// Where the leader is found, and the word that shows who belongs to it. As text without line breaks.
struct Meeting {
  std::string host, addresses;         // name; numeric, separated by spaces
  std::uint16_t port = 0;
  std::string token;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static Meeting read(const std::string& text);
};

/// Of this machine.
[[nodiscard]] std::string host_name();
/// A connection to whoever listens there; not open where nobody is found.
[[nodiscard]] Socket reach(const Meeting& meeting);

class RankCrew {
 public:
  /// Begins to listen. Throws DeviceError.
  explicit RankCrew(bool this_host_only);
  ~RankCrew();
  RankCrew(const RankCrew&) = delete;
  RankCrew& operator=(const RankCrew&) = delete;

  [[nodiscard]] Meeting meeting() const;
  /// Lets followers in from now on, beside `local` tasks at once here. Only those whose greeting is `same` take part: the
  /// same program, study and options. `on_stranger` hears the greetings of the others on a thread of its own.
  void open(std::size_t local, std::string same, std::function<void(const std::string&)> on_stranger);

  /// Runs `task` wherever there is room, by `here` or by a follower, and returns its answer; waits for a free place. Empty
  /// as soon as `give_up`, asked ten times a second, says so. A task that a follower cannot do is done here, so that its
  /// failure is reported here. Any number of threads.
  [[nodiscard]] std::string run(const std::string& task, const std::function<bool()>& give_up, const std::function<std::string()>& here);
  /// Tasks that followers answered, and followers that were lost in the middle of one.
  [[nodiscard]] std::size_t answered() const;
  [[nodiscard]] std::size_t lost() const;

 private:
  struct Place {
    bool local = true;
    Socket socket;
  };
  void welcome(const std::stop_token& stop);
  [[nodiscard]] std::optional<Place> take(const std::function<bool()>& give_up);
  void give(Place place);

  Socket listening_;
  Meeting meeting_;
  std::string same_;
  std::function<void(const std::string&)> on_stranger_;
  mutable std::mutex mutex_;
  std::condition_variable free_;
  std::vector<Place> places_;          // free ones
  std::size_t answered_ = 0, lost_ = 0;
  std::jthread door_;
};

/// A follower: `answer` gets a task and whether the leader is gone meanwhile, and returns the answer; "" for a task it
/// cannot do. Serves `jobs` tasks at once until the leader goes. False where it was not found or did not want this one.
bool follow(const Meeting& meeting, const std::string& greeting, std::size_t jobs,
            const std::function<std::string(const std::string& task, const std::function<bool()>& gone)>& answer);

}  // namespace plimsoll::study
