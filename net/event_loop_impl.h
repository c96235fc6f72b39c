// SPDX-License-Identifier: Apache-2.0
// For sources of net/ that open sockets on an event loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "net/event_loop.h"

namespace plimsoll::net {

struct EventLoop::Impl {
  boost::asio::io_context context{1};
  boost::asio::steady_timer timer{context};
  bool stopped = false, due = false;
  std::uint64_t turn = 0;  // of run(): the timer of an earlier one does not count
};

}  // namespace plimsoll::net
