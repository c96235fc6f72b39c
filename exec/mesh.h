// SPDX-License-Identifier: Apache-2.0
// Connects every process of a tensor-parallel group with every other one, for host communicators that span processes.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "net/link.h"

namespace plimsoll::exec::group {

/// All processes must call the same operations with the same sizes in the same order. Operations throw PeerFailed if a
/// process is gone, and after abort(). One thread at a time; abort() may be called on any.
class Mesh {
 public:
  /// links[p] connects to process p; that of `own` is not open.
  Mesh(int own, std::vector<net::Link> links);

  [[nodiscard]] int own() const { return own_; }
  [[nodiscard]] int size() const { return static_cast<int>(links_.size()); }

  /// Sends the concatenated `parts` to every other process and receives theirs. `all` is [process][bytes of the parts];
  /// this process's own section is left unchanged.
  void exchange(std::span<const std::span<const std::byte>> parts, std::span<std::byte> all);
  /// Copies the data of process 0 to all processes.
  void broadcast(std::span<std::byte> bytes);
  /// Blocks until all processes have called it.
  void meet();
  /// Wakes all threads that wait for this mesh; their calls then throw PeerFailed.
  void abort();

 private:
  struct Transfer {  // the transfer with one process
    int fd = -1;
    std::size_t part = 0, offset = 0;  // everything before this position is sent
    std::span<std::byte> missing;      // bytes still to be received
  };
  [[nodiscard]] bool advance(Transfer& transfer, std::span<const std::span<const std::byte>> parts) const;
  void finish(std::span<const std::span<const std::byte>> parts);
  [[noreturn]] void fail();

  int own_;
  std::vector<net::Link> links_;
  std::vector<Transfer> open_;  // transfers of the current operation that are not complete
  std::atomic<bool> aborted_{false};
};

}  // namespace plimsoll::exec::group
