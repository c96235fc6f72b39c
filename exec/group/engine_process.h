// SPDX-License-Identifier: Apache-2.0
// Engines in another process of this host, each with all its ranks, as devices of this one: the prefill replicas of a
// measured point with pools. This process has the schedulers, the requests and the block tables; the other one has
// weights and KV and runs forwards. Each engine has a connection for its steps and one on which its KV leaves, so that
// blocks are sent while forwards run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/forward_device.h"
#include "exec/group/follower.h"
#include "exec/group/messages.h"
#include "model/cpu_tuning.h"
#include "net/link.h"
#include "net/lobby.h"

namespace plimsoll::exec::group {

/// How fast KV leaves an engine of the other process: seconds before the first byte, bytes per second.
struct KvPath {
  double launch_s = 0, bandwidth = 0;
};

class EngineProcess {
 public:
  /// Starts a process that calls serve_engines() with this meeting.
  using Start = std::function<void(const net::Meeting& meeting)>;

  /// Starts the process and has it load the engines of the order. Throws InputError or DeviceError with the reason if
  /// it cannot, or if it does not answer for half a minute.
  EngineProcess(const EngineOrder& order, const Start& start);
  /// Ends the engines; the other process then returns from serve_engines().
  ~EngineProcess();
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  /// Returns the engines as devices. Their calls throw DeviceError if the process fails or dies.
  [[nodiscard]] const std::vector<ForwardDevice*>& devices() const { return devices_; }
  [[nodiscard]] const std::string& description() const { return description_; }
  /// Measures how fast KV leaves the first engine. Call between forwards.
  [[nodiscard]] KvPath measure_path();

 private:
  class RemoteEngine;

  void connect(net::Lobby& lobby, std::size_t replicas);

  std::int64_t kv_blocks_;
  net::Link control_;
  std::string description_;
  std::vector<std::unique_ptr<RemoteEngine>> engines_;
  std::vector<ForwardDevice*> devices_;
};

/// Serves the engines that the other end orders, until it ends them or is gone. Returns whether it ended them; errors
/// are reported to it. An order does not state how this machine runs products: `tuning` does.
bool serve_engines(const net::Meeting& meeting, const OpenOrder& open,
                   const std::optional<model::CpuTuning>& tuning = {});

}  // namespace plimsoll::exec::group
