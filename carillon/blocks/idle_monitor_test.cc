// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/idle_monitor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/timer/manual_driver.h"
#include "carillon/timer/timer_fixture.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// 2.5 resolutions and four ticks of the Timer.
constexpr Span kLatest = milliseconds(254);

struct Monitored {
  ManualDriver time;
  Timer timer{time.options()};
  IdleMonitor monitor{timer};
};

TEST(IdleMonitor, CallsOnceWhenSilentForTheTimeout) {
  Monitored m;
  const Instant start = m.time.now();
  std::vector<Span> idle;
  const auto item = m.monitor.watch(seconds(30), [&] { idle.push_back(m.time.now() - start); });
  EXPECT_TRUE(item.watched());
  EXPECT_EQ(m.monitor.size(), 1U);
  m.time.advance(minutes(10));
  ASSERT_EQ(idle.size(), 1U);
  EXPECT_GE(idle[0], seconds(30));
  EXPECT_LE(idle[0], seconds(30) + kLatest);
  EXPECT_FALSE(item.watched());
  EXPECT_EQ(m.monitor.size(), 0U);
}

TEST(IdleMonitor, ATouchedItemIsNotIdle) {
  Monitored m;
  int idle = 0;
  auto item = m.monitor.watch(seconds(1), [&] { ++idle; });
  for (int i = 0; i < 100; ++i) {
    m.time.advance(milliseconds(999));
    item.touch();
  }
  EXPECT_EQ(idle, 0);
  const Instant last = m.time.now();
  while (idle == 0) {
    m.time.advance(milliseconds(1));
  }
  EXPECT_GE(m.time.now() - last, seconds(1));
  EXPECT_LE(m.time.now() - last, seconds(1) + kLatest);
}

TEST(IdleMonitor, ATouchThatWasHeldUpTakesNoLaterOneBack) {
  std::atomic<std::int64_t> touched{0};
  internal::note_touch(touched, 50);
  internal::note_touch(touched, 20);  // Has read the time before.
  EXPECT_EQ(touched, 50);
  internal::note_touch(touched, 51);
  EXPECT_EQ(touched, 51);
}

TEST(IdleMonitor, EachItemHasATimeoutOfItsOwn) {
  Monitored m;
  std::vector<int> order;
  std::vector<IdleMonitor::Item> items;
  for (const int timeout : {300, 10, 60, 1}) {
    items.push_back(m.monitor.watch(seconds(timeout), [&, timeout] { order.push_back(timeout); }));
  }
  EXPECT_TRUE(items[0].set_timeout(seconds(5)));    // Shorter.
  EXPECT_TRUE(items[1].set_timeout(seconds(100)));  // Longer.
  m.time.advance(seconds(1) + kLatest);
  EXPECT_EQ(order, (std::vector<int>{1}));
  EXPECT_FALSE(items[3].set_timeout(seconds(9)));
  m.time.advance(seconds(4));
  EXPECT_EQ(order, (std::vector<int>{1, 300}));
  m.time.advance(hours(1));
  EXPECT_EQ(order, (std::vector<int>{1, 300, 60, 10}));
}

TEST(IdleMonitor, TimeoutsAtTheEdges) {
  Monitored m;
  int idle = 0;
  const auto none = m.monitor.watch(Span::zero(), [&] { ++idle; });
  const auto negative = m.monitor.watch(Span::min(), [&] { ++idle; });
  const auto never = m.monitor.watch(kForever, [&] { idle += 100; });
  m.time.advance(kLatest);
  EXPECT_EQ(idle, 2);
  m.time.advance(hours(1));
  EXPECT_EQ(idle, 2);
  EXPECT_TRUE(never.watched());
}

TEST(IdleMonitor, ACancelledItemIsNotCalled) {
  Monitored m;
  auto item = m.monitor.watch(seconds(1), [] { FAIL(); });
  auto destroyed = m.monitor.watch(seconds(1), [] { FAIL(); });
  auto replaced = m.monitor.watch(seconds(1), [] { FAIL(); });
  EXPECT_EQ(item.cancel(), CancelResult::kCancelled);
  EXPECT_EQ(item.cancel(), CancelResult::kNotFound);
  destroyed = {};
  int idle = 0;
  replaced = m.monitor.watch(seconds(1), [&] { ++idle; });
  EXPECT_FALSE(destroyed);
  destroyed.touch();
  EXPECT_EQ(destroyed.cancel(), CancelResult::kNotFound);
  EXPECT_EQ(m.monitor.size(), 1U);
  m.time.advance(minutes(1));
  EXPECT_EQ(idle, 1);
}

