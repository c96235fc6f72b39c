// SPDX-License-Identifier: Apache-2.0
// The part of the program that is linked with MPI (cli/mpi), loaded under mpirun only.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace plimsoll::cli {

/// How many processes mpirun started; 1 without it.
[[nodiscard]] int ranks_of_mpirun();

struct Introduction {
  int rank = 0, count = 1;
  int local = 0, locals = 1;           // the same on this host
  bool one_host = true;
};

/// begin(), then what all ranks do together, then end().
class RanksModule {
 public:
  /// Throws DeviceError where the module was not built. It stays loaded: MPI leaves threads and handlers behind.
  RanksModule();
  /// Throws DeviceError where MPI cannot begin.
  [[nodiscard]] Introduction begin() const;
  /// Everybody gets rank 0's text.
  void share(std::span<char> text) const;
  /// Everybody's text, of up to `longest` bytes, in the order of ranks.
  [[nodiscard]] std::vector<std::string> gather(const std::string& text, std::size_t longest, int count) const;
  void end() const;

 private:
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const;
  void* handle_ = nullptr;
};

}  // namespace plimsoll::cli
