// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of asio.h share.

#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "carillon/timer/asio.h"
#include "carillon/timer/manual_driver.h"

namespace carillon::testing {

namespace net = carillon::asio::net;
using carillon::asio::error_code;
using carillon::asio::wheel_timer;
inline const error_code kAborted = net::error::operation_aborted;

// How waits ended, in the order of that.
class Log {
 public:
  [[nodiscard]] auto handler(int number) {
    return [this, number](error_code error) { entries_.emplace_back(number, error); };
  }
  using Entry = std::pair<int, error_code>;
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

// A Timer on manual time, and a context that is run when told.
class AsioOnManualTime : public ::testing::Test {
 public:
  // What is due, and then what that has posted.
  void advance(Span span) {
    time.advance(span);
    run();
  }
  void run() {
    io.restart();
    io.poll();
  }
#if defined(CARILLON_ASIO_COROUTINES)
  template <class T>
  void spawn(net::awaitable<T> coroutine) {
    net::co_spawn(io, std::move(coroutine), [](const std::exception_ptr& thrown) {
      if (thrown) {
        std::rethrow_exception(thrown);
      }
    });
    run();
  }
#endif

  ManualDriver time;
  net::io_context io;
  Timer timer{time.options()};
  Log log;
};

}  // namespace carillon::testing
