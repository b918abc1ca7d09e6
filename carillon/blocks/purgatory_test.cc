// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/purgatory.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/timer/manual_driver.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Numbers = Purgatory<int>;

struct Waiting {
  ManualDriver time;
  Timer timer{time.options()};
  // Before the purgatory, whose end answers what is left.
  std::vector<Outcome> outcomes;
  Numbers purgatory{timer};

  [[nodiscard]] auto told() {
    return [this](Outcome outcome) { outcomes.push_back(outcome); };
  }
  void expect_nothing_left() {
    EXPECT_EQ(purgatory.watched(), 0U);
    EXPECT_EQ(purgatory.keys(), 0U);
    EXPECT_EQ(timer.pending(), 0U);
  }
};

TEST(Purgatory, WhatHoldsAlreadyIsNotWatched) {
  Waiting w;
  const auto operation = w.purgatory.watch({1}, seconds(1), [] { return true; }, w.told());
  EXPECT_EQ(w.outcomes, (std::vector{Outcome::kCompleted}));
  EXPECT_TRUE(operation.ended());
  w.expect_nothing_left();
}

TEST(Purgatory, ACheckCompletesWhatHolds) {
  Waiting w;
  int records = 0;
  const auto operation =
      w.purgatory.watch({1, 2}, seconds(1), [&] { return records >= 2; }, w.told());
  EXPECT_EQ(w.purgatory.watched(), 1U);
  EXPECT_EQ(w.purgatory.keys(), 2U);
  ++records;
  EXPECT_EQ(w.purgatory.check(1), 0U);
  ++records;
  EXPECT_EQ(w.purgatory.check(3), 0U) << "nobody is there";
  EXPECT_FALSE(operation.ended());
  EXPECT_EQ(w.purgatory.check(2), 1U);
  EXPECT_EQ(w.outcomes, (std::vector{Outcome::kCompleted}));
  w.expect_nothing_left();
  w.time.advance(seconds(2));
  EXPECT_EQ(w.purgatory.check(1), 0U);
  EXPECT_EQ(w.outcomes.size(), 1U);
}

TEST(Purgatory, ADeadlineExpiresWhatDoesNotHold) {
  Waiting w;
  w.purgatory.watch({1, 2, 1}, milliseconds(200), [] { return false; }, w.told());
  w.time.advance(milliseconds(199));
  EXPECT_TRUE(w.outcomes.empty());
  w.time.advance(milliseconds(1));
  EXPECT_EQ(w.outcomes, (std::vector{Outcome::kExpired}));
  w.expect_nothing_left();
}

// What comes about while the operation is being linked, and whose check was too early to meet it.
TEST(Purgatory, TheConditionIsTriedAgainOnceItIsWatched) {
  Waiting w;
  int tries = 0;
  w.purgatory.watch({1}, seconds(1), [&] { return ++tries == 2; }, w.told());
  EXPECT_EQ(w.outcomes, (std::vector{Outcome::kCompleted}));
  w.expect_nothing_left();
}

TEST(Purgatory, TimeoutsAtTheEdges) {
  Waiting w;
  auto never = w.purgatory.watch({1}, kForever, [] { return false; }, w.told());
  w.purgatory.watch({1}, Span::zero(), [] { return false; }, w.told());
  w.purgatory.watch({1}, seconds(-1), [] { return false; }, w.told());
  w.time.advance(milliseconds(2));
  EXPECT_EQ(w.outcomes, (std::vector{Outcome::kExpired, Outcome::kExpired}));
  EXPECT_TRUE(never.cancel());
  EXPECT_FALSE(never.cancel());
  EXPECT_EQ(w.outcomes.back(), Outcome::kCancelled);
  w.expect_nothing_left();
}

TEST(Purgatory, CancelForKeyCancelsThoseUnderIt) {
  Waiting w;
  for (int i = 0; i < 100; ++i) {
    w.purgatory.watch({i % 2, 100 + i}, seconds(1), [] { return false; }, w.told());
  }
  EXPECT_EQ(w.purgatory.keys(), 102U);
  EXPECT_EQ(w.purgatory.cancel_for_key(0), 50U);
  EXPECT_EQ(w.outcomes, std::vector(50, Outcome::kCancelled));
  EXPECT_EQ(w.purgatory.keys(), 51U);
  w.time.advance(seconds(1));
  EXPECT_EQ(w.outcomes.size(), 100U);
  w.expect_nothing_left();
}

TEST(Purgatory, ThoseUnderAKeyAreTriedInTheOrderWatchedEachOnce) {
  Waiting w;
  std::vector<int> tried;
  bool recording = false;
  for (int i = 0; i < 100; ++i) {
    w.purgatory.watch(
        {7}, seconds(1),
        [&, i] {
          if (recording) {
            tried.push_back(i);
          }
          return false;
        },
        w.told());
  }
  recording = true;
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) {
    expected.push_back(i);
  }
  for (int round = 0; round < 3; ++round) {
    tried.clear();
    EXPECT_EQ(w.purgatory.check(7), 0U);
    EXPECT_EQ(tried, expected);
  }
}

