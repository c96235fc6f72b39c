// SPDX-License-Identifier: Apache-2.0
// The workers of live replicas: one thread each, which runs the forwards of its orders on its device. While its order
// has steps left, a worker never waits for the control thread. Waiting threads sleep; they do not spin.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "exec/forward_device.h"
#include "exec/live/step_builder.h"
#include "exec/live/step_executor.h"

namespace plimsoll::exec {

class StepWorkers final : public StepExecutor {
 public:
  /// Starts one worker per device. Devices and prompts must outlive it.
  StepWorkers(const std::vector<ForwardDevice*>& devices, const StepBuilderConfig& config, const PromptSource& prompts)
      : StepWorkers(devices, std::vector<StepBuilderConfig>(devices.size(), config), prompts) {}
  /// The same, with a configuration for each device.
  StepWorkers(const std::vector<ForwardDevice*>& devices, const std::vector<StepBuilderConfig>& configs,
              const PromptSource& prompts);
  /// Ends the orders in progress after their steps in flight.
  ~StepWorkers() override;
  StepWorkers(const StepWorkers&) = delete;
  StepWorkers& operator=(const StepWorkers&) = delete;

  void start_clock() override;
  void submit(std::size_t replica, StepOrder order) override;
  void end_order(std::size_t replica) override;
  [[nodiscard]] Nanos wait(Nanos until, std::vector<StepReport>& reports) override;
  [[nodiscard]] StepBuilder& builder(std::size_t replica) override { return workers_[replica]->builder; }
  void wake() override;
  void fail(std::exception_ptr failure) override;
  [[nodiscard]] std::unique_ptr<LiveTransport> transport(const load::KvTransport::Rates& rates, std::size_t sources,
                                                         std::size_t targets) override {
    return std::make_unique<KvCarrier>(rates, *this, sources, targets);
  }

  /// Called on a worker's thread when wait() would return: an order has ended, or a device has failed. Set it before
  /// the first order; may be empty. It must not call this object.
  std::function<void()> on_news;

 private:
  using Clock = std::chrono::steady_clock;
  struct Worker {
    Worker(const StepBuilderConfig& config, const PromptSource& prompts, ForwardDevice& device)
        : builder(config, prompts, device) {}
    StepBuilder builder;
    std::optional<StepOrder> order;  // submitted, not yet taken by the worker
    bool end_order = false;          // end the order after the step in flight
    std::condition_variable wake;
    std::thread thread;
  };

  struct Progress {  // the state of an order
    std::int64_t started = 0, ended = 0;
    std::deque<Nanos> starts = {};  // start times of the steps in flight
  };

  void stop();
  void serve(std::size_t replica);
  void run_order(std::size_t replica, const StepOrder& order);
  void start_step(StepBuilder& builder, const StepOrder& order, Progress& done) const;
  [[nodiscard]] bool goes_on(const Worker& worker, const StepOrder& order, const Progress& done);
  [[nodiscard]] bool end_step(std::size_t replica, const StepOrder& order, Progress& done);
  [[nodiscard]] Nanos now() const;
  void tell();

  std::mutex mutex_;  // guards everything below, and the order of time stamps
  std::condition_variable news_;
  std::vector<StepReport> reports_;
  bool has_last_ = false;  // some report is that of an order's last step
  bool woken_ = false;
  std::exception_ptr failure_;
  bool quit_ = false;
  Clock::time_point origin_ = Clock::now();
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace plimsoll::exec
