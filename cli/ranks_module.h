// SPDX-License-Identifier: Apache-2.0
// The part of the program that is linked with MPI (cli/mpi); loaded only under mpirun.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll::cli {

/// Return the number of processes that mpirun started, and the rank of this one; 1 and 0 without mpirun.
[[nodiscard]] int ranks_of_mpirun();
[[nodiscard]] int own_rank_of_mpirun();
/// Waits until mpirun has had time to end this process; returns at once without mpirun. mpirun ends all processes when
/// one fails, possibly before that one has reported why. So a process that fails only because another one did calls
/// this first.
void let_mpirun_end_this();

struct Introduction {
  int rank = 0, count = 1;
  int local = 0, locals = 1;  // the same among the processes of this host
  bool one_host = true;
};

/// Access to MPI. Call begin() first and end() last, collective calls in between.
class RanksModule {
 public:
  /// Throws DeviceError if the module was not built. It stays loaded, because MPI leaves threads and handlers behind.
  RanksModule();
  /// Starts MPI. Throws DeviceError if that fails.
  [[nodiscard]] Introduction begin() const;
  /// Longer texts are truncated to this many bytes.
  static constexpr std::size_t kMaxText = 4095;
  /// Returns rank 0's text on every rank.
  [[nodiscard]] std::string share(const std::string& text) const;
  /// Returns the texts of all ranks, in order, on every rank.
  [[nodiscard]] std::vector<std::string> gather(const std::string& text, int count) const;
  void end() const;

  /// Returns the addresses of this host at which the other ranks reach it. If all are on one host, that is the
  /// loopback. Otherwise it is the smallest sufficient set (net::shared_addresses) of the interfaces given by `mpirun
  /// --mca btl_tcp_if_include`, or of all interfaces. Collective. Throws DeviceError if there is none.
  [[nodiscard]] std::vector<std::string> listening_addresses(const Introduction& place) const;

 private:
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const;
  void* handle_ = nullptr;
};

}  // namespace plimsoll::cli