TEST(IdleMonitor, ACallbackMayDoAnythingButDestroyTheMonitor) {
  Monitored m;
  std::vector<IdleMonitor::Item> items(4);
  std::vector<int> called;
  items[0] = m.monitor.watch(seconds(1), [&] {
    called.push_back(0);
    EXPECT_EQ(items[0].cancel(), CancelResult::kRunning);
    EXPECT_EQ(items[1].cancel(), CancelResult::kCancelled) << "due as well, and not begun";
    items[2] = {};
    items[0] = m.monitor.watch(seconds(1), [&] {
      called.push_back(9);
      items.clear();  // Itself included.
    });
  });
  items[1] = m.monitor.watch(seconds(1), [&] { called.push_back(1); });
  items[2] = m.monitor.watch(seconds(1), [&] { called.push_back(2); });
  items[3] = m.monitor.watch(seconds(1), [&] { called.push_back(3); });
  m.time.advance(minutes(1));
  EXPECT_EQ(called, (std::vector<int>{0, 3, 9}));
  EXPECT_EQ(m.monitor.size(), 0U);
}

TEST(IdleMonitor, WhatACallbackThrowsKeepsNobodyElseFromRunning) {
  ManualDriver time;
  int thrown = 0;
  TimerOptions options;
  options.on_exception = [&](const std::exception_ptr&) { ++thrown; };
  Timer timer(time.options(options));
  IdleMonitor monitor(timer);
  int called = 0;
  std::vector<IdleMonitor::Item> items;
  for (int i = 0; i < 10; ++i) {
    items.push_back(monitor.watch(seconds(1), [&, i] {
      ++called;
      if (i % 2 == 0) {
        throw std::runtime_error("no");
      }
    }));
  }
  time.advance(seconds(2));
  EXPECT_EQ(called, 10);
  EXPECT_EQ(thrown, 5);
}

TEST(IdleMonitor, BeyondTheLimitItRefuses) {
  ManualDriver time;
  Timer timer(time.options());
  IdleMonitor monitor(timer, {.max_items = 2});
  auto one = monitor.watch(seconds(1), [] {});
  auto two = monitor.watch(seconds(1), [] {});
  EXPECT_FALSE(monitor.watch(seconds(1), [] {}));
  one = {};
  EXPECT_TRUE(monitor.watch(seconds(1), [] {}));
}

TEST(IdleMonitor, WatchesInATimerThatIsFullOrRefuses) {
  ManualDriver time;
  TimerOptions options;
  options.max_pending = 5;
  Timer timer(time.options(options));
  const auto fill = [&] {
    while (timer.after(hours(1), [] {})) {
    }
  };
  IdleMonitor monitor(timer);
  int calls = 0;
  const auto on_idle = [&] {
    ++calls;
    fill();
  };
  const IdleMonitor::Item first = monitor.watch(seconds(1), on_idle);
  const IdleMonitor::Item second = monitor.watch(seconds(2), on_idle);
  const IdleMonitor::Item third = monitor.watch(seconds(30), on_idle);
  fill();
  time.advance(minutes(1));
  EXPECT_EQ(calls, 3);
  fill();
  const IdleMonitor::Item refused = monitor.watch(seconds(1), on_idle);
  EXPECT_FALSE(refused);
  EXPECT_EQ(monitor.size(), 0U);
  time.advance(hours(1));
  const IdleMonitor::Item later = monitor.watch(seconds(1), on_idle);
  EXPECT_TRUE(later);
  time.advance(seconds(2));
  EXPECT_EQ(calls, 4);
  timer.stop();
  EXPECT_FALSE(monitor.watch(seconds(1), on_idle));
}

TEST(IdleMonitor, ResolutionsAtTheEdges) {
  for (const Span resolution : {Span::min(), Span(-1), Span(0), Span(1), kForever}) {
    SCOPED_TRACE(resolution.count());
    ManualDriver time;
    Timer timer(time.options());
    IdleMonitor monitor(timer, {.resolution = resolution, .budget = 0});
    int calls = 0;
    const IdleMonitor::Item item = monitor.watch(seconds(1), [&] { ++calls; });
    time.advance(resolution == kForever ? hours(4) : seconds(2));
    EXPECT_EQ(calls, 1);
  }
}

TEST(IdleMonitor, AnItemMayOutliveTheMonitor) {
  ManualDriver time;
  Timer timer(time.options());
  const auto payload = std::make_shared<int>(1);
  IdleMonitor::Item item;
  {
    IdleMonitor monitor(timer);
    item = monitor.watch(seconds(1), [payload] { FAIL(); });
    EXPECT_EQ(payload.use_count(), 2);
  }
  EXPECT_EQ(payload.use_count(), 1);
  item.touch();
  EXPECT_FALSE(item.watched());
  EXPECT_EQ(item.cancel(), CancelResult::kNotFound);
  time.advance(minutes(1));
}

TEST(IdleMonitor, WithoutItemsItDoesNotWake) {
  Monitored m;
  m.time.advance(hours(1));
  EXPECT_EQ(m.timer.stats().wakeups, 0U);
  auto item = m.monitor.watch(seconds(1), [] {});
  m.time.advance(seconds(2));
  EXPECT_FALSE(item.watched());
  const auto wakeups = m.timer.stats().wakeups;
  m.time.advance(hours(1));
  EXPECT_EQ(m.timer.stats().wakeups, wakeups);
  // Its time stood still meanwhile, and goes on.
  bool idle = false;
  item = m.monitor.watch(seconds(1), [&] { idle = true; });
  m.time.advance(milliseconds(999));
  EXPECT_FALSE(idle);
  m.time.advance(milliseconds(1) + kLatest);
  EXPECT_TRUE(idle);
}

