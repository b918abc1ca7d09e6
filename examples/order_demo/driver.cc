// SPDX-License-Identifier: Apache-2.0
#include "driver.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "interrupt.h"

namespace carillon::order_demo {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kShops = 8;  // connections that put, each this many commands deep
constexpr std::size_t kShopDepth = 64;
constexpr int kPayers = 4;
constexpr std::size_t kPayerDepth = 256;
constexpr int kWorkers = 16;      // each holds one job at a time, as a worker does
constexpr int kTtrSeconds = 120;  // longer than a run: no reservation times out
constexpr Span kProbeEvery = milliseconds(5);
constexpr Span kStartPatience = seconds(60);
constexpr Span kReplyPatience = seconds(60);
constexpr Span kLatePatience = seconds(10);

constexpr std::string_view kTube = "unpaid-orders";

// The number behind `key` in a YAML dictionary of the server.
std::uint64_t yaml_number(std::string_view yaml, std::string_view key) {
  const std::string field = fmt::format("\n{}: ", key);
  const std::size_t at = yaml.find(field);
  std::uint64_t number = 0;
  if (at == std::string_view::npos) {
    throw std::runtime_error(fmt::format("stats-tube has no {}", key));
  }
  std::from_chars(yaml.data() + at + field.size(), yaml.data() + yaml.size(), number);
  return number;
}

// `<word> <id>...` -> id, if the line begins so.
std::optional<std::uint64_t> job_id(std::string_view line, std::string_view word) {
  std::uint64_t id = 0;
  if (!line.starts_with(word) || line.size() < word.size() + 2 || line[word.size()] != ' ') {
    return std::nullopt;
  }
  line.remove_prefix(word.size() + 1);
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), id);
  return error == std::errc{} ? std::optional(id) : std::nullopt;
}

double in_seconds(Span span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

Driver::Driver(const Options& options, ServerProcess& server)
    : options_(options),
      server_(server),
      now_(clock_.now()),
      started_at_(now_),
      book_({options.seed, options.min_delay_s, options.max_delay_s}, options.orders),
      report_{.options = options, .outage = {}, .put_time = {}, .run_time = {}, .left_in_tube = 0},
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      next_probe_at_(now_),
      last_reply_at_(now_),
      last_event_at_(now_),
      last_due_at_(now_),
      wave_end_(options.orders / 2),
      next_progress_at_(now_),
      is_terminal_(::isatty(STDERR_FILENO) != 0) {
  if (epoll_ < 0) {
    throw std::system_error(errno, std::generic_category(), "epoll_create1");
  }
  const auto add = [this](Role role, int count) {
    for (int i = 0; i < count; ++i) {
      peers_.push_back(std::make_unique<Peer>());
      peers_.back()->role = role;
      peers_.back()->waits = i % 2 == 0;
    }
  };
  add(Role::kProbe, 1);
  add(Role::kShop, kShops);
  add(Role::kPayer, kPayers);
  add(Role::kWorker, kWorkers);
}

Driver::~Driver() {
  peers_.clear();
  ::close(epoll_);
}

Report Driver::run() {
  while (!is_over()) {
    step();
  }
  show_progress(true);
  book_.close();
  report_.run_time = clock_.now() - started_at_;
  return report_;
}

void Driver::step() {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_, events.data(), events.size(), 1);
  if (interrupted()) {
    throw Interrupted();
  }
  for (int i = 0; i < count; ++i) {
    on_ready(*static_cast<Peer*>(events[static_cast<std::size_t>(i)].data.ptr));
  }
  now_ = clock_.now();
  if (server_up_) {
    connect_all();
    put_orders();
    pay_orders();
  } else {
    connect_probe();
  }
  for (const auto& peer : peers_) {
    flush(*peer);
  }
  note_put_phase();
  if (is_time_to_kill()) {
    kill_and_restart();
  }
  check_patience();
  show_progress(false);
}

// ---- connections

bool Driver::connect(Peer& peer) {
  if (!peer.connection.connect(server_.port())) {
    return false;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &peer;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, peer.connection.fd(), &event) != 0) {
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  }
  peer.watches_writable = false;
  return true;
}

