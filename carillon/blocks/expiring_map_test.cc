// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/expiring_map.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "carillon/timer/manual_driver.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Strings = ExpiringMap<std::string, std::string>;
using Numbers = ExpiringMap<int, int>;

TEST(ExpiringMap, AnEntryIsSeenUntilItsDeadlineToTheNanosecond) {
  ManualClock clock(Instant(hours(1)));
  Strings map({.ttl = seconds(10), .clock = &clock});
  clock.advance(milliseconds(3));
  EXPECT_TRUE(map.put("a", "1"));
  EXPECT_TRUE(map.put("b", "2", seconds(20)));
  clock.advance(seconds(10) - Span(1));
  EXPECT_EQ(map.get("a"), "1");
  clock.advance(Span(1));
  EXPECT_EQ(map.get("a"), std::nullopt);
  EXPECT_FALSE(map.touch("a"));
  EXPECT_FALSE(map.with("a", [](std::string&) { FAIL(); }));
  EXPECT_EQ(map.take("a"), std::nullopt);
  EXPECT_EQ(map.get("b"), "2");
  EXPECT_EQ(map.size(), 2U) << "it is not removed yet";
  clock.advance(milliseconds(7));  // To the next tick of the wheel.
  EXPECT_EQ(map.expire(10), 1U);
  EXPECT_EQ(map.size(), 1U);
}

TEST(ExpiringMap, PutReplacesValueAndLife) {
  ManualClock clock;
  Strings map({.ttl = seconds(10), .clock = &clock});
  map.put("a", "1");
  EXPECT_FALSE(map.put("a", "2", seconds(30)));
  clock.advance(seconds(20));
  EXPECT_EQ(map.get("a"), "2");
  EXPECT_FALSE(map.put("a", "3", seconds(1)));
  clock.advance(seconds(1));
  EXPECT_EQ(map.get("a"), std::nullopt);
  EXPECT_TRUE(map.put("a", "4")) << "what has expired is no entry";
  EXPECT_EQ(map.get("a"), "4");
  EXPECT_EQ(map.size(), 1U);
}

TEST(ExpiringMap, TakesAndErases) {
  ManualClock clock;
  ExpiringMap<int, std::unique_ptr<int>> map({.clock = &clock});  // Values that cannot be copied.
  map.put(1, std::make_unique<int>(11));
  map.put(2, std::make_unique<int>(22));
  EXPECT_EQ(*map.take(1).value(), 11);
  EXPECT_FALSE(map.erase(1));
  EXPECT_TRUE(map.with(2, [](std::unique_ptr<int>& value) { *value += 1; }));
  EXPECT_EQ(*map.take(2).value(), 23);
  EXPECT_EQ(map.size(), 0U);
  clock.advance(hours(24 * 365 * 200));
  map.put(3, std::make_unique<int>(1));
  EXPECT_TRUE(map.touch(3));
}

TEST(ExpiringMap, ATouchIsAnotherLife) {
  for (const bool on_get : {false, true}) {
    ManualClock clock;
    Numbers map({.ttl = seconds(10), .touch_on_get = on_get, .clock = &clock});
    map.put(1, 1);
    map.put(2, 2, seconds(15));
    for (int i = 0; i < 5; ++i) {
      clock.advance(seconds(9));
      EXPECT_EQ(map.touch(1), true);
      if (on_get) {
        EXPECT_EQ(map.get(2), 2);
      }
    }
    map.expire(100);
    EXPECT_EQ(map.get(1), 1);
    EXPECT_EQ(map.get(2).has_value(), on_get);
    clock.advance(seconds(15));
    map.expire(100);
    EXPECT_EQ(map.size(), 0U);
  }
}

TEST(ExpiringMap, NoTimeToLiveIsNoEntry) {
  ManualClock clock;
  Numbers map({.clock = &clock});
  EXPECT_TRUE(map.put(1, 1, Span::zero()));
  map.put(2, 2);
  EXPECT_FALSE(map.put(2, 2, seconds(-1)));
  EXPECT_EQ(map.size(), 0U);
}

