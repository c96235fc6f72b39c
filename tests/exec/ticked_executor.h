// SPDX-License-Identifier: Apache-2.0
// Live steps on a clock advanced by hand: a forward takes the time of a constant engine, and runs on a ChainDevice.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "exec/live/step_builder.h"
#include "exec/live/step_executor.h"
#include "tests/exec/chain_device.h"

namespace plimsoll::exec::testing {

struct TickedTimes {
  Nanos prefill = 0, decode = 0;  // as model::ConstantCost
};

class TickedExecutor final : public StepExecutor {
 public:
  TickedExecutor(const load::Scenario& scenario, TickedTimes times, const PromptSource& prompts) : times_(times) {
    const std::int32_t sequences = 64;
    for (std::int32_t i = 0; i < scenario.replicas; ++i) {
      devices_.emplace_back(scenario.kv.blocks, scenario.kv.block_tokens, sequences);
      builders_.emplace_back(builder_config(scenario, sequences), prompts, devices_.back());
      lanes_.emplace_back();
    }
  }

  void start_clock() override { now_ = 0; }
  void submit(std::size_t replica, StepOrder order) override {
    Lane& lane = lanes_[replica];
    lane = {.order = std::move(order), .step = 0, .start = now_, .ending = false};
    builders_[replica].begin(*lane.order);
    lane.end = now_ + duration(*lane.order);
  }
  void end_order(std::size_t replica) override { lanes_[replica].ending = true; }

  Nanos wait(Nanos until, std::vector<StepReport>& reports) override {
    Nanos next = sched::kNever;
    for (const Lane& lane : lanes_)
      if (lane.order) next = std::min(next, lane.end);
    now_ = std::max(now_, std::min(until, next));
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      if (lanes_[i].order && lanes_[i].end <= now_) end_step(i, reports);
    return now_;
  }

 private:
  struct Lane {
    std::optional<StepOrder> order;
    std::int64_t step = 0;
    Nanos start = 0, end = 0;
    bool ending = false;
  };

  [[nodiscard]] Nanos duration(const StepOrder& order) const {
    Nanos time = 0;
    for (const OrderForward& forward : order.forwards)
      time += times_.decode + (forward.prefill.empty() ? 0 : times_.prefill);
    return time;
  }

  void end_step(std::size_t i, std::vector<StepReport>& reports) {
    Lane& lane = lanes_[i];
    for (std::size_t f = 0; f < lane.order->forwards.size(); ++f) {
      builders_[i].start(*lane.order, lane.step, f);
      builders_[i].finish();
    }
    builders_[i].end_step();
    ++lane.step;
    const bool last = lane.step == lane.order->steps || lane.ending || lane.end >= lane.order->wake_at;
    reports.push_back({i, {lane.start, lane.end}, last});
    lane.start = lane.end;
    lane.end += duration(*lane.order);
    if (last) lane.order.reset();
  }

  TickedTimes times_;
  std::deque<ChainDevice> devices_;
  std::deque<StepBuilder> builders_;
  std::vector<Lane> lanes_;
  Nanos now_ = 0;
};

}  // namespace plimsoll::exec::testing
