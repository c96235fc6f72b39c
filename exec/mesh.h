// SPDX-License-Identifier: Apache-2.0
// Every process of a tensor-parallel group connected with every other one: what host communicators over processes stand
// on.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "net/link.h"

namespace plimsoll::exec::group {

/// All processes call the same operations with the same sizes in the same order. They throw PeerFailed when a process
/// is gone, and after abort(). One thread at a time, abort() any.
class Mesh {
 public:
  /// links[p] leads to process p; the one of `own` is not open.
  Mesh(int own, std::vector<net::Link> links);

  [[nodiscard]] int own() const { return own_; }
  [[nodiscard]] int size() const { return static_cast<int>(links_.size()); }

  /// Sends `parts`, one behind the other, to everybody. all: [process][bytes of the parts]; what is there of this
  /// process stays as it is.
  void exchange(std::span<const std::span<const std::byte>> parts, std::span<std::byte> all);
  /// Everybody gets what process 0 has.
  void broadcast(std::span<std::byte> bytes);
  /// Returns when all have come.
  void meet();
  void abort();

 private:
  struct Transfer {  // with one process
    int fd = -1;
    std::size_t part = 0, offset = 0;  // sent up to here
    std::span<std::byte> missing;      // still to come
  };
  [[nodiscard]] bool advance(Transfer& transfer, std::span<const std::span<const std::byte>> parts) const;
  void finish(std::span<const std::span<const std::byte>> parts);
  [[noreturn]] void fail();

  int own_;
  std::vector<net::Link> links_;
  std::vector<Transfer> open_;  // of the operation in progress, those that are not done
  std::atomic<bool> aborted_{false};
};

}  // namespace plimsoll::exec::group
