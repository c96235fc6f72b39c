// SPDX-License-Identifier: Apache-2.0
#include "exec/mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "exec/brief_wait.h"
#include "exec/communicator.h"

namespace plimsoll::exec::group {

namespace {
bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }
}  // namespace

Mesh::Mesh(int own, std::vector<net::Link> links) : own_(own), links_(std::move(links)) {}

void Mesh::exchange(std::span<const std::span<const std::byte>> parts, std::span<std::byte> all) {
  const std::size_t each = all.size() / links_.size();
  open_.clear();
  for (std::size_t p = 0; p < links_.size(); ++p)
    if (links_[p].is_open()) open_.push_back({links_[p].fd(), 0, 0, all.subspan(p * each, each)});
  finish(parts);
}

void Mesh::broadcast(std::span<std::byte> bytes) {
  const std::array<std::span<const std::byte>, 1> parts{bytes};
  open_.clear();
  // Process 0 sends to all the others. They only receive, and only from process 0.
  if (own_ > 0) {
    open_.push_back({links_[0].fd(), 0, 0, bytes});
    finish({});
    return;
  }
  for (std::size_t p = 1; p < links_.size(); ++p) open_.push_back({links_[p].fd(), 0, 0, {}});
  finish(parts);
}

void Mesh::meet() {
  const std::array<std::byte, 1> one{};
  const std::array<std::span<const std::byte>, 1> parts{one};
  net::Bytes all(links_.size());
  exchange(parts, all);
}

void Mesh::abort() {
  aborted_ = true;
  for (const net::Link& link : links_) link.shut();
}

void Mesh::fail() {
  abort();  // releases peers that wait for this process
  throw PeerFailed();
}

// For a short message, a process polls briefly before it sleeps.
void Mesh::finish(std::span<const std::span<const std::byte>> parts) {
  if (aborted_) fail();
  const auto all_done = [&] {
    std::erase_if(open_, [&](Transfer& transfer) { return !advance(transfer, parts); });
    return open_.empty();
  };
  std::vector<pollfd> ready;
  try {
    while (!spin_briefly(all_done)) {
      ready.clear();
      // Poll for both directions at once. Otherwise, two processes that send to each other could both wait forever.
      for (const Transfer& transfer : open_) {
        const int sends = transfer.part < parts.size() ? POLLOUT : 0, receives = transfer.missing.empty() ? 0 : POLLIN;
        ready.push_back({transfer.fd, static_cast<short>(sends | receives), 0});
      }
      if (::poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR)
        throw PeerFailed();  // poll itself failed: peers cannot be observed any more
    }
  } catch (const PeerFailed&) {
    fail();
  }
}

// Transfers as much as possible without waiting. Returns false when everything is transferred.
bool Mesh::advance(Transfer& transfer, std::span<const std::span<const std::byte>> parts) const {
  while (transfer.part < parts.size()) {
    const std::span<const std::byte> rest = parts[transfer.part].subspan(transfer.offset);
    const ssize_t sent = rest.empty() ? 0 : ::send(transfer.fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && !would_wait()) throw PeerFailed();
    if (sent < 0) break;
    transfer.offset += static_cast<std::size_t>(sent);
    if (transfer.offset < parts[transfer.part].size()) continue;
    ++transfer.part;
    transfer.offset = 0;
  }
  while (!transfer.missing.empty()) {
    const ssize_t got = ::recv(transfer.fd, transfer.missing.data(), transfer.missing.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && !would_wait())) throw PeerFailed();
    if (got < 0) break;
    transfer.missing = transfer.missing.subspan(static_cast<std::size_t>(got));
  }
  return transfer.part < parts.size() || !transfer.missing.empty();
}

}  // namespace plimsoll::exec::group
