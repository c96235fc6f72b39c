// SPDX-License-Identifier: Apache-2.0
#include "net/event_loop.h"

#include "net/impl.h"

namespace plimsoll::net {

namespace {
constexpr int kReady = 1024;  // handlers to run after the deadline
}  // namespace

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::run(Deadline until) {
  Impl& impl = *impl_;
  impl.context.restart();
  impl.stopped = impl.due = false;
  impl.context.poll_one();
  if (impl.stopped) return;
  // A timer wakes the loop within about 50 us, whereas the time-out of epoll is rounded up to milliseconds.
  const std::uint64_t turn = ++impl.turn;
  impl.timer.expires_at(until);
  impl.timer.async_wait([&impl, turn](const boost::system::error_code& error) {
    if (!error && turn == impl.turn) impl.due = true;
  });
  impl.context.restart();
  while (!impl.stopped && !impl.due) impl.context.run_one();
  // Handle what is already ready. Otherwise its time stamp would include the work that the caller does next.
  for (int i = 0; i < kReady && impl.context.poll_one() > 0; ++i) {}
  impl.timer.cancel();
}

void EventLoop::stop() { impl_->stopped = true; }

void EventLoop::at(Deadline time, std::function<void()> then) {
  const auto timer = std::make_shared<boost::asio::steady_timer>(impl_->context, time);
  timer->async_wait([timer, then = std::move(then)](const boost::system::error_code& error) {
    if (!error) then();
  });
}

}  // namespace plimsoll::net