TEST(ExpiringMap, TheTimerRemovesInTimeAndSleepsOtherwise) {
  ManualDriver time;
  Timer timer(time.options());
  std::vector<std::pair<std::string, Span>> removed;
  const Instant start = time.now();
  Strings map(timer, {.ttl = minutes(30),
                      .on_removed = [&](const std::string& key, std::string& value, Removal why) {
                        EXPECT_EQ(value, "of " + key);
                        EXPECT_EQ(why, Removal::kExpired);
                        removed.emplace_back(key, time.now() - start);
                      }});
  time.advance(hours(1));
  EXPECT_EQ(timer.stats().wakeups, 0U);
  const Instant put = time.now();
  map.put("half an hour", "of half an hour");
  map.put("a second", "of a second", seconds(1));
  time.advance(minutes(20));
  // Its place in the wheel is after that of the first, its deadline before.
  map.put("nine minutes", "of nine minutes", minutes(9));
  time.advance(hours(1));
  ASSERT_EQ(removed.size(), 3U);
  const std::vector<std::pair<std::string, Span>> expected{
      {"a second", seconds(1)}, {"nine minutes", minutes(29)}, {"half an hour", minutes(30)}};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(removed[i].first, expected[i].first);
    EXPECT_GE(removed[i].second, put - start + expected[i].second);
    EXPECT_LE(removed[i].second, put - start + expected[i].second + milliseconds(11));
  }
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_LT(timer.stats().wakeups, 30U);
}

TEST(ExpiringMap, AFullMapEvictsWhatIsNotUsed) {
  ManualClock clock;
  std::vector<int> evicted;
  Numbers map({.max_size = 100,
               .on_removed =
                   [&](const int& key, int&, Removal why) {
                     EXPECT_EQ(why, Removal::kEvicted);
                     evicted.push_back(key);
                   },
               .shards = 1,
               .clock = &clock});
  for (int key = 0; key < 1000; ++key) {
    map.put(key, key);
    ASSERT_LE(map.size(), 100U);
    for (int used = 0; used < 10; ++used) {
      ASSERT_EQ(map.get(used).has_value(), used <= key) << "those in use stay";
    }
  }
  EXPECT_EQ(map.size(), 100U);
  EXPECT_EQ(evicted.size(), 900U);
}

TEST(ExpiringMap, AMapOfOneEntry) {
  ManualClock clock;
  Numbers map({.max_size = 1, .clock = &clock});
  map.put(1, 1);
  map.put(2, 2);
  EXPECT_EQ(map.size(), 1U);
  EXPECT_EQ(map.get(2), 2);
}

TEST(ExpiringMap, WhatHasExpiredMakesRoomBeforeAnythingIsEvicted) {
  ManualClock clock;
  std::map<Removal, int> removed;
  Numbers map({.ttl = seconds(1),
               .max_size = 100,
               .on_removed = [&](const int&, int&, Removal why) { ++removed[why]; },
               .shards = 1,
               .clock = &clock});
  for (int key = 0; key < 100; ++key) {
    map.put(key, key);
  }
  clock.advance(seconds(2));
  for (int key = 100; key < 200; ++key) {
    map.put(key, key);
  }
  EXPECT_EQ(removed[Removal::kExpired], 100);
  EXPECT_EQ(removed[Removal::kEvicted], 0);
}

TEST(ExpiringMap, CallbacksMayUseTheMap) {
  ManualDriver time;
  Timer timer(time.options());
  Numbers* self = nullptr;
  int removed = 0;
  Numbers map(timer, {.ttl = seconds(1), .on_removed = [&](const int& key, int& value, Removal) {
                        EXPECT_EQ(self->get(key), std::nullopt);
                        ++removed;
                        if (value < 5) {
                          self->put(key, value + 1);
                        }
                      }});
  self = &map;
  map.put(1, 0);
  time.advance(seconds(10));
  EXPECT_EQ(removed, 6);
  EXPECT_EQ(map.size(), 0U);
}

