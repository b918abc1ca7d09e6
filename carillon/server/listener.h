// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Accepts connections on one listening socket.

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string_view>

#include "carillon/server/endpoint.h"
#include "carillon/server/partition_host.h"

namespace carillon::server {

/// Threads:  the network thread.
/// Lifetime: the loop must run no handler of it after its destruction; close() it and let the loop
///           run, or let the loop end.
/// Errors:   when the process is out of files or memory it pauses for kPause and tries again; the
///           clients wait in the kernel's queue meanwhile.
class Listener {
 public:
  static constexpr auto kPause = std::chrono::milliseconds(100);

  /// The file of a UNIX socket is removed when it closes, unless another server has taken its
  /// path since.
  Listener(boost::asio::io_context& loop, ListeningSocket socket,
           std::function<void(FileDescriptor)> on_accept, Log log);
  ~Listener() { close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] const Endpoint& at() const noexcept { return origin_.at; }
  void close();

 private:
  void wait();
  void accept_some();

  const ListeningSocket origin_;  // Its descriptor is socket_'s.
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer pause_;
  std::function<void(FileDescriptor)> on_accept_;
  const Log log_;
  bool paused_before_ = false;
};

}  // namespace carillon::server
