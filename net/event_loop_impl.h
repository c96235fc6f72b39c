// SPDX-License-Identifier: Apache-2.0
// The inside of EventLoop, for sources of net/ that open sockets on it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "net/event_loop.h"

namespace plimsoll::net {

struct EventLoop::Impl {
  boost::asio::io_context context{1};
  boost::asio::steady_timer timer{context};
  bool stopped = false, due = false;
  std::uint64_t turn = 0;  // number of the current run(), so that it ignores timers of earlier ones
};

}  // namespace plimsoll::net
