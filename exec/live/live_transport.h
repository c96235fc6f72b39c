// SPDX-License-Identifier: Apache-2.0
// Carries KV between the devices of a live run. Its simulated counterpart is load::TransferLinks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "exec/forward_device.h"
#include "exec/live/step_order.h"
#include "load/kv_transport.h"

namespace plimsoll::exec {

class StepExecutor;

/// A transport that also hands over what it has carried.
class LiveTransport : public load::KvTransport {
 public:
  using KvTransport::KvTransport;
  /// Returns the KV of the last transfer of this request that take() returned. Call once for each.
  [[nodiscard]] virtual LandedKv landed(std::uint64_t serial) = 0;
  /// Returns whether a transfer is under way whose end next_event() cannot predict.
  [[nodiscard]] virtual bool is_busy() const = 0;
};

/// Sends as fast as the devices and the machine allow. One thread for each prefill replica reads its blocks, one part
/// after the other, and does not wait for forwards.
class KvCarrier final : public LiveTransport {
 public:
  /// `executor` must outlive it. Its replicas from `targets` on are the prefill replicas.
  KvCarrier(const Rates& rates, StepExecutor& executor, std::size_t sources, std::size_t targets);
  /// Ends all transfers, after the parts that are being read.
  ~KvCarrier() override;

  [[nodiscard]] Id open(std::size_t source, std::size_t target) override;
  void add(Id id, const Part& part, double now_s) override;
  void finish(Id id, double now_s) override;
  void abort(Id id, double now_s) override;
  [[nodiscard]] Nanos next_event() const override;
  [[nodiscard]] std::optional<Id> take(Nanos now) override;
  [[nodiscard]] LandedKv landed(std::uint64_t serial) override;
  [[nodiscard]] bool is_busy() const override;

 private:
  struct Flow {
    std::size_t source = 0;
    std::uint64_t serial = 0;
    LandedKv kv;
    std::int64_t parts = 0;  // that have not arrived
    bool begun = false, finished = false, aborted = false, reading = false;
  };
  struct Job {
    std::shared_ptr<Flow> flow;
    Id id = 0;
    std::vector<std::int32_t> blocks;
    std::optional<std::int32_t> token;
  };
  struct Lane {  // of a prefill replica
    ForwardDevice& device;
    std::deque<Job> jobs;
    std::condition_variable wake;
    std::thread thread;
  };

  void stop();
  void serve(std::size_t source);
  void end_if_arrived(Flow& flow, Id id);

  StepExecutor& executor_;
  std::size_t targets_;
  mutable std::mutex mutex_;  // guards everything below
  std::vector<std::unique_ptr<Lane>> lanes_;
  bool quit_ = false;
  std::condition_variable read_;
  std::vector<std::shared_ptr<Flow>> flows_;  // by id; null: free
  std::vector<Id> free_;
  std::deque<Id> done_;
  std::unordered_map<std::uint64_t, LandedKv> landed_;  // by serial; looked up, never iterated
  std::int64_t on_their_way_ = 0;
};

}  // namespace plimsoll::exec
