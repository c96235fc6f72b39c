// SPDX-License-Identifier: Apache-2.0
// plimsoll gui: becomes the desktop program, a separate executable beside this one (it is GPL: Qt Charts).
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "cli/commands.h"
#include "model/error.h"

namespace plimsoll::cli {

int run_gui(const Arguments& arguments, Console& /*console*/) {
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (own.parent_path() / "plimsoll-gui").string();
  if (error || !std::filesystem::exists(program, error)) {
    throw DeviceError(
        "the desktop program is not built: `./plimsoll gui` in a checkout installs Qt 6 and builds it "
        "(packages: those marked gui in scripts/packages.txt; target: plimsoll_gui)");
  }
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  throw DeviceError(program + " cannot be started: " + std::strerror(errno));
}

}  // namespace plimsoll::cli
