// SPDX-License-Identifier: Apache-2.0
// External commands to a run: SIGINT and SIGTERM cancel it. With --progress jsonl, lines on standard input (pause,
// resume, cancel) control it.
#pragma once

#include <string>

#include "study/output/outputs.h"
#include "study/run/run_study.h"

namespace plimsoll::cli {

/// For runs that are measured one after another: two at a time would share a device or a server and slow each other
/// down. `control` must outlive the settings.
[[nodiscard]] study::RunSettings measuring_settings(const study::OutputChoice& files, study::RunControl& control);

/// Listens while it exists; only one object may exist at a time. A second signal ends the program at once.
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
