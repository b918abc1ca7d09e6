// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/timer/internal/core.h"
#include "carillon/timer/manual_driver.h"

namespace carillon::internal {
namespace {

// Has the timerfd readable at `until`; never, if that is Instant::max().
void set_timer(int fd, Instant until, int flags) noexcept {
  constexpr Span::rep kPerSecond = 1'000'000'000;
  itimerspec spec{};
  if (until != Instant::max()) {
    // All zero would be never.
    const Span::rep nanos = std::max<Span::rep>(until.time_since_epoch().count(), 1);
    spec.it_value.tv_sec = nanos / kPerSecond;
    spec.it_value.tv_nsec = nanos % kPerSecond;
  }
  timerfd_settime(fd, TFD_TIMER_ABSTIME | flags, &spec, nullptr);
}

// Has it readable when somebody sets the calendar.
void watch_calendar(int fd) noexcept {
  constexpr Instant kSomeDay{std::chrono::hours(24 * 365 * 200)};
  set_timer(fd, kSomeDay, TFD_TIMER_CANCEL_ON_SET);
}

}  // namespace

void Core::wake() noexcept {
  epoch.fetch_add(1);
  if (fd.load() >= 0) {
    set_fd(Instant(Span(1)));
    return;
  }
  // Sequentially consistent, as in sleep_until(): either it sees that the epoch has moved, or this
  // sees that it sleeps.
  if (asleep.load() != 0) {
    futex_wake_all(epoch);
  }
}

// Others whose deadline is later need not wake the driver then: it will look at all of them.
void Core::wake_for(Tick deadline) noexcept {
  if (manual != nullptr) {
    manual->on_armed();
    return;
  }
  Tick before = wake_before.load(std::memory_order_acquire);
  do {
    if (deadline >= before) {
      return;
    }
  } while (!wake_before.compare_exchange_weak(before, deadline, std::memory_order_acq_rel));
  wake();
}

void Core::ensure_started() {
  const std::lock_guard<std::mutex> lock(life->mutex);
  if (life->stopped || life->driver.joinable()) {
    return;
  }
  if (!life->executor) {
    life->executor = std::make_shared<ThreadPoolExecutor>(life->options.pool);
  }
  // Here its failure can be told; later there is nobody to tell it.
  life->executor->prepare();
  if (custom_clock != nullptr) {
    return;
  }
  holds.fetch_add(1);
  try {
    if (clock_kind != ClockKind::kSteady) {
      open_fd();
    }
    life->driver = std::thread([this] { drive(); });
  } catch (...) {
    holds.fetch_sub(1);
    throw;
  }
}

void Core::drive() noexcept {
  life->driver_id = std::this_thread::get_id();
  constexpr std::size_t kLongestName = 15;
  pthread_setname_np(pthread_self(), life->options.thread_name.substr(0, kLongestName).c_str());
  if (const int cpu = life->options.cpu; cpu >= 0 && cpu < CPU_SETSIZE) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(cpu), &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  }
  // By so much the kernel may let the thread oversleep; its default is 50 us.
  prctl(PR_SET_TIMERSLACK, std::clamp<std::uint64_t>(tick_ns / 20, 1, 50'000));

  // The earliest deadline that the driver was woken for. It sleeps no longer than until then, even
  // if that timer has been cancelled meanwhile: otherwise a program that schedules and cancels
  // would wake it each time, and now for one of these deadlines it wakes once for nothing.
  Tick promised = kAlways;
  Tick published = kAlways;
  const auto publish = [&](Tick value) {
    // What stood there is lower if a producer has had the driver woken.
    if (const Tick before = wake_before.exchange(value); before != published) {
      promised = std::min(promised, before);
    }
    published = value;
  };
  while (!quit.load(std::memory_order_acquire)) {
    const std::uint32_t epoch_seen = epoch.load();
    publish(kAlways);
    Tick next = kNever;
    Tick until = kLastTick;
    const Tick present = reached(now());
    if (promised <= present) {
      promised = kAlways;
    }
    try {
      next = turn(present);
      if (next != kNever) {
        until = next = std::min(next, promised);
      }
    } catch (const std::bad_alloc&) {
      until = present + 1;  // Nothing is lost; perhaps there is memory then.
    } catch (const std::system_error&) {
      until = present + 1;  // Of the executor; perhaps it can start a thread then.
    }
    publish(next);
    sleep_until(until, epoch_seen);
  }
  life->batch.clear();
  drop_hold();
}

void Core::poll(Instant now) {
  CARILLON_CHECK(!in_callback(), "poll() in a callback of the same Timer");
  life->driver_id = std::this_thread::get_id();
  holds.fetch_add(1);
  std::uint32_t epoch_seen = epoch.load();
  wake_before.store(kAlways);
  Tick next = kAlways;
  try {
    next = turn(reached(now));
  } catch (...) {
    drop_hold();
    throw;
  }
  if (epoch.load() != epoch_seen && next != kNever) {
    // Mostly by callbacks that ran in this, and have scheduled something: it is found by another
    // look, and is no reason to be polled again.
    epoch_seen = epoch.load();
    wake_before.store(kAlways);
    next = paused.load() ? kNever : first_due().value_or(kLastTick);
  }
  if (manual == nullptr) {
    wake_before.store(next);
  }
  if (fd.load() >= 0) {
    set_fd(next == kNever ? Instant::max() : begin_of(next));
    if (epoch.load() != epoch_seen) {
      set_fd(Instant(Span(1)));
    }
  }
  if (quit.load()) {
    life->batch.clear();
  }
  life->driver_id = std::thread::id();
  drop_hold();
}

Tick Core::turn(Tick now) {
  TimerLife& mine = *life;
  const Instant began = now_or_later();
  look_at_calendar();
  const Tick next = hand_over_due(now);
  mine.driver_work.add(std::max(now_or_later() - began, Span::zero()));
  return next;
}

Tick Core::hand_over_due(Tick now) {
  TimerLife& mine = *life;
  if (paused.load() || !hand_over()) {
    return kNever;
  }
  for (std::size_t i = 0; i < all_shards; ++i) {
    mine.next[i] = shards[i].next_deadline(now);
  }
  for (;;) {
    // A tick at a time, so that what is due is handed over in order, whatever shard it is in.
    Tick first = kLastTick;
    for (std::size_t i = 0; i < all_shards; ++i) {
      first = std::min(first, mine.next[i].value_or(kLastTick));
    }
    if (first > now || quit.load(std::memory_order_acquire)) {
      return first;
    }
    for (std::size_t i = 0; i < all_shards; ++i) {
      if (mine.next[i] != first || mine.batch.size() >= mine.options.batch) {
        continue;
      }
      if (!shards[i].take_due(first, mine.options.batch - mine.batch.size(), mine.batch)) {
        mine.next[i] = shards[i].next_deadline(now);
      }
    }
    if (!hand_over() || paused.load()) {
      return kNever;
    }
  }
}

std::optional<Tick> Core::first_due() {
  if (paused.load()) {
    return std::nullopt;
  }
  if (!life->batch.empty()) {
    return no_room.load() ? std::nullopt : std::optional<Tick>(0);
  }
  std::optional<Tick> first;
  for (std::size_t i = 0; i < all_shards; ++i) {
    const std::optional<Tick> next = shards[i].next_deadline(0);
    if (next && (!first || *next < *first)) {
      first = next;
    }
  }
  return first;
}

// Hands over the batch; false if the executor has no room for all of it.
bool Core::hand_over() {
  TimerLife& mine = *life;
  while (mine.handed_over < mine.batch.size()) {
    const std::span<Firing> rest = std::span(mine.batch).subspan(mine.handed_over);
    // Before it is asked: it may say that there is room again before it has answered.
    no_room.store(true);
    std::size_t taken = 0;
    try {
      taken = mine.executor->try_execute(rest, *this);
    } catch (...) {
      no_room.store(false);
      throw;
    }
    mine.handed_over += taken;
    if (taken < rest.size()) {
      executor_full.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    no_room.store(false);
  }
  mine.batch.clear();
  mine.handed_over = 0;
  return true;
}

void Core::sleep_until(Tick tick, std::uint32_t epoch_seen) noexcept {
  const Instant until = tick == kLastTick ? Instant::max() : begin_of(tick);
  asleep.store(1);
  const int timer_fd = fd.load();
  if (timer_fd >= 0) {
    set_fd(until);
  }
  if (epoch.load() == epoch_seen) {
    if (timer_fd >= 0) {
      pollfd polled[] = {{timer_fd, POLLIN, 0}, {life->calendar_fd, POLLIN, 0}};
      ::poll(polled, life->calendar_fd >= 0 ? 2 : 1, -1);
    } else {
      futex_wait(epoch, epoch_seen, until);
    }
    wakeups.fetch_add(1, std::memory_order_relaxed);
  }
  asleep.store(0, std::memory_order_relaxed);
}

// ------------------------------------------------------------------------------ other clocks

// The kernel wakes a futex by CLOCK_MONOTONIC only, so for others there is a timerfd.
void Core::open_fd() {
  const bool steady = clock_kind == ClockKind::kSteady;
  int& kept = kept_fds[steady ? 0 : 1];
  if (kept < 0) {
    kept = timerfd_create(steady ? CLOCK_MONOTONIC : CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (kept < 0) {
      throw std::system_error(errno, std::generic_category(), "timerfd_create");
    }
  }
  set_timer(kept, Instant::max(), 0);
  if (clock_kind == ClockKind::kWall && custom_calendar == nullptr && life->calendar_fd < 0) {
    life->calendar_fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (life->calendar_fd < 0) {
      throw std::system_error(errno, std::generic_category(), "timerfd_create");
    }
    watch_calendar(life->calendar_fd);
  }
  fd.store(kept);
}

void Core::set_fd(Instant until) const noexcept { set_timer(fd.load(), until, 0); }

int Core::poll_fd() {
  if (fd.load() < 0 && manual == nullptr) {
    open_fd();
    wake();
  }
  return fd.load();
}

void Core::look_at_calendar() {
  if (clock_kind != ClockKind::kWall) {
    return;
  }
  bool moved = false;
  if (life->calendar_fd >= 0) {
    std::uint64_t expirations = 0;
    moved = ::read(life->calendar_fd, &expirations, sizeof(expirations)) < 0 && errno == ECANCELED;
    if (moved) {
      watch_calendar(life->calendar_fd);
    }
  } else {
    // Two clocks of the system are not read at the same instant.
    const Span tolerance = custom_calendar != nullptr ? Span::zero() : Span(tick_ns / 2);
    const Span offset = wall_now().time_since_epoch() - now().time_since_epoch();
    const Span step = offset - life->calendar_offset;
    moved = step > tolerance || step < -tolerance;
    if (moved) {
      life->calendar_offset = offset;
    }
  }
  if (moved) {
    shards[shard_count].follow_calendar();
  }
}

TimerLife::~TimerLife() {
  if (calendar_fd >= 0) {
    ::close(calendar_fd);
  }
}

}  // namespace carillon::internal
