// SPDX-License-Identifier: Apache-2.0
// The bodies of Boost.Asio and Beast, compiled once for this library (net/CMakeLists.txt).
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