// F21 and issue of herds: what is put together does not expire together.
// By what is put: there is nobody else.
TEST(ExpiringMapStory, WithATimerThatIsStoppedOrFullItDoesNotGrow) {
  for (const bool stopped : {true, false}) {
    ManualDriver time;
    TimerOptions options;
    options.max_pending = 4;
    Timer timer(time.options(options));
    Numbers map(timer, {.ttl = milliseconds(10)});
    if (stopped) {
      map.put(-1, 0);
      timer.stop();
    }
    while (timer.after(hours(1000), [] {})) {
    }
    for (int key = 0; key < 20'000; ++key) {
      map.put(key, key);
      time.advance(milliseconds(1));
    }
    EXPECT_LT(map.size(), 2000U);
    EXPECT_EQ(map.get(19'999), 19'999);
  }
}

TEST(ExpiringMapStory, InATimerThatIsFullEntriesAreRemovedInTime) {
  ManualDriver time;
  TimerOptions options;
  options.max_pending = 4;
  Timer timer(time.options(options));
  int removed = 0;
  const auto fill = [&](int, int&, Removal) {
    ++removed;
    while (timer.after(hours(1000), [] {})) {
    }
  };
  Numbers map(timer, {.on_removed = fill});
  for (int key = 1; key <= 100; ++key) {
    map.put(key, key, minutes(key));
  }
  const Instant start = time.now();
  for (int key = 1; key <= 100; ++key) {
    time.advance_to(start + minutes(key) - Span(1));
    EXPECT_EQ(removed, key - 1);
    time.advance_to(start + minutes(key) + milliseconds(20));
    EXPECT_EQ(removed, key);
  }
}

TEST(ExpiringMap, KeysThatHashAlikeAreToldApart) {
  struct Constant {
    std::size_t operator()(int) const { return 42; }
  };
  ManualDriver time;
  Timer timer(time.options());
  int removed = 0;
  const auto count = [&](int, int&, Removal) { ++removed; };
  ExpiringMap<int, int, Constant> map(
      timer, {.ttl = seconds(1), .max_size = 200, .on_removed = count, .shards = 1});
  for (int key = 0; key < 1000; ++key) {
    map.put(key, key);
    EXPECT_EQ(map.get(key), key);
  }
  EXPECT_EQ(map.size(), 200U);
  EXPECT_EQ(removed, 800);
  time.advance(seconds(2));
  EXPECT_EQ(map.size(), 0U);
  EXPECT_EQ(removed, 1000);
}

TEST(ExpiringMap, OptionsAtTheEdges) {
  for (const Span resolution : {Span::min(), Span(0), Span(1), kForever}) {
    SCOPED_TRACE(resolution.count());
    ManualDriver time;
    Timer timer(time.options());
    Numbers map(timer, {.ttl = seconds(1), .resolution = resolution, .budget = 0, .shards = 0});
    map.put(1, 1);
    map.put(2, 2, kForever);
    map.put(3, 3, kForever - Span(1));
    map.put(4, 4, Instant::max() - time.now() - Span(1));
    map.put(5, 5, Span(1));
    EXPECT_FALSE(map.put(5, 5, Span::min()));
    time.advance(seconds(1));
    EXPECT_EQ(map.get(1), std::nullopt);
    time.advance(hours(2));
    EXPECT_EQ(map.size(), 3U);
  }
}

TEST(ExpiringMapStory, SpreadLivesEndOverATenthOfTheTtl) {
  ManualDriver time;
  Timer timer(time.options());
  std::vector<int> in_second(12);
  const Instant start = time.now();
  Numbers map(timer,
              {.ttl = seconds(100), .spread = 0.1, .on_removed = [&](const int&, int&, Removal) {
                 const Span age = time.now() - start;
                 ASSERT_GE(age, seconds(100));
                 ++in_second[static_cast<std::size_t>((age - seconds(100)) / seconds(1))];
               }});
  for (int key = 0; key < 10'000; ++key) {
    map.put(key, key);
  }
  time.advance(seconds(120));
  for (int second = 0; second < 10; ++second) {
    EXPECT_NEAR(in_second[static_cast<std::size_t>(second)], 1000, 160);
  }
  EXPECT_EQ(map.size(), 0U);
}

// D5 for this map: a million expire at one instant. The Timer takes out 4096 a tick, others run in
// between, and what has expired is not seen meanwhile.
TEST(ExpiringMapStory, AMillionExpireAtOnceInPieces) {
  constexpr int kCount = 1'000'000;
  ManualDriver time;
  Timer timer(time.options());
  std::map<Instant, int> in_tick;
  int removed = 0;
  Numbers map(timer, {.ttl = seconds(60), .on_removed = [&](const int&, int&, Removal) {
                        ++removed;
                        ++in_tick[time.now()];
                      }});
  for (int key = 0; key < kCount; ++key) {
    map.put(key, key);
  }
  time.advance(seconds(60) - milliseconds(1));
  EXPECT_EQ(removed, 0);
  EXPECT_EQ(map.size(), static_cast<std::size_t>(kCount));
  time.advance(milliseconds(50));
  EXPECT_GT(removed, 0);
  EXPECT_LT(removed, kCount);
  for (int key = 0; key < kCount; key += 1000) {
    ASSERT_EQ(map.get(key), std::nullopt);
  }
  EXPECT_TRUE(map.put(-1, 1));
  time.advance(seconds(1));
  EXPECT_EQ(removed, kCount);
  EXPECT_EQ(map.size(), 1U);
  for (const auto& [at, count] : in_tick) {
    EXPECT_LE(count, 4096);
  }
}

// The same without a Timer: put() does four at most.
TEST(ExpiringMapStory, APutRemovesFourOfAHerdAtMost) {
  ManualClock clock;
  int removed = 0;
  Numbers map({.ttl = seconds(60),
               .on_removed = [&](const int&, int&, Removal) { ++removed; },
               .clock = &clock});
  for (int key = 0; key < 20'000; ++key) {
    map.put(key, key);
  }
  clock.advance(seconds(100));
  for (int key = 20'000; key < 40'000; ++key) {
    const int before = removed;
    map.put(key, key);
    ASSERT_LE(removed, before + 4);
  }
  EXPECT_EQ(removed, 20'000);
}

// D2.
TEST(ExpiringMapStory, AValueIsDestroyedWhenItsEntryIsErasedOrReplaced) {
  ManualClock clock;
  ExpiringMap<int, std::shared_ptr<int>> map({.ttl = hours(1), .clock = &clock});
  const auto payload = std::make_shared<int>(1);
  map.put(1, payload);
  EXPECT_EQ(payload.use_count(), 2);
  map.erase(1);
  EXPECT_EQ(payload.use_count(), 1);
  map.put(1, payload);
  map.put(1, nullptr);
  EXPECT_EQ(payload.use_count(), 1);
  map.put(1, payload);
  map.clear();
  EXPECT_EQ(payload.use_count(), 1);
}

// Against a map of deadlines: what is seen, and that each expiry is told once.
TEST(ExpiringMapProperty, AgreesWithAMapOfDeadlines) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    ManualDriver time;
    Timer timer(time.options());
    const bool timed = seed % 2 == 0;
    const bool on_get = seed % 3 == 0;
    int told = 0;
    ExpiringMapOptions<int, int> options{.ttl = seconds(5),
                                         .touch_on_get = on_get,
                                         .on_removed = [&](const int&, int&, Removal) { ++told; },
                                         .resolution = milliseconds(1 + random.between(0, 50)),
                                         .budget = 1 + random.below(20),
                                         .shards = 2,
                                         .clock = &time.clock()};
    auto map =
        timed ? std::make_unique<Numbers>(timer, options) : std::make_unique<Numbers>(options);
    struct Entry {
      int value;
      Instant deadline;
      Span ttl;
    };
    std::map<int, Entry> model;
    int expired = 0;
    for (int step = 0; step < 4000; ++step) {
      time.advance(Span(random.between(0, 20'000'000)));
      const Instant now = time.now();
      expired += static_cast<int>(
          std::erase_if(model, [&](const auto& entry) { return entry.second.deadline <= now; }));
      const int key = static_cast<int>(random.below(300));
      const auto found = model.find(key);
      const bool there = found != model.end();
      switch (random.below(6)) {
        case 0:
        case 1: {
          const Span ttl(random.one_in(3) ? 1 + random.between(0, 100'000'000'000)
                                          : Span(seconds(5)).count());
          ASSERT_EQ(map->put(key, step, ttl), !there);
          model[key] = {step, now + ttl, ttl};
          break;
        }
        case 2:
          ASSERT_EQ(map->take(key), there ? std::optional(found->second.value) : std::nullopt);
          model.erase(key);
          break;
        case 3:
          ASSERT_EQ(map->touch(key), there);
          if (there) {
            found->second.deadline = std::max(found->second.deadline, now + found->second.ttl);
          }
          break;
        default:
          ASSERT_EQ(map->get(key), there ? std::optional(found->second.value) : std::nullopt);
          if (there && on_get) {
            found->second.deadline = std::max(found->second.deadline, now + found->second.ttl);
          }
      }
    }
    time.advance(hours(1));
    map->expire(1'000'000);
    EXPECT_EQ(map->size(), 0U);
    EXPECT_EQ(told, expired + static_cast<int>(model.size()));
  }
}

}  // namespace
}  // namespace carillon