void Driver::connect_probe() {
  Peer& probe = *peers_.front();
  if (probe.connection.is_open() || now_ < next_probe_at_) {
    return;
  }
  next_probe_at_ = now_ + kProbeEvery;
  if (connect(probe)) {
    probe.connection.send({.verb = Verb::kStats}, "stats\r\n");
  }
}

void Driver::connect_all() {
  for (const auto& peer : peers_) {
    Connection& connection = peer->connection;
    if (connection.is_open()) {
      continue;
    }
    if (!connect(*peer)) {
      fail("the server answers on one connection and refuses another");
    }
    if (peer->role == Role::kShop) {
      connection.send({.verb = Verb::kSetUp}, fmt::format("use {}\r\n", kTube));
    } else if (peer->role == Role::kWorker) {
      connection.send({.verb = Verb::kSetUp}, fmt::format("watch {}\r\n", kTube));
      connection.send({.verb = Verb::kSetUp}, "ignore default\r\n");
      reserve(*peer);
    }
  }
}

void Driver::flush(Peer& peer) {
  const bool is_left = peer.connection.flush();
  if (peer.connection.is_open() && is_left != peer.watches_writable) {
    epoll_event event{};
    event.events = EPOLLIN | (is_left ? EPOLLOUT : 0U);
    event.data.ptr = &peer;
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, peer.connection.fd(), &event);
    peer.watches_writable = is_left;
  }
}

void Driver::on_ready(Peer& peer) {
  peer.connection.read(clock_, [this, &peer](const Request& request, const Reply& reply) {
    now_ = reply.received_at;
    last_reply_at_ = now_;
    on_reply(peer, request, reply);
  });
  if (!peer.connection.is_open()) {
    on_closed(peer);
  }
}

void Driver::on_closed(Peer& peer) {
  // The end of a connection is expected once, after the kill; and the probe may meet a server that
  // is not ready.
  const bool is_expected = !server_up_;
  if (!is_expected) {
    fail("the server closed a connection");
  }
  for (const Request& request : peer.connection.take_unanswered()) {
    switch (request.verb) {
      case Verb::kPut:
        book_.put_cut_off(request.copy);
        put_again_.push_back(book_.copy(request.copy).order);
        ++report_.outage->puts_cut_off;
        break;
      case Verb::kPay:
        payments_.push({now_, book_.copy(request.copy).order, request.copy, true});
        ++report_.outage->payments_cut_off;
        break;
      case Verb::kFinish:
        if (request.copy != OrderBook::kUnknown) {
          book_.finish_cut_off(request.copy);
        }
        ++report_.outage->finishes_cut_off;
        break;
      case Verb::kSetUp:
      case Verb::kReserve:
      case Verb::kStats:
      case Verb::kStatsTube: break;
    }
  }
}

// ---- answers

void Driver::on_reply(Peer& peer, const Request& request, const Reply& reply) {
  const auto unexpected = [&](std::string_view command) {
    fail(fmt::format("{} was answered \"{}\"", command, reply.line));
  };
  switch (request.verb) {
    case Verb::kSetUp:
      if (!reply.line.starts_with("USING ") && !reply.line.starts_with("WATCHING ")) {
        unexpected("use, watch or ignore");
      }
      break;
    case Verb::kPut: {
      const auto id = job_id(reply.line, "INSERTED");
      if (!id) {
        unexpected("put");
      }
      book_.put_acknowledged(request.copy, *id, now_);
      last_event_at_ = now_;
      const Copy& copy = book_.copy(request.copy);
      if (const OrderPlan plan = book_.plan(copy.order); plan.is_paid) {
        payments_.push({copy.put_at + plan.pay_after, copy.order, request.copy, false});
      }
      break;
    }
    case Verb::kPay:
      last_event_at_ = now_;
      if (reply.line == "DELETED") {
        book_.payment_deleted(request.copy);
      } else if (reply.line == "NOT_FOUND") {
        book_.payment_not_found(request.copy, request.retried);
      } else {
        unexpected("delete");
      }
      break;
    case Verb::kReserve:
      if (reply.line.starts_with("RESERVED ")) {
        on_delivery(peer, reply);
      } else if (reply.line != "TIMED_OUT") {
        unexpected("reserve");
      }
      reserve(peer);
      break;
    case Verb::kFinish:
      if (reply.line != "DELETED" && reply.line != "NOT_FOUND") {
        unexpected("delete");
      }
      if (request.copy != OrderBook::kUnknown) {
        reply.line == "DELETED" ? book_.finish_acknowledged(request.copy)
                                : book_.finish_not_found(request.copy);
      }
      break;
    case Verb::kStats:
      if (!reply.line.starts_with("OK ")) {
        unexpected("stats");
      }
      on_server_up();
      break;
    case Verb::kStatsTube: on_stats_tube(reply); break;
  }
}