TEST(Purgatory, AnAnswerMayWatchAndCheckAgain) {
  Waiting w;
  int value = 0;
  int answers = 0;
  std::function<void()> watch = [&] {
    w.purgatory.watch(
        {1}, seconds(1), [&, wanted = value + 1] { return value >= wanted; },
        [&](Outcome outcome) {
          EXPECT_EQ(outcome, Outcome::kCompleted);
          if (++answers < 5) {
            watch();
            ++value;
            w.purgatory.check(1);
          }
        });
  };
  watch();
  ++value;
  w.purgatory.check(1);
  EXPECT_EQ(answers, 5);
  w.expect_nothing_left();
}

TEST(Purgatory, ItsEndCancelsWhatWaits) {
  ManualDriver time;
  Timer timer(time.options());
  std::vector<Outcome> outcomes;
  Numbers::Operation operation;
  {
    Numbers purgatory(timer, {.shards = 1});
    for (int i = 0; i < 1000; ++i) {
      operation = purgatory.watch(
          {i, i + 1, 7}, hours(1), [] { return false; },
          [&](Outcome outcome) { outcomes.push_back(outcome); });
    }
  }
  EXPECT_EQ(outcomes, std::vector(1000, Outcome::kCancelled));
  EXPECT_TRUE(operation.ended());
  EXPECT_FALSE(operation.cancel());
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(Purgatory, IfTheTimerTakesNoMoreItIsCancelledAtOnce) {
  Waiting w;
  w.timer.stop();
  w.purgatory.watch({1}, seconds(1), [] { return false; }, w.told());
  EXPECT_EQ(w.outcomes, (std::vector{Outcome::kCancelled}));
  w.expect_nothing_left();
}

TEST(Purgatory, KeysAreStringsToo) {
  ManualDriver time;
  Timer timer(time.options());
  Purgatory<> purgatory(timer);
  bool done = false;
  purgatory.watch({"topic-a", "topic-b"}, seconds(1), [&] { return done; }, [](Outcome) {});
  done = true;
  EXPECT_EQ(purgatory.check(std::string_view("topic-b")), 1U);
}

TEST(Purgatory, KeysThatHashAlikeAreToldApart) {
  struct Constant {
    std::size_t operator()(int) const { return 42; }
  };
  ManualDriver time;
  Timer timer(time.options());
  int answers = 0;
  Purgatory<int, Constant> purgatory(timer);
  for (int key = 0; key < 300; ++key) {
    purgatory.watch(
        {key, key + 1000}, seconds(1), [] { return false; }, [&](Outcome) { ++answers; });
  }
  EXPECT_EQ(purgatory.keys(), 600U);
  for (int key = 0; key < 100; ++key) {
    EXPECT_EQ(purgatory.cancel_for_key(key), 1U);
  }
  EXPECT_EQ(purgatory.keys(), 400U);
  time.advance(seconds(2));
  EXPECT_EQ(answers, 300);
  EXPECT_EQ(purgatory.keys(), 0U);
}

// A key whose second copy, or whose hash, cannot be made.
struct Fragile {
  explicit Fragile(int its_number) : number(its_number) {}
  Fragile(Fragile&&) noexcept = default;
  Fragile(const Fragile& other) : number(other.number) {
    if (number == 2) {
      throw std::runtime_error("no copy");
    }
  }
  friend bool operator==(const Fragile& a, const Fragile& b) { return a.number == b.number; }
  int number;
};
struct FragileHash {
  std::size_t operator()(const Fragile& key) const {
    return key.number == 3 ? throw std::runtime_error("no hash")
                           : static_cast<std::size_t>(key.number);
  }
};

TEST(PurgatoryStory, WhatCannotBeWatchedLeavesNothingBehind) {
  ManualDriver time;
  Timer timer(time.options());
  Purgatory<Fragile, FragileHash> purgatory(timer);
  for (const int second : {2, 3}) {
    std::vector<Fragile> keys;
    keys.emplace_back(1);
    keys.emplace_back(second);
    const auto owned = std::make_shared<int>();
    int answers = 0;
    EXPECT_THROW(purgatory.watch(
                     std::span<const Fragile>(keys), seconds(1), [owned] { return false; },
                     [&answers, owned](Outcome outcome) {
                       ++answers;
                       EXPECT_EQ(outcome, Outcome::kCancelled);
                     }),
                 std::runtime_error);
    EXPECT_EQ(answers, second == 2 ? 1 : 0);
    EXPECT_EQ(owned.use_count(), 1);
    EXPECT_EQ(purgatory.watched(), 0U);
    EXPECT_EQ(purgatory.keys(), 0U);
  }
}

TEST(PurgatoryDeathTest, AnOperationWithoutAKeyStopsTheProgram) {
  Waiting w;
  EXPECT_DEATH(
      w.purgatory.watch({}, seconds(1), [] { return false; }, [](Outcome) {}), "without a key");
}

// D1: timeouts of five minutes, completed within milliseconds.
TEST(PurgatoryStory, MemoryFollowsWhatWaitsAndNotTheTimeouts) {
  Waiting w;
  int produced = 0;
  for (int i = 0; i < 100'000; ++i) {
    w.purgatory.watch(
        {i % 10, 10 + i % 7, 100 + i}, seconds(300), [&, i] { return produced >= i; },
        [](Outcome) {});
    if (i % 100 == 99) {
      EXPECT_LE(w.purgatory.watched(), 100U);
      EXPECT_LE(w.purgatory.keys(), 117U);
      EXPECT_LE(w.timer.pending(), 100U);
      produced = i + 1;
      for (int key = 0; key < 10; ++key) {
        w.purgatory.check(key);
      }
      w.time.advance(milliseconds(1));
    }
  }
  w.expect_nothing_left();
}

// D2.
TEST(PurgatoryStory, WhatAnOperationHoldsIsReleasedWhenItEnds) {
  for (const Outcome end : {Outcome::kCompleted, Outcome::kExpired, Outcome::kCancelled}) {
    Waiting w;
    const auto payload = std::make_shared<int>(0);
    auto operation = w.purgatory.watch(
        {1, 2}, seconds(1), [payload] { return *payload == 1; }, [payload](Outcome) {});
    EXPECT_EQ(payload.use_count(), 3);
    if (end == Outcome::kCompleted) {
      *payload = 1;
      w.purgatory.check(2);
    } else if (end == Outcome::kExpired) {
      w.time.advance(seconds(1));
    } else {
      operation.cancel();
    }
    EXPECT_EQ(payload.use_count(), 1) << "though the handle is there still";
  }
}

// Against a list of what waits: who completes when, who expires when, each once.
TEST(PurgatoryProperty, AgreesWithAListOfWhatWaits) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    ManualDriver time;
    Timer timer(time.options());
    Numbers purgatory(timer, {.shards = 1U << random.below(4)});
    constexpr std::size_t kKeys = 8;
    std::vector<int> level(kKeys);
    struct Expected {
      std::vector<int> keys;
      int wanted;
      Instant deadline;
      int answers = 0;
      Outcome outcome{};
      Instant at;
      Numbers::Operation operation;
    };
    std::vector<std::unique_ptr<Expected>> all;
    const auto holds = [&](const Expected& e) {
      int sum = 0;
      for (const int key : e.keys) {
        sum += level[static_cast<std::size_t>(key)];
      }
      return sum >= e.wanted;
    };
    for (int step = 0; step < 1500; ++step) {
      time.advance(milliseconds(random.between(0, 3)));
      for (const auto& e : all) {
        if (e->deadline <= time.now()) {
          ASSERT_EQ(e->answers, 1);
          if (e->outcome == Outcome::kExpired) {
            ASSERT_EQ(e->at, e->deadline);
          }
        }
      }
      if (random.one_in(2)) {
        auto e = std::make_unique<Expected>();
        for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
          e->keys.push_back(static_cast<int>(random.below(kKeys)));
        }
        e->wanted = 0;
        for (const int key : e->keys) {
          e->wanted += level[static_cast<std::size_t>(key)];
        }
        e->wanted += static_cast<int>(random.below(6));
        const Span timeout = milliseconds(random.between(1, 100));
        e->deadline = time.now() + timeout;
        Expected* raw = e.get();
        e->operation = purgatory.watch(
            e->keys, timeout,
            [&holds, raw] {
              EXPECT_EQ(raw->answers, 0);
              return holds(*raw);
            },
            [&time, raw](Outcome outcome) {
              ++raw->answers;
              raw->outcome = outcome;
              raw->at = time.now();
            });
        ASSERT_EQ(e->answers == 1, holds(*e));
        all.push_back(std::move(e));
      } else if (random.one_in(10) && !all.empty()) {
        Expected& e = *all[random.below(all.size())];
        const bool waited = e.answers == 0;
        ASSERT_EQ(e.operation.cancel(), waited);
        ASSERT_EQ(e.answers, 1);
      } else {
        const auto key = random.below(kKeys);
        ++level[key];
        std::size_t expected = 0;
        for (const auto& e : all) {
          const bool under = std::count(e->keys.begin(), e->keys.end(), static_cast<int>(key)) > 0;
          expected += e->answers == 0 && under && holds(*e) ? 1 : 0;
        }
        ASSERT_EQ(purgatory.check(static_cast<int>(key)), expected);
      }
      std::size_t waiting = 0;
      for (const auto& e : all) {
        waiting += e->answers == 0 ? 1 : 0;
      }
      ASSERT_EQ(purgatory.watched(), waiting);
      ASSERT_EQ(timer.pending(), waiting);
    }
    time.advance(seconds(1));
    for (const auto& e : all) {
      ASSERT_EQ(e->answers, 1);
    }
    EXPECT_EQ(purgatory.keys(), 0U);
  }
}

}  // namespace
}  // namespace carillon
