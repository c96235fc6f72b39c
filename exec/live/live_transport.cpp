// SPDX-License-Identifier: Apache-2.0
#include "exec/live/live_transport.h"

#include <algorithm>
#include <utility>

#include "exec/live/step_executor.h"
#include "model/error.h"

namespace plimsoll::exec {

KvCarrier::KvCarrier(const Rates& rates, StepExecutor& executor, std::size_t sources, std::size_t targets)
    : LiveTransport(rates), executor_(executor), targets_(targets) {
  for (std::size_t i = 0; i < sources; ++i)
    lanes_.push_back(std::make_unique<Lane>(executor_.builder(targets_ + i).device()));
  try {
    for (std::size_t i = 0; i < sources; ++i) lanes_[i]->thread = std::thread([this, i] { serve(i); });
  } catch (...) {  // a thread could not be started: end those that run
    stop();
    throw;
  }
}

KvCarrier::~KvCarrier() { stop(); }

void KvCarrier::stop() {
  {
    const std::lock_guard lock(mutex_);
    quit_ = true;
    for (const auto& lane : lanes_) lane->wake.notify_one();
  }
  for (const auto& lane : lanes_)
    if (lane->thread.joinable()) lane->thread.join();
}

// ---- the control thread's side ------------------------------------------------------------------------------

load::KvTransport::Id KvCarrier::open(std::size_t source, std::size_t /*target*/) {
  const std::lock_guard lock(mutex_);
  auto flow = std::make_shared<Flow>();
  flow->source = source;
  if (free_.empty()) {
    flows_.push_back(std::move(flow));
    return static_cast<Id>(flows_.size() - 1);
  }
  const Id id = free_.back();
  free_.pop_back();
  flows_[static_cast<std::size_t>(id)] = std::move(flow);
  return id;
}

void KvCarrier::add(Id id, const Part& part, double /*now_s*/) {
  const Cargo& cargo = part.cargo;
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Flow>& flow = flows_[static_cast<std::size_t>(id)];
  if (!std::exchange(flow->begun, true)) {
    flow->serial = cargo.serial;
    flow->kv.id = cargo.target;
    flow->kv.first = cargo.first;
  }
  if (flow->parts++ == 0) ++on_their_way_;
  StepBuilder::Outgoing out =
      executor_.builder(targets_ + flow->source).outgoing(cargo.source, cargo.first, cargo.last);
  Lane& lane = *lanes_[flow->source];
  lane.jobs.push_back({flow, id, std::move(out.blocks), out.token});
  lane.wake.notify_one();
}

void KvCarrier::finish(Id id, double /*now_s*/) {
  const std::lock_guard lock(mutex_);
  Flow& flow = *flows_[static_cast<std::size_t>(id)];
  flow.finished = true;
  end_if_arrived(flow, id);
}

// Waits for the part that is being read: the caller may then reuse its blocks.
void KvCarrier::abort(Id id, double /*now_s*/) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Flow> flow = std::exchange(flows_[static_cast<std::size_t>(id)], nullptr);
  flow->aborted = true;
  if (std::exchange(flow->parts, 0) > 0) --on_their_way_;
  std::erase(done_, id);
  free_.push_back(id);
  read_.wait(lock, [&] { return !flow->reading; });
}

Nanos KvCarrier::next_event() const {
  const std::lock_guard lock(mutex_);
  return done_.empty() ? sched::kNever : 0;
}

bool KvCarrier::is_busy() const {
  const std::lock_guard lock(mutex_);
  return on_their_way_ > 0;
}

std::optional<load::KvTransport::Id> KvCarrier::take(Nanos /*now*/) {
  const std::lock_guard lock(mutex_);
  if (done_.empty()) return {};
  const Id id = done_.front();
  done_.pop_front();
  const std::shared_ptr<Flow> flow = std::exchange(flows_[static_cast<std::size_t>(id)], nullptr);
  landed_[flow->serial] = std::move(flow->kv);
  free_.push_back(id);
  return id;
}

LandedKv KvCarrier::landed(std::uint64_t serial) {
  const std::lock_guard lock(mutex_);
  const auto found = landed_.find(serial);
  PLIMSOLL_CHECK(found != landed_.end(), "KV lands only after it has been transferred");
  LandedKv kv = std::move(found->second);
  landed_.erase(found);
  return kv;
}

void KvCarrier::end_if_arrived(Flow& flow, Id id) {
  if (flow.aborted || !flow.finished || flow.parts > 0) return;
  done_.push_back(id);
  executor_.wake();
}

// ---- the threads that read ----------------------------------------------------------------------------------

void KvCarrier::serve(std::size_t source) {
  Lane& lane = *lanes_[source];
  std::unique_lock lock(mutex_);
  while (true) {
    lane.wake.wait(lock, [&] { return quit_ || !lane.jobs.empty(); });
    if (quit_) return;
    const Job job = std::move(lane.jobs.front());
    lane.jobs.pop_front();
    Flow& flow = *job.flow;
    if (flow.aborted) continue;
    flow.reading = true;
    lock.unlock();
    std::vector<std::byte> bytes;
    bool read = false;
    try {
      bytes.resize(job.blocks.size() * static_cast<std::size_t>(lane.device.bytes_per_block()));
      lane.device.send_blocks(job.blocks, bytes);
      read = true;
    } catch (...) {
      executor_.fail(std::current_exception());
    }
    lock.lock();
    flow.reading = false;
    read_.notify_all();
    if (!read) return;  // the run ends
    if (flow.aborted) continue;
    flow.kv.blocks.insert(flow.kv.blocks.end(), bytes.begin(), bytes.end());
    if (job.token) flow.kv.token = job.token;
    if (--flow.parts == 0) --on_their_way_;
    end_if_arrived(flow, job.id);
  }
}

}  // namespace plimsoll::exec