void Driver::on_delivery(Peer& peer, const Reply& reply) {
  const auto id = job_id(reply.line, "RESERVED");
  if (!id) {
    fail(fmt::format("reserve was answered \"{}\"", reply.line));
  }
  last_event_at_ = now_;
  const std::uint32_t copy = book_.delivered(*id, reply.body, now_);
  peer.connection.send({.verb = Verb::kFinish, .copy = copy}, fmt::format("delete {}\r\n", *id));
}

void Driver::on_stats_tube(const Reply& reply) {
  report_.left_in_tube = 0;
  if (reply.line.starts_with("OK ")) {
    for (const char* state : {"ready", "reserved", "delayed", "buried"}) {
      report_.left_in_tube += yaml_number(reply.body, fmt::format("current-jobs-{}", state));
    }
  }
  tube_is_empty_ = report_.left_in_tube == 0;
}

void Driver::reserve(Peer& peer) {
  peer.connection.send({.verb = Verb::kReserve},
                       peer.waits ? "reserve\r\n" : "reserve-with-timeout 1\r\n");
}

// ---- what the shop does

void Driver::put_orders() {
  const bool first_wave_done = next_order_ == wave_end_ && wave_end_ < options_.orders &&
                               put_again_.empty() && unanswered(Verb::kPut) == 0;
  if (first_wave_done && (book_.cancelled() > 0 || now_ > last_due_at_)) {
    wave_end_ = options_.orders;
  }
  for (const auto& peer : peers_) {
    if (peer->role != Role::kShop || !peer->connection.is_open()) {
      continue;
    }
    while (peer->connection.unanswered() < kShopDepth) {
      if (!put_again_.empty()) {
        put_order(*peer, put_again_.front());
        put_again_.pop_front();
      } else if (next_order_ < wave_end_) {
        put_order(*peer, next_order_++);
      } else {
        return;
      }
    }
  }
}

void Driver::put_order(Peer& peer, std::uint32_t order) {
  const OrderPlan plan = book_.plan(order);
  const std::uint32_t copy = book_.put_sent(order, clock_.now());
  last_due_at_ = std::max(last_due_at_, book_.copy(copy).due_at);
  const std::string body = book_.body(copy);
  peer.connection.send({.verb = Verb::kPut, .copy = copy},
                       fmt::format("put {} {} {} {}\r\n{}\r\n", plan.pri,
                                   std::chrono::duration_cast<seconds>(plan.delay).count(),
                                   kTtrSeconds, body.size(), body));
}

void Driver::pay_orders() {
  std::vector<Peer*> payers;
  for (const auto& peer : peers_) {
    if (peer->role == Role::kPayer) {
      payers.push_back(peer.get());
    }
  }
  while (!payments_.empty() && payments_.top().at <= now_) {
    const Payment payment = payments_.top();
    if (!book_.is_open(payment.order)) {
      payments_.pop();
      continue;
    }
    Connection& connection = payers[next_payer_++ % payers.size()]->connection;
    if (connection.unanswered() >= kPayerDepth) {
      return;  // the next one may have room, but they are filled evenly: leave it for later
    }
    payments_.pop();
    connection.send({.verb = Verb::kPay, .retried = payment.retried, .copy = payment.copy},
                    fmt::format("delete {}\r\n", book_.copy(payment.copy).job_id));
  }
}

void Driver::note_put_phase() {
  const bool active =
      server_up_ && (next_order_ < wave_end_ || !put_again_.empty() || unanswered(Verb::kPut) > 0);
  if (active && !putting_) {
    putting_since_ = now_;
  } else if (!active && putting_) {
    report_.put_time += now_ - putting_since_;
  }
  putting_ = active;
}

// ---- the kill

