// SPDX-License-Identifier: Apache-2.0
// Three connections, of which two are heard from; the third is closed for its silence. Time is
// simulated.

#include <cstdio>
#include <string>
#include <utility>

#include "carillon/blocks/idle_monitor.h"
#include "carillon/timer/manual_driver.h"

using namespace std::chrono_literals;

namespace {

class Connection {
 public:
  Connection(carillon::IdleMonitor& monitor, std::string peer, carillon::Span timeout)
      : peer_(std::move(peer)), idle_(monitor.watch(timeout, [this] { close(); })) {}

  void on_packet() { idle_.touch(); }  // from any thread; no lock, no clock
  [[nodiscard]] bool open() const { return open_; }

 private:
  void close() {
    open_ = false;
    std::printf("%s: closed, nothing heard\n", peer_.c_str());
  }

  std::string peer_;
  bool open_ = true;
  carillon::IdleMonitor::Item idle_;  // ends the watch when the connection goes
};

}  // namespace

int main() {
  carillon::ManualDriver time;
  carillon::Timer timer(time.options());
  carillon::IdleMonitor monitor(timer);

  Connection alice(monitor, "alice", 30s);
  Connection bob(monitor, "bob", 30s);
  Connection carol(monitor, "carol", 5min);  // a timeout of her own

  for (int second = 0; second < 120; ++second) {
    time.advance(1s);
    alice.on_packet();
    if (second == 60) {
      carol.on_packet();
    }
  }
  std::printf("after two minutes: alice %s, bob %s, carol %s\n", alice.open() ? "open" : "closed",
              bob.open() ? "open" : "closed", carol.open() ? "open" : "closed");
  std::printf("watched: %zu\n", monitor.size());
}
