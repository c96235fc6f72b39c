// SPDX-License-Identifier: Apache-2.0
// Workers for requests whose lengths are not known in advance. Every order is one step, so the control thread sees the
// step's tokens before it decides the next step. Between steps, the control thread runs the HTTP server.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "exec/live/step_workers.h"

namespace plimsoll::exec {

/// A token that a request's step produced.
struct ProducedToken {
  std::uint64_t serial = 0;
  std::int32_t token = 0;
};

class SteppedWorkers final : public StepExecutor {
 public:
  /// How the control thread sleeps.
  struct Sleep {
    std::function<void()> starts;           // the clock of the run reads 0
    std::function<void(Nanos until)> wait;  // blocks until then or until the next wake(); may return early
    std::function<void()> wake;             // called by any thread
  };
  /// As StepWorkers.
  SteppedWorkers(const std::vector<ForwardDevice*>& devices, const StepBuilderConfig& config,
                 const PromptSource& prompts, Sleep sleep);

  void start_clock() override;
  void submit(std::size_t replica, StepOrder order) override;
  void end_order(std::size_t replica) override { workers_.end_order(replica); }
  [[nodiscard]] Nanos wait(Nanos until, std::vector<StepReport>& reports) override;
  [[nodiscard]] StepBuilder& builder(std::size_t replica) override { return workers_.builder(replica); }
  void wake() override { workers_.wake(); }
  void fail(std::exception_ptr failure) override { workers_.fail(std::move(failure)); }
  [[nodiscard]] std::unique_ptr<LiveTransport> transport(const load::KvTransport::Rates& rates, std::size_t sources,
                                                         std::size_t targets) override {
    return workers_.transport(rates, sources, targets);
  }

  /// Returns the tokens of the replica's step that was last reported. Call it before the next submit().
  [[nodiscard]] std::vector<ProducedToken> take_tokens(std::size_t replica) {
    return std::exchange(tokens_[replica], {});
  }

 private:
  Sleep sleep_;
  std::vector<std::vector<ProducedToken>> tokens_;  // by replica; its worker alone writes while a step is in flight
  StepWorkers workers_;                             // last, so that its threads end first
};

}  // namespace plimsoll::exec
