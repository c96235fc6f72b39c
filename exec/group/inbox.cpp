// SPDX-License-Identifier: Apache-2.0
#include "exec/group/inbox.h"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "exec/communicator.h"

namespace plimsoll::exec::group {

Inbox::Inbox(const net::Link& link, std::optional<std::chrono::milliseconds> silence)
    : link_(link), silence_(silence), thread_([this] { read(); }) {}

// Shutting the link ends the reader's wait, so that it can be joined.
Inbox::~Inbox() {
  watch({});
  link_.shut();
  thread_.join();
}

net::Bytes Inbox::take(Kind kind) {
  std::unique_lock lock(mutex_);
  news_.wait(lock, [this] { return !messages_.empty() || fate_.ended; });
  // Answers received before the end are still delivered.
  if (messages_.empty()) throw PeerFailed();
  net::Bytes message = std::move(messages_.front());
  messages_.pop_front();
  lock.unlock();
  if (Reader(message).kind() != kind) throw DeviceError("another process sent an unexpected answer");
  return message;
}

// Calls back immediately if the peer has already failed, so that no failure is missed.
void Inbox::watch(std::function<void()> on_failure) {
  const std::lock_guard lock(watching_);
  on_failure_ = std::move(on_failure);
  if (on_failure_ && fate().ended) on_failure_();
}

PeerFailure Inbox::fate() const {
  const std::lock_guard lock(mutex_);
  return fate_;
}

void Inbox::read() {
  while (true) {
    try {
      const net::Deadline until = patience();
      std::optional<net::Bytes> message = link_.receive(net::Link::kMaxLength, until);
      if (!message && std::chrono::steady_clock::now() >= until) {
        const std::lock_guard lock(mutex_);
        fate_.silent = true;
        fate_.failure = fmt::format("the process has sent no heartbeat for {} s: it is stopped, or its host hangs",
                                    std::chrono::ceil<std::chrono::seconds>(*silence_).count());
      }
      if (!message) break;
      Reader in(*message);
      // Any message restarts the silence timer, so a heartbeat needs no other handling.
      if (in.kind() == Kind::alive) continue;
      const std::lock_guard lock(mutex_);
      if (in.kind() == Kind::peer_failed) {
        fate_.peer_failed = true;
      } else if (in.kind() == Kind::failed) {
        fate_.bad_input = in.byte() != 0;
        fate_.failure = in.text();
      } else {
        messages_.push_back(std::move(*message));
        news_.notify_all();
        continue;
      }
    } catch (const DeviceError& error) {
      const std::lock_guard lock(mutex_);
      fate_.failure = error.what();
    } catch (const std::bad_alloc&) {
      // The length of a message comes from the peer and may exceed the memory.
      const std::lock_guard lock(mutex_);
      fate_.failure = "out of memory";
    }
    break;  // the peer sends nothing more
  }
  fail();
}

void Inbox::fail() {
  {
    const std::lock_guard lock(mutex_);
    fate_.ended = true;
    news_.notify_all();
  }
  const std::lock_guard lock(watching_);
  if (on_failure_) on_failure_();
}

}  // namespace plimsoll::exec::group