bool Driver::is_time_to_kill() const {
  if (!options_.kills || report_.outage || !server_up_) {
    return false;
  }
  if (unanswered(Verb::kPut) == 0) {
    return false;
  }
  const std::uint64_t put = book_.put();
  const std::uint64_t orders = options_.orders;
  const bool all_in_flight = unanswered(Verb::kPay) > 0 && unanswered(Verb::kFinish) > 0;
  const bool last_chance = put * 10 >= orders * 9 || next_order_ == orders;
  return next_order_ > orders / 2 && ((put * 4 >= orders * 3 && all_in_flight) || last_chance);
}

void Driver::kill_and_restart() {
  report_.outage.emplace();
  report_.outage->killed_at = clock_.now();
  server_.kill();
  server_up_ = false;
  note_put_phase();
  next_probe_at_ = now_;
  // Settle every old connection now, so that an end met later is one that nobody ordered.
  for (const auto& peer : peers_) {
    while (peer->connection.is_open()) {
      on_ready(*peer);
    }
  }
  last_reply_at_ = clock_.now();
  if (const Result<void> started = server_.start(); !started) {
    throw std::runtime_error(started.error().message);
  }
}

void Driver::on_server_up() {
  server_up_ = true;
  last_event_at_ = now_;
  if (report_.outage) {
    report_.outage->up_at = now_;
  }
}

// ---- the end

void Driver::check_patience() {
  if (const auto how = server_.ended()) {
    fail(fmt::format("the server ended by itself: {}", *how));
  }
  const Span silence = now_ - last_reply_at_;
  if (!server_up_ && silence > kStartPatience) {
    fail(fmt::format("the server did not answer within {:.0f} s of its start",
                     in_seconds(kStartPatience)));
  }
  const std::size_t waiting =
      unanswered(Verb::kPut) + unanswered(Verb::kPay) + unanswered(Verb::kFinish);
  if (server_up_ && waiting > 0 && silence > kReplyPatience) {
    fail(fmt::format("no answer to {} commands for {:.0f} s", waiting, in_seconds(silence)));
  }
}

bool Driver::is_over() {
  if (!server_up_ || next_order_ < options_.orders || !put_again_.empty() ||
      unanswered(Verb::kPut) + unanswered(Verb::kPay) + unanswered(Verb::kFinish) > 0) {
    return false;
  }
  const Instant hopeless_at = std::max(last_due_at_, last_event_at_) + kLatePatience;
  const bool is_hopeless = now_ > hopeless_at;
  if (!book_.is_settled() && !is_hopeless) {
    return false;
  }
  // A copy whose put was cut off may be left, and is waited for.
  const bool asked_in_vain = is_hopeless && next_tube_stats_at_ > hopeless_at;
  if (tube_is_empty_ || (asked_in_vain && unanswered(Verb::kStatsTube) == 0)) {
    return true;
  }
  if (now_ >= next_tube_stats_at_) {
    next_tube_stats_at_ = now_ + milliseconds(50);
    peers_.front()->connection.send({.verb = Verb::kStatsTube},
                                    fmt::format("stats-tube {}\r\n", kTube));
  }
  return false;
}

std::size_t Driver::unanswered(Verb verb) const {
  std::size_t count = 0;
  for (const auto& peer : peers_) {
    count += peer->connection.unanswered(verb);
  }
  return count;
}

void Driver::show_progress(bool last) {
  if (now_ < next_progress_at_ && !last) {
    return;
  }
  next_progress_at_ = now_ + (is_terminal_ ? Span(milliseconds(200)) : Span(seconds(2)));
  const std::uint32_t waiting = book_.put() - book_.paid() - book_.cancelled();
  const char* state = server_up_ ? "up" : report_.outage ? "KILLED" : "starting";
  fmt::print(stderr, "{}{:5.1f} s  put {}  paid {}  cancelled {}  waiting {}  {}{}",
             is_terminal_ ? "\r" : "", in_seconds(now_ - started_at_), book_.put(), book_.paid(),
             book_.cancelled(), waiting, state,
             is_terminal_ && !last ? "\x1b[K"
             : is_terminal_        ? "\x1b[K\n"
                                   : "\n");
  std::fflush(stderr);
}

void Driver::fail(const std::string& what) const {
  throw std::runtime_error(fmt::format("{}\n{}\n{}", what, server_.command(), server_.log_tail()));
}

}  // namespace carillon::order_demo
