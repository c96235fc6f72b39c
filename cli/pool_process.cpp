// SPDX-License-Identifier: Apache-2.0
#include "cli/pool_process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/rank_group.h"
#include "configs/this_machine.h"
#include "model/error.h"

namespace plimsoll::cli {

namespace {
// Passed in the environment, because other users can read the arguments of a process but not its environment.
constexpr const char* kMeeting = "PLIMSOLL_POOL";
constexpr const char* kProgram = "/proc/self/exe";
}  // namespace

PoolProcess::PoolProcess(const exec::group::EngineOrder& order) {
  try {
    engines_.emplace(order, [this](const net::Meeting& meeting) { start(meeting); });
  } catch (...) {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);  // it may be loading weights, or hang, and has nothing to lose
      ::waitpid(process_, nullptr, 0);
    }
    throw;
  }
}

PoolProcess::~PoolProcess() {
  engines_.reset();
  ::waitpid(process_, nullptr, 0);
}

void PoolProcess::start(const net::Meeting& meeting) {
  std::string own = fmt::format("{}={}", kMeeting, meeting.text());
  std::vector<char*> environment;
  for (char** entry = ::environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  environment.push_back(own.data());
  environment.push_back(nullptr);
  std::string name = "plimsoll", verb(kPoolMember);
  char* arguments[] = {name.data(), verb.data(), nullptr};
  const int error = ::posix_spawn(&process_, kProgram, nullptr, nullptr, arguments, environment.data());
  if (error != 0)
    throw DeviceError(fmt::format("the process of the prefill pool cannot be started: {}", std::strerror(error)));
}

int run_pool_member(const Arguments& /*arguments*/, Console& /*console*/) {
  const char* const meeting = std::getenv(kMeeting);
  if (meeting == nullptr)
    throw InputError(fmt::format("{} is started by measure, for a study with pools", kPoolMember));
  std::signal(SIGINT, SIG_IGN);  // the other process ends the run and thus this one
  std::signal(SIGTERM, SIG_IGN);
  const bool ended = exec::group::serve_engines(net::Meeting::read(meeting), open_order, configs::calibrated_tuning());
  return ended ? kDone : kDeviceFailed;
}

}  // namespace plimsoll::cli
