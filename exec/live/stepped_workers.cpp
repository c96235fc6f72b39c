// SPDX-License-Identifier: Apache-2.0
#include "exec/live/stepped_workers.h"

namespace plimsoll::exec {

SteppedWorkers::SteppedWorkers(const std::vector<ForwardDevice*>& devices, const StepBuilderConfig& config,
                               const PromptSource& prompts, Sleep sleep)
    : sleep_(std::move(sleep)), tokens_(devices.size()), workers_(devices, config, prompts) {
  workers_.on_news = sleep_.wake;
  for (std::size_t i = 0; i < devices.size(); ++i)
    workers_.builder(i).on_token = [this, i](std::uint64_t serial, std::int32_t token) {
      tokens_[i].push_back({serial, token});
    };
}

void SteppedWorkers::start_clock() {
  workers_.start_clock();
  sleep_.starts();
}

void SteppedWorkers::submit(std::size_t replica, StepOrder order) {
  order.steps = 1;
  workers_.submit(replica, std::move(order));
}

// A step that has already ended has called wake(), so the sleep returns at once.
Nanos SteppedWorkers::wait(Nanos until, std::vector<StepReport>& reports) {
  sleep_.wait(until);
  return workers_.wait(0, reports);
}

}  // namespace plimsoll::exec
