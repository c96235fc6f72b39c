// SPDX-License-Identifier: Apache-2.0
// The verbs: one function each, from arguments to exit code. They throw InputError (exit 2) and DeviceError (exit 3).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"

namespace plimsoll::cli {

inline constexpr int kDone = 0, kBadInput = 2, kDeviceFailed = 3, kAnswerIsNo = 4, kInterrupted = 130;

using Arguments = std::vector<std::string>;  // after the verb

int run_simulate(const Arguments& arguments, Console& console);
int run_measure(const Arguments& arguments, Console& console);
int run_serve(const Arguments& arguments, Console& console);
int run_plan(const Arguments& arguments, Console& console);
int run_memory(const Arguments& arguments, Console& console);
int run_forward(const Arguments& arguments, Console& console);
int run_import(const Arguments& arguments, Console& console);
int run_export(const Arguments& arguments, Console& console);
int run_init(const Arguments& arguments, Console& console);
int run_trace(const Arguments& arguments, Console& console);
int run_list(const Arguments& arguments, Console& console);
int run_validate(const Arguments& arguments, Console& console);
int run_calibrate(const Arguments& arguments, Console& console);
int run_gui(const Arguments& arguments, Console& console);
int run_demo(const Arguments& arguments, Console& console);
/// The other process of a measured point with pools (pool_process.h).
int run_pool_member(const Arguments& arguments, Console& console);
inline constexpr std::string_view kPoolMember = "pool-member";

/// A verb with its summary for --help and its function.
struct Command {
  std::string_view verb, summary;
  int (*run)(const Arguments&, Console&);
  bool hidden = false;   // works, but --help does not list it
  bool spreads = false;  // can run over the processes that mpirun starts
};

}  // namespace plimsoll::cli
