// SPDX-License-Identifier: Apache-2.0
// Orders that are cancelled unless they are paid within 30 minutes, in the process. What the
// process knows ends with it: order_demo does the same on the server, which is killed half way.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>

#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer.h"

using namespace std::chrono_literals;

namespace {

class Orders {
 public:
  explicit Orders(carillon::Timer& timer) : timer_(timer) {}

  // The key is the order, so no handle is kept, and an order has one timeout however often it is
  // placed.
  void place(std::uint64_t order) {
    state_[order] = "open";
    timer_.keyed(order).after(30min, [this, order] { state_[order] = "cancelled, unpaid"; });
  }
  // True: in time. Then the timeout has not run and never will.
  bool pay(std::uint64_t order) {
    const bool in_time = timer_.keyed(order).cancel() == carillon::CancelResult::kCancelled;
    if (in_time) state_[order] = "paid";
    return in_time;
  }
  void print(const char* when) const {
    std::printf("%s:", when);
    for (const auto& [order, state] : state_) {
      std::printf(" order %d %s;", static_cast<int>(order), state);
    }
    std::printf("\n");
  }

 private:
  carillon::Timer& timer_;
  std::map<std::uint64_t, const char*> state_;
};

}  // namespace

int main() {
  carillon::ManualDriver time;  // so that half an hour takes no time here
  carillon::Timer timer(time.options());
  Orders orders(timer);
  orders.place(1);
  orders.place(2);
  time.advance(29min);
  std::printf("order 1 pays after 29 minutes: %s\n", orders.pay(1) ? "thank you" : "too late");
  orders.print("after 29 minutes");
  time.advance(1min);
  orders.print("after 30 minutes");
  std::printf("order 2 pays now: %s\n", orders.pay(2) ? "thank you" : "too late");
  std::printf("pending: %zu\n", timer.pending());
}
