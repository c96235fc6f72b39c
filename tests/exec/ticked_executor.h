// SPDX-License-Identifier: Apache-2.0
// Live steps on a clock advanced by hand: a forward takes the time of a constant engine, and runs on a ChainDevice.
#pragma once

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/live/step_builder.h"
#include "exec/live/step_executor.h"
#include "load/transfer_links.h"
#include "tests/exec/chain_device.h"

namespace plimsoll::exec::testing {

struct TickedTimes {
  Nanos prefill = 0, decode = 0;  // as model::ConstantCost
};

/// Takes the time that the simulator computes, and copies the blocks when a transfer ends.
class TimedTransport final : public LiveTransport {
 public:
  TimedTransport(const Rates& rates, StepExecutor& executor, std::size_t sources, std::size_t targets)
      : LiveTransport(rates), executor_(executor), targets_(targets), links_(rates, sources, targets) {}
  [[nodiscard]] Id open(std::size_t source, std::size_t target) override {
    const Id id = links_.open(source, target);
    flows_[id] = {source, {}};
    return id;
  }
  void add(Id id, const Part& part, double now_s) override {
    links_.add(id, part, now_s);
    flows_[id].second.push_back(part.cargo);
  }
  void finish(Id id, double now_s) override { links_.finish(id, now_s); }
  void abort(Id id, double now_s) override { links_.abort(id, now_s); }
  [[nodiscard]] Nanos next_event() const override { return links_.next_event(); }
  [[nodiscard]] bool is_busy() const override { return false; }
  [[nodiscard]] std::optional<Id> take(Nanos now) override {
    const std::optional<Id> id = links_.take(now);
    if (!id) return id;
    const auto& [source, cargoes] = flows_[*id];
    LandedKv kv{.id = cargoes.front().target, .first = cargoes.front().first, .blocks = {}, .token = {}};
    for (const Cargo& cargo : cargoes) {
      StepBuilder& builder = executor_.builder(targets_ + source);
      const StepBuilder::Outgoing out = builder.outgoing(cargo.source, cargo.first, cargo.last);
      std::vector<std::byte> bytes(out.blocks.size() * static_cast<std::size_t>(builder.device().bytes_per_block()));
      builder.device().send_blocks(out.blocks, bytes);
      kv.blocks.insert(kv.blocks.end(), bytes.begin(), bytes.end());
      if (out.token) kv.token = out.token;
    }
    landed_[cargoes.front().serial] = std::move(kv);
    return id;
  }
  [[nodiscard]] LandedKv landed(std::uint64_t serial) override { return std::move(landed_.at(serial)); }

 private:
  StepExecutor& executor_;
  std::size_t targets_;
  load::TransferLinks links_;
  std::map<Id, std::pair<std::size_t, std::vector<Cargo>>> flows_;
  std::map<std::uint64_t, LandedKv> landed_;
};

class TickedExecutor final : public StepExecutor {
 public:
  TickedExecutor(const load::Scenario& scenario, TickedTimes times, const PromptSource& prompts) : times_(times) {
    const std::int32_t sequences = 64;
    for (std::size_t i = 0; i < scenario.slots(); ++i) {
      const load::Scenario& pool =
          i < static_cast<std::size_t>(scenario.replicas) ? scenario : *scenario.pools->prefill;
      devices_.emplace_back(pool.kv.blocks, pool.kv.block_tokens, sequences);
      builders_.emplace_back(builder_config(pool, sequences), prompts, devices_.back());
      lanes_.emplace_back().role = pool.policy.role;
    }
  }

  void start_clock() override { now_ = 0; }
  void submit(std::size_t replica, StepOrder order) override {
    Lane& lane = lanes_[replica];
    lane = {.role = lane.role, .order = std::move(order), .step = 0, .start = now_, .ending = false};
    builders_[replica].begin(*lane.order);
    lane.end = now_ + duration(*lane.order, lane.role);
  }
  void end_order(std::size_t replica) override { lanes_[replica].ending = true; }
  void wake() override {}
  void fail(std::exception_ptr failure) override { std::rethrow_exception(std::move(failure)); }
  [[nodiscard]] std::unique_ptr<LiveTransport> transport(const load::KvTransport::Rates& rates, std::size_t sources,
                                                         std::size_t targets) override {
    return std::make_unique<TimedTransport>(rates, *this, sources, targets);
  }
  [[nodiscard]] StepBuilder& builder(std::size_t replica) override { return builders_[replica]; }

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
    sched::Role role = sched::Role::whole;
    std::optional<StepOrder> order;
    std::int64_t step = 0;
    Nanos start = 0, end = 0;
    bool ending = false;
  };

  // As SimReplica::price(): a decode replica computes the last token of a prompt like any token of a decode.
  [[nodiscard]] Nanos duration(const StepOrder& order, sched::Role role) const {
    Nanos time = 0;
    for (const OrderForward& forward : order.forwards) {
      const bool prefills =
          std::any_of(forward.prefill.begin(), forward.prefill.end(), [role](const sched::Segment& segment) {
            return role != sched::Role::decode || segment.new_tokens > 1 || !segment.emits;
          });
      time += times_.decode + (prefills ? times_.prefill : 0);
    }
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
    lane.end += duration(*lane.order, lane.role);
    if (last) lane.order.reset();
  }

  TickedTimes times_;
  std::deque<ChainDevice> devices_;
  std::deque<StepBuilder> builders_;
  std::vector<Lane> lanes_;
  Nanos now_ = 0;
};

}  // namespace plimsoll::exec::testing
