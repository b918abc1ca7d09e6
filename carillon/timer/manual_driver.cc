// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/manual_driver.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/timer/internal/core.h"

namespace carillon {

struct ManualDriver::State {
  explicit State(Instant start) : clock(start) {}

  ManualClock clock;
  std::atomic<bool> advancing{false};
  // Counts what is scheduled; wait_until_armed() sleeps on it.
  std::atomic<std::uint32_t> armed{0};
  std::mutex mutex;
  std::vector<internal::Core*> cores;  // Under the mutex, in the order in which they were made.
};

ManualDriver::ManualDriver(Instant start) : state_(std::make_unique<State>(start)) {}

ManualDriver::~ManualDriver() {
  CARILLON_CHECK(state_->cores.empty(), state_->cores.size(), " Timers outlive their driver");
}

TimerOptions ManualDriver::options(TimerOptions base) {
  base.custom_clock = &state_->clock;
  base.manual = this;
  return base;
}

TimerOptions ManualDriver::options() { return options(TimerOptions{}); }

Instant ManualDriver::now() const noexcept { return state_->clock.now(); }
const Clock& ManualDriver::clock() const noexcept { return state_->clock; }

void ManualDriver::advance(Span span) {
  CARILLON_CHECK(span >= Span::zero(), "time goes forward, not by ", span.count(), " ns");
  advance_to(saturating_add(now(), span));
}

void ManualDriver::advance_to(Instant to) {
  CARILLON_CHECK(!state_->advancing.exchange(true), "advance() in a callback or beside another");
  // A callback may destroy a Timer, so each is held while it is looked at.
  const auto for_each = [this](auto&& visit) {
    std::vector<internal::Core*> cores;
    {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      cores = state_->cores;
    }
    for (internal::Core* core : cores) {
      {
        const std::lock_guard<std::mutex> lock(state_->mutex);
        if (std::find(state_->cores.begin(), state_->cores.end(), core) == state_->cores.end()) {
          continue;
        }
        core->holds.fetch_add(1);
      }
      visit(*core);
      core->drop_hold();
    }
  };
  for (;;) {
    std::optional<Instant> next;
    for_each([&](internal::Core& core) {
      const std::optional<Tick> tick = core.first_due();
      if (tick && (!next || core.begin_of(*tick) < *next)) {
        next = core.begin_of(*tick);
      }
    });
    if (!next || *next > to) {
      break;
    }
    if (*next > now()) {
      state_->clock.advance_to(*next);
    }
    for_each([&](internal::Core& core) {
      core.poll(now());
      core.await_idle();
      core.await_room();
    });
  }
  state_->clock.advance_to(std::max(to, now()));
  state_->advancing.store(false);
}

void ManualDriver::wait_until_armed(std::size_t count) {
  for (;;) {
    const std::uint32_t seen = state_->armed.load();
    std::size_t pending = 0;
    {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      for (internal::Core* core : state_->cores) {
        for (std::size_t i = 0; i < core->all_shards; ++i) {
          pending += core->shards[i].pending();
        }
      }
    }
    if (pending >= count) {
      return;
    }
    internal::futex_wait(state_->armed, seen);
  }
}

void ManualDriver::add(internal::Core& core) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->cores.push_back(&core);
}

void ManualDriver::remove(internal::Core& core) noexcept {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  std::erase(state_->cores, &core);
}

void ManualDriver::on_armed() noexcept {
  state_->armed.fetch_add(1);
  internal::futex_wake_all(state_->armed);
}

}  // namespace carillon
