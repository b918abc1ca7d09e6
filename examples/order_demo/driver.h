// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The shop: places orders, pays most of them, kills the server in the middle, and takes what
/// fires.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "carillon/base/clock.h"
#include "connection.h"
#include "options.h"
#include "order_book.h"
#include "report.h"
#include "server_process.h"

namespace carillon::order_demo {

/// Runs the scenario once, in one thread around epoll.
///
/// Orders are put in two waves of one half, each as fast as the server acknowledges them. The
/// second starts when the first orders have fired; in the middle of it, with puts, deletes and
/// deliveries under way, the server is killed.
///
/// Errors: run() throws std::runtime_error when the scenario cannot go on: the server does not
///         start, dies by itself, closes a connection, answers what it should not, or is silent.
class Driver {
 public:
  Driver(const Options& options, ServerProcess& server);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// Returns when every order has come to its end, or has had its time.
  Report run();
  [[nodiscard]] const OrderBook& book() const { return book_; }

 private:
  enum class Role { kProbe, kShop, kPayer, kWorker };
  struct Peer {
    Role role;
    bool waits = true;  ///< kWorker: by `reserve`, else by `reserve-with-timeout 1`
    bool watches_writable = false;
    Connection connection;
  };
  struct Payment {
    Instant at;
    std::uint32_t order;
    std::uint32_t copy;
    bool retried;
    bool operator>(const Payment& other) const { return at > other.at; }
  };

  void step();
  void connect_probe();
  void connect_all();
  bool connect(Peer& peer);
  void on_ready(Peer& peer);
  void on_closed(Peer& peer);
  void on_reply(Peer& peer, const Request& request, const Reply& reply);
  void on_delivery(Peer& peer, const Reply& reply);
  void on_stats_tube(const Reply& reply);
  void reserve(Peer& peer);
  void put_orders();
  void put_order(Peer& peer, std::uint32_t order);
  void pay_orders();
  void flush(Peer& peer);
  void note_put_phase();
  [[nodiscard]] bool is_time_to_kill() const;
  void kill_and_restart();
  void on_server_up();
  void check_patience();
  void show_progress(bool last);
  [[nodiscard]] bool is_over();
  [[nodiscard]] std::size_t unanswered(Verb verb) const;
  [[noreturn]] void fail(const std::string& what) const;

  const Options& options_;
  ServerProcess& server_;
  BootClock clock_;
  Instant now_;
  Instant started_at_;
  OrderBook book_;
  Report report_;
  int epoll_ = -1;
  std::vector<std::unique_ptr<Peer>> peers_;  // peers_[0] is the probe
  bool server_up_ = false;
  Instant next_probe_at_;
  Instant last_reply_at_;
  Instant last_event_at_;  // something settled: a delivery, a delete, a put
  Instant last_due_at_;

  std::uint32_t wave_end_ = 0;  // orders below this may be put now
  std::uint32_t next_order_ = 0;
  std::deque<std::uint32_t> put_again_;
  bool putting_ = false;
  Instant putting_since_;
  std::priority_queue<Payment, std::vector<Payment>, std::greater<>> payments_;
  std::size_t next_payer_ = 0;

  bool tube_is_empty_ = false;
  Instant next_tube_stats_at_;
  Instant next_progress_at_;
  bool is_terminal_;
};

}  // namespace carillon::order_demo