// The process was stopped, the machine suspended: nobody could be heard.
TEST(IdleMonitorStory, AStallOfTheMonitorIsNobodysSilence) {
  testing::FakeTimer fake;
  IdleMonitor monitor(fake.timer);
  int idle = 0;
  auto item = monitor.watch(seconds(30), [&] { ++idle; });
  fake.advance(seconds(10));
  item.touch();
  fake.clock.advance(minutes(5));
  fake.timer.poll();
  fake.advance(milliseconds(1));
  EXPECT_EQ(idle, 0);
  item.touch();  // What had been waiting in the socket.
  fake.advance(seconds(29));
  EXPECT_EQ(idle, 0);
  fake.advance(seconds(1) + kLatest);
  EXPECT_EQ(idle, 1);
}

// D1: connections that come and go within milliseconds, with long timeouts.
TEST(IdleMonitorStory, MemoryFollowsWhatIsWatched) {
  Monitored m;
  std::vector<IdleMonitor::Item> items(100);
  for (int i = 0; i < 200'000; ++i) {
    items[static_cast<std::size_t>(i % 100)] = m.monitor.watch(seconds(300), [] { FAIL(); });
    ASSERT_LE(m.monitor.size(), 101U);
    if (i % 100 == 0) {
      m.time.advance(milliseconds(1));
    }
  }
  items.clear();
  EXPECT_EQ(m.monitor.size(), 0U);
}

// D2.
TEST(IdleMonitorStory, CancelReleasesTheCallback) {
  Monitored m;
  const auto payload = std::make_shared<int>(1);
  auto item = m.monitor.watch(hours(1), [payload] {});
  EXPECT_EQ(payload.use_count(), 2);
  EXPECT_EQ(item.cancel(), CancelResult::kCancelled);
  EXPECT_EQ(payload.use_count(), 1);
  item = m.monitor.watch(seconds(1), [payload] {});
  m.time.advance(seconds(2));
  EXPECT_EQ(payload.use_count(), 1) << "it has run";
}

// D5: a million fall silent at one instant (the network is down): in pieces.
TEST(IdleMonitorStory, AMillionFallSilentInPieces) {
  constexpr std::size_t kCount = 1'000'000;
  Monitored m;
  std::map<Instant, std::size_t> in_tick;
  std::size_t idle = 0;
  std::vector<IdleMonitor::Item> items;
  items.reserve(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    items.push_back(m.monitor.watch(seconds(30), [&] {
      ++idle;
      ++in_tick[m.time.now()];
    }));
  }
  m.time.advance(seconds(30));
  EXPECT_EQ(idle, 0U);
  // Half of them are heard after all.
  for (std::size_t i = 0; i < kCount; i += 2) {
    items[i].touch();
  }
  m.time.advance(seconds(10));
  EXPECT_EQ(idle, kCount / 2);
  for (const auto& [at, count] : in_tick) {
    EXPECT_LE(count, 2048U);
  }
  m.time.advance(seconds(30));
  EXPECT_EQ(idle, kCount);
}

// Each item is called between its timeout after the last touch and the bound, whatever happens.
TEST(IdleMonitorProperty, NeverEarlyAndNotLate) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    ManualDriver time;
    TimerOptions options;
    options.tick = milliseconds(1 + random.between(0, 20));
    Timer timer(time.options(options));
    const Span resolution = std::max<Span>(options.tick, milliseconds(random.between(1, 300)));
    IdleMonitor monitor(timer, {.resolution = resolution});
    const Span latest = resolution * 5 / 2 + 4 * options.tick;
    struct Peer {
      IdleMonitor::Item item;
      Instant last;
      Span timeout;
      bool idle = true;
    };
    std::vector<Peer> peers(40);
    int called = 0;
    for (int step = 0; step < 3000; ++step) {
      time.advance(Span(random.between(0, 40'000'000)));
      for (const Peer& peer : peers) {
        if (!peer.idle) {
          ASSERT_LE(time.now(), peer.last + peer.timeout + latest);
        }
      }
      Peer& peer = peers[random.below(peers.size())];
      if (peer.idle) {
        peer.timeout = Span(random.between(0, 10'000'000'000));
        peer.last = time.now();
        peer.idle = false;
        peer.item = monitor.watch(peer.timeout, [&] {
          ASSERT_FALSE(peer.idle);
          ASSERT_GE(time.now(), peer.last + peer.timeout);
          ASSERT_LE(time.now(), peer.last + peer.timeout + latest);
          peer.idle = true;
          ++called;
        });
      } else if (random.one_in(10)) {
        peer.item = {};
        peer.idle = true;
      } else if (random.one_in(10) && peer.timeout < seconds(9)) {
        peer.timeout += seconds(1);
        ASSERT_TRUE(peer.item.set_timeout(peer.timeout));
      } else {
        peer.item.touch();
        peer.last = time.now();
      }
    }
    EXPECT_GT(called, 20);
  }
}

}  // namespace
}  // namespace carillon
