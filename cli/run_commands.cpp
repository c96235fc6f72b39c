// SPDX-License-Identifier: Apache-2.0
#include "cli/run_commands.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

namespace plimsoll::cli {
namespace {

std::atomic<study::RunControl*> running{nullptr};  // for the signal handler, which cannot reach it otherwise

extern "C" void cancel_run(int) {
  if (study::RunControl* control = running.load()) control->cancel();
}

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // a second signal has the default effect: it kills
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

void obey(const std::string& line, study::RunControl& control) {
  if (line == "pause") control.pause();
  if (line == "resume") control.resume();
  if (line == "cancel") control.cancel();
}

}  // namespace

study::RunSettings measuring_settings(const study::OutputChoice& files, study::RunControl& control) {
  study::RunSettings settings;
  settings.jobs = 1;
  settings.use = study::ResolveFor::measurement;
  settings.keep_requests = files.requests;
  settings.control = &control;
  return settings;
}

RunCommands::RunCommands(study::RunControl& control, bool read_input) {
  running = &control;
  set_handler(SIGINT, cancel_run);
  set_handler(SIGTERM, cancel_run);
  if (read_input) control.set_command_source([this](study::RunControl& c) { poll(c); });
}

RunCommands::~RunCommands() {
  set_handler(SIGINT, SIG_DFL);
  set_handler(SIGTERM, SIG_DFL);
  running = nullptr;
}

void RunCommands::poll(study::RunControl& control) {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (input_open_ && ::poll(&input, 1, 0) == 1) {
    std::array<char, 256> buffer{};
    const ssize_t size = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (size <= 0) input_open_ = false;
    if (size > 0) pending_.append(buffer.data(), static_cast<std::size_t>(size));
    for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n')) {
      obey(pending_.substr(0, end), control);
      pending_.erase(0, end + 1);
    }
  }
}

}  // namespace plimsoll::cli
