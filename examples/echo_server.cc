// SPDX-License-Identifier: Apache-2.0
// A TCP echo server on Boost.Asio that drops peers from which nothing came for a second. A packet
// costs one touch; no timer is pushed back. The program is its own clients: one that talks all the
// time, one that says hello and falls silent.

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "carillon/blocks/idle_monitor.h"
#include "carillon/timer/timer.h"

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr auto kSilence = 1s;

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, carillon::IdleMonitor& monitor) : socket_(std::move(socket)) {
    monitor_ = &monitor;
  }
  void start() {
    idle_ = monitor_->watch(kSilence, [weak = weak_from_this()] {
      // On a thread of the Timer's: the socket belongs to that of its context.
      if (const auto self = weak.lock()) {
        asio::post(self->socket_.get_executor(), [self] { self->socket_.close(); });
      }
    });
    read();
  }

 private:
  void read() {
    socket_.async_read_some(
        asio::buffer(buffer_), [self = shared_from_this()](error_code error, std::size_t size) {
          if (error) return;  // Closed, by the peer or by its silence: the last owner goes.
          self->idle_.touch();
          asio::async_write(self->socket_, asio::buffer(self->buffer_, size),
                            [self](error_code failed, std::size_t) {
                              if (!failed) self->read();
                            });
        });
  }

  tcp::socket socket_;
  carillon::IdleMonitor* monitor_;
  carillon::IdleMonitor::Item idle_;
  std::array<char, 4096> buffer_{};
};

void accept(tcp::acceptor& acceptor, carillon::IdleMonitor& monitor) {
  acceptor.async_accept([&](error_code error, tcp::socket socket) {
    if (error) return;
    std::make_shared<Session>(std::move(socket), monitor)->start();
    accept(acceptor, monitor);
  });
}

// What comes back for `text`; nothing once the server has closed.
std::string echo(tcp::socket& socket, const std::string& text) {
  error_code error;
  asio::write(socket, asio::buffer(text), error);
  std::string answer(text.size(), '\0');
  if (!error) asio::read(socket, asio::buffer(answer), error);
  return error ? std::string() : answer;
}

}  // namespace

int main() {
  carillon::Timer timer;
  carillon::IdleMonitor monitor(timer, {.resolution = 50ms});
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  accept(acceptor, monitor);
  std::jthread server([&] { io.run(); });

  asio::io_context clients;
  tcp::socket busy(clients);
  tcp::socket silent(clients);
  busy.connect(acceptor.local_endpoint());
  silent.connect(acceptor.local_endpoint());

  std::printf("silent: %s\n", echo(silent, "hello").c_str());
  const auto begin = std::chrono::steady_clock::now();
  int echoes = 0;
  while (std::chrono::steady_clock::now() - begin < 2 * kSilence) {
    echoes += echo(busy, "hello") == "hello" ? 1 : 0;
    std::this_thread::sleep_for(20ms);
  }
  char byte = 0;
  error_code end;
  silent.read_some(asio::buffer(&byte, 1), end);  // It has been dropped meanwhile.
  std::printf("silent: dropped: %s\n", end == asio::error::eof ? "yes" : "no");
  std::printf("busy: served all the time: %s\n",
              echoes > 1 && echo(busy, "!") == "!" ? "yes" : "no");
  std::printf("watched: %zu\n", monitor.size());

  asio::post(io, [&] { acceptor.close(); });
  busy.close();
}
