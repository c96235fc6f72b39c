// SPDX-License-Identifier: Apache-2.0
// Pauses, resumes and cancels a run in progress, from a signal handler, standard input or a GUI; and runs work on all
// cores under this control.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <stop_token>

namespace plimsoll::study {

/// Pauses and cancels a run from another thread or a signal handler.
class RunControl {
 public:
  /// These three may be called in signal handlers.
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  void pause() noexcept { paused_.store(true, std::memory_order_relaxed); }
  void resume() noexcept { paused_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

  /// Sets a function that is called every few milliseconds during work to receive commands; never called concurrently.
  /// Call before the run.
  void set_command_source(std::function<void(RunControl&)> poll) { poll_ = std::move(poll); }

  /// Receives commands, waits while paused, and forwards a cancel to stop(). Worker threads call it between units of
  /// work.
  void check_in();
  /// The same without waiting, for work in real time: a pause begins after that work.
  void look_in();
  [[nodiscard]] std::stop_token stop() const { return stop_.get_token(); }

 private:
  void take_commands();
  std::atomic<bool> cancelled_{false}, paused_{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "signal handlers may store to it");
  std::function<void(RunControl&)> poll_;
  std::mutex polling_;
  std::chrono::steady_clock::time_point last_poll_{};
  std::stop_source stop_;
};

// Runs independent units of work on all cores.

/// Calls `work` with 0 … count-1, started in this order, on `jobs` threads (0: one per core), until all are done or
/// `control` (may be null) is cancelled. An exception in one unit stops the others and is rethrown here; if there are
/// several, the exception of the first unit.
void run_pieces(std::size_t count, int jobs, RunControl* control, const std::function<void(std::size_t)>& work);

}  // namespace plimsoll::study
