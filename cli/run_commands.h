// SPDX-License-Identifier: Apache-2.0
// External commands to a run: SIGINT and SIGTERM cancel it; with --progress jsonl, lines on standard input
// (pause, resume, cancel) steer it.
#pragma once

#include <string>

#include "study/run/run_control.h"

namespace plimsoll::cli {

/// Listens during its lifetime; only one may exist. A second signal ends the program at once.
class RunCommands {
 public:
  RunCommands(study::RunControl& control, bool read_input);
  ~RunCommands();
  RunCommands(const RunCommands&) = delete;
  RunCommands& operator=(const RunCommands&) = delete;

 private:
  void poll(study::RunControl& control);
  std::string pending_;
  bool input_open_ = true;
};

}  // namespace plimsoll::cli
