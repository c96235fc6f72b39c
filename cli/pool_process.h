// SPDX-License-Identifier: Apache-2.0
// The process of a measured prefill pool: this program, started again with a hidden verb. It has only the engines of
// that pool, and ends with the process that started it.
#pragma once

#include <sys/types.h>

#include <optional>

#include "exec/group/engine_process.h"

namespace plimsoll::cli {

class PoolProcess {
 public:
  /// Starts the process and has it load the engines. Throws InputError and DeviceError.
  explicit PoolProcess(const exec::group::EngineOrder& order);
  /// Ends the process and waits until it has ended.
  ~PoolProcess();
  PoolProcess(const PoolProcess&) = delete;
  PoolProcess& operator=(const PoolProcess&) = delete;
  [[nodiscard]] exec::group::EngineProcess& engines() { return *engines_; }

 private:
  void start(const net::Meeting& meeting);

  pid_t process_ = -1;
  std::optional<exec::group::EngineProcess> engines_;
};

}  // namespace plimsoll::cli
