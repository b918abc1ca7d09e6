// SPDX-License-Identifier: Apache-2.0
#include "bench/server/engine.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <utility>

#include "bench/common/interrupt.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

constexpr std::size_t kReadBytes = 128 * 1024;
constexpr int kMaxEvents = 64;
constexpr Span kLongestWait = std::chrono::milliseconds(200);
const SteadyClock kClock;

timespec to_timespec(Span span) {
  const auto nanos = std::max<Span::rep>(span.count(), 0);
  return {static_cast<std::time_t>(nanos / 1'000'000'000),
          static_cast<long>(nanos % 1'000'000'000)};
}

[[noreturn]] void fail(std::string_view what) {
  throw BenchError(fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

struct Engine::Connection {
  Connection(Conversation& c, int socket)
      : conversation(c), fd(socket), in(std::make_unique<char[]>(kReadBytes)) {}
  ~Connection() { ::close(fd); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Conversation& conversation;
  int fd;
  bool finished = false;
  bool wants_write = false;
  std::unique_ptr<char[]> in;
  std::size_t in_size = 0;
  std::string out;
  std::size_t out_sent = 0;
};

namespace {

int connect_tcp(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    ::close(fd);
    errno = error;
    return -1;
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// The name of an abstract socket begins with a zero and ends where its length says.
int connect_abstract(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    const int error = errno;
    ::close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

}  // namespace

int connect_to(const Address& address) {
  return address.port != 0 ? connect_tcp(address.port) : connect_abstract(address.name);
}

std::string ask(std::uint16_t port, std::string_view question, std::string_view terminator) {
  const int fd = connect_to({port});
  if (fd < 0) fail("connect");
  const timeval limit = {10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string answer;
  std::array<char, 4096> bytes;
  if (::send(fd, question.data(), question.size(), MSG_NOSIGNAL) ==
      static_cast<ssize_t>(question.size())) {
    while (answer.find(terminator) == std::string::npos) {
      const ssize_t n = ::read(fd, bytes.data(), bytes.size());
      if (n <= 0) break;
      answer.append(bytes.data(), static_cast<std::size_t>(n));
    }
  }
  ::close(fd);
  check_interrupt();
  if (answer.find(terminator) == std::string::npos) {
    throw BenchError(
        fmt::format("no answer to \"{}\"", question.substr(0, question.find_first_of("\r\n"))));
  }
  return answer;
}

Engine::Engine(Address address)
    : address_(std::move(address)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) fail("epoll_create1");
  // The default slack of 50 us would be as long as the pause between two paced puts.
  ::prctl(PR_SET_TIMERSLACK, 1UL);
}

Engine::~Engine() {
  connections_.clear();
  ::close(epoll_);
}

void Engine::add(Conversation& conversation) {
  const int fd = connect_to(address_);
  if (fd < 0) fail(fmt::format("connect to {}{}", address_.port, address_.name));
  connections_.push_back(std::make_unique<Connection>(conversation, fd));
  conversation.greet(fd);
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.ptr = connections_.back().get();
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
}

void Engine::watch(Connection& connection, bool writable) {
  if (connection.wants_write == writable) return;
  connection.wants_write = writable;
  epoll_event event = {};
  event.events = writable ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = &connection;
  if (::epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &event) != 0) fail("epoll_ctl");
}

void Engine::flush(Connection& connection) {
  std::string& out = connection.out;
  while (connection.out_sent < out.size()) {
    const ssize_t n = ::send(connection.fd, out.data() + connection.out_sent,
                             out.size() - connection.out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) fail("send");
      watch(connection, true);
      return;
    }
    connection.out_sent += static_cast<std::size_t>(n);
  }
  out.clear();
  connection.out_sent = 0;
  watch(connection, false);
}

void Engine::on_readable(Connection& connection) {
  const ssize_t n = ::recv(connection.fd, connection.in.get() + connection.in_size,
                           kReadBytes - connection.in_size, MSG_DONTWAIT);
  if (n < 0) {
    if (errno == EAGAIN || errno == EINTR) return;
    fail("recv");
  }
  if (n == 0) throw BenchError("the server closed a connection in the middle of the load");
  const std::size_t size = connection.in_size + static_cast<std::size_t>(n);
  const std::size_t taken = connection.conversation.consume(
      std::string_view(connection.in.get(), size), kClock.now(), connection.out);
  connection.in_size = size - taken;
  if (taken > 0 && connection.in_size > 0) {
    std::memmove(connection.in.get(), connection.in.get() + taken, connection.in_size);
  }
  if (connection.in_size == kReadBytes) throw BenchError("a reply of more than 128 KiB");
  if (!connection.out.empty()) flush(connection);
  note_if_done(connection);
}

void Engine::note_if_done(Connection& connection) {
  if (connection.finished || !connection.conversation.done()) return;
  connection.finished = true;
  --unfinished_;
}

Instant Engine::next_speech() const {
  Instant next = Instant::max();
  for (const auto& connection : connections_) {
    next = std::min(next, connection->conversation.speaks_at());
  }
  return next;
}

void Engine::speak_when_due() {
  const Instant now = kClock.now();
  for (const auto& connection : connections_) {
    if (connection->conversation.speaks_at() > now) continue;
    connection->conversation.speak(now, connection->out);
    if (!connection->out.empty()) flush(*connection);
    note_if_done(*connection);
  }
}

Span Engine::run(Span limit) {
  const Instant began = kClock.now();
  const Instant give_up = saturating_add(began, limit);
  unfinished_ = connections_.size();
  for (const auto& connection : connections_) {
    connection->conversation.start(connection->out);
    flush(*connection);
    note_if_done(*connection);
  }
  std::array<epoll_event, kMaxEvents> events;
  while (unfinished_ > 0) {
    check_interrupt();
    const Instant speech = next_speech();
    Span wait = kLongestWait;
    if (speech != Instant::max()) wait = std::min(wait, speech - kClock.now());
    const timespec timeout = to_timespec(wait);
    const int ready = ::epoll_pwait2(epoll_, events.data(), kMaxEvents, &timeout, nullptr);
    if (ready < 0 && errno != EINTR) fail("epoll_pwait2");
    for (int i = 0; i < ready; ++i) {
      auto& connection = *static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr);
      const std::uint32_t what = events[static_cast<std::size_t>(i)].events;
      if ((what & EPOLLOUT) != 0) flush(connection);
      if ((what & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) on_readable(connection);
    }
    if (speech != Instant::max()) speak_when_due();
    if (kClock.now() > give_up) {
      throw BenchError(fmt::format(
          "{} of {} connections still wait for replies after {} s", unfinished_,
          connections_.size(), std::chrono::duration_cast<std::chrono::seconds>(limit).count()));
    }
  }
  return kClock.now() - began;
}

}  // namespace carillon::bench
