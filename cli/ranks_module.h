// SPDX-License-Identifier: Apache-2.0
// The part of the program that is linked with MPI (cli/mpi), loaded under mpirun only.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll::cli {

/// How many processes mpirun started, and which one this is; 1 and 0 without it.
[[nodiscard]] int ranks_of_mpirun();
[[nodiscard]] int own_rank_of_mpirun();
/// mpirun ends all processes when one of them fails, possibly before that one has reported why. A process that fails
/// only because another one did calls this first. It returns when mpirun has had time to end it, or at once without it.
void let_mpirun_end_this();

struct Introduction {
  int rank = 0, count = 1;
  int local = 0, locals = 1;  // the same on this host
  bool one_host = true;
};

/// Call begin() first and end() last; the collective calls are in between.
class RanksModule {
 public:
  /// Throws DeviceError where the module was not built. It stays loaded: MPI leaves threads and handlers behind.
  RanksModule();
  /// Throws DeviceError where MPI cannot begin.
  [[nodiscard]] Introduction begin() const;
  /// Longer texts are truncated to this many bytes.
  static constexpr std::size_t kMaxText = 4095;
  /// Rank 0's text, on every rank.
  [[nodiscard]] std::string share(const std::string& text) const;
  /// The texts of all ranks, in their order, on every rank.
  [[nodiscard]] std::vector<std::string> gather(const std::string& text, int count) const;
  void end() const;

  /// The addresses of this host at which the others reach it: the loopback if all are on one host, otherwise the fewest
  /// (net::shared_addresses) of the interfaces that `mpirun --mca btl_tcp_if_include` names, of all without it. All
  /// ranks call it. Throws DeviceError if there is none.
  [[nodiscard]] std::vector<std::string> listening_addresses(const Introduction& place) const;

 private:
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const;
  void* handle_ = nullptr;
};

}  // namespace plimsoll::cli
