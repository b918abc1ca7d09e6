// SPDX-License-Identifier: Apache-2.0
// Missed wake-ups (internal/core.h), as a model whose steps are those of the code, and
// every interleaving of them tried (explorer_model.h). It is also run with a step left out or in
// the wrong place, and the explorer has to find what that breaks: so it is known to look.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "carillon/timer/explorer_model.h"

namespace carillon {
namespace {

using testing::Explorer;

// Core::drive() and two producers, in Shard::schedule() and Core::wake_for(), each with a shard of
// its own; the second cancels the timer of the first, after that or before. Deadlines are numbers
// from 1 on.
struct WakeModel {
  enum class Mutation {
    kNone,
    kEpochNotedAfterTheVisit,
    kNotAlwaysDuringTheVisit,
    kReadBeforeTheInsert,
    kNoEpoch,
    kSleepUntilNextOfAll,
  };
  static constexpr int kThreads = 3;
  static constexpr std::int8_t kAlways = 100;
  static constexpr std::int8_t kForever = 101;

  struct Producer {
    std::int8_t at = 0;
    std::int8_t deadline = 0;
    std::int8_t seen = 0;  // What it has read of wake_before.
  };
  struct State {
    // Shared.
    std::array<std::int8_t, 2> locked{};
    std::array<std::int8_t, 2> wheel{};  // The deadline in it; 0: none.
    std::int8_t wake_before = kAlways;
    std::int8_t epoch = 0;
    std::int8_t asleep = 0;
    std::int8_t woken = 0;  // The futex has been woken while it slept.
    // The driver.
    std::int8_t at = 0;
    std::int8_t epoch_seen = 0;
    std::int8_t next = 0;
    std::int8_t published = kAlways;
    std::int8_t promised = kAlways;
    std::int8_t sleeping = 0;  // 1: in the kernel.
    std::array<Producer, 2> producers{};
  };

  Mutation mutation = Mutation::kNone;
  bool cancels = false;

  bool step(State& s, int thread) const { return thread == 0 ? drive(s) : produce(s, thread - 1); }

  static void publish(State& s, std::int8_t value) {
    if (s.wake_before != s.published) {
      s.promised = std::min(s.promised, s.wake_before);
    }
    s.wake_before = s.published = value;
  }

  bool drive(State& s) const {
    switch (s.at) {
      case 0:  // epoch_seen = epoch
        if (mutation != Mutation::kEpochNotedAfterTheVisit) {
          s.epoch_seen = s.epoch;
        }
        s.at = 1;
        return true;
      case 1:  // publish(kAlways)
        if (mutation != Mutation::kNotAlwaysDuringTheVisit) {
          publish(s, kAlways);
        }
        s.next = kForever;
        s.at = 2;
        return true;
      case 2:  // Shard::next_deadline(), for each shard, under its lock
      case 4:
        if (s.locked[s.at / 2 - 1] != 0) {
          return false;
        }
        s.locked[s.at / 2 - 1] = 1;
        ++s.at;
        return true;
      case 3:
      case 5: {
        const int shard = s.at / 2 - 1;
        if (s.wheel[shard] != 0) {
          s.next = std::min(s.next, s.wheel[shard]);
        }
        s.locked[shard] = 0;
        ++s.at;
        return true;
      }
      case 6:  // publish(min(next, promised))
        if (mutation == Mutation::kEpochNotedAfterTheVisit) {
          s.epoch_seen = s.epoch;
        }
        s.next = std::min(s.next, s.promised);
        publish(s, std::min(s.next, kAlways));
        s.at = 7;
        return true;
      case 7:  // asleep = 1
        s.asleep = 1;
        s.at = 8;
        return true;
      case 8:  // epoch == epoch_seen?
        s.at = s.epoch == s.epoch_seen || mutation == Mutation::kNoEpoch ? 9 : 11;
        return true;
      case 9:  // futex_wait(): looks and falls asleep in one
        s.woken = 0;
        s.sleeping = s.epoch == s.epoch_seen || mutation == Mutation::kNoEpoch ? 1 : 0;
        s.at = 10;
        return true;
      case 10:
        if (s.sleeping != 0 && s.woken == 0) {
          if (s.next == kForever) {
            return false;
          }
          // It is `next` by now. What is due then fires, in the next turn; here at once.
          for (std::int8_t& deadline : s.wheel) {
            if (deadline <= s.next) {
              deadline = 0;
            }
          }
          s.promised = s.promised <= s.next ? kAlways : s.promised;
        }
        s.sleeping = 0;
        s.at = 11;
        return true;
      default:  // asleep = 0
        s.asleep = 0;
        s.at = 0;
        return true;
    }
  }

  bool produce(State& s, int number) const {
    Producer& p = s.producers[number];
    std::int8_t& lock = s.locked[number];
    const bool early = mutation == Mutation::kReadBeforeTheInsert;
    switch (p.at) {
      case 0:  // SpinLockHold
        if (lock != 0) {
          return false;
        }
        lock = 1;
        p.at = 1;
        return true;
      case 1:  // wheel->schedule()
        s.wheel[number] = p.deadline;
        p.at = 2;
        return true;
      case 2:  // release()
        lock = 0;
        p.at = 3;
        return true;
      case 3:  // wake_before.load()
        if (!early) {
          p.seen = s.wake_before;
        }
        p.at = p.deadline < p.seen ? 4 : 8;
        return true;
      case 4:  // compare_exchange(seen, deadline)
        if (s.wake_before == p.seen) {
          s.wake_before = p.deadline;
          p.at = 5;
        } else {
          p.seen = s.wake_before;
          p.at = p.deadline < p.seen ? 4 : 8;
        }
        return true;
      case 5:  // epoch.fetch_add(1)
        ++s.epoch;
        p.at = 6;
        return true;
      case 6:  // asleep.load()
        p.at = s.asleep != 0 ? 7 : 8;
        return true;
      case 7:  // futex_wake()
        s.woken = s.sleeping;
        p.at = 8;
        return true;
      case 8:  // The second cancels what the first has scheduled.
        if (number == 0 || !cancels) {
          p.at = 11;
          return true;
        }
        if (s.locked[0] != 0) {
          return false;
        }
        s.locked[0] = 1;
        p.at = 9;
        return true;
      case 9:
        s.wheel[0] = 0;
        s.locked[0] = 0;
        p.at = 11;
        return true;
      case 12:  // Where kReadBeforeTheInsert begins.
        p.seen = s.wake_before;
        p.at = 0;
        return true;
      default: return false;
    }
  }

  [[nodiscard]] std::string check(const State& s, bool stuck) const {
    if (stuck && s.sleeping == 0) {
      return "a deadlock";
    }
    if (s.sleeping == 0 || s.woken != 0 || s.producers[0].at != 11 || s.producers[1].at != 11) {
      return "";  // Somebody will wake it, or it is awake.
    }
    for (const std::int8_t deadline : s.wheel) {
      const std::int8_t until = mutation == Mutation::kSleepUntilNextOfAll ? kForever : s.next;
      if (deadline != 0 && deadline < until) {
        return "sleeps until " + std::to_string(until) + ", past " + std::to_string(deadline);
      }
    }
    return "";
  }
};

std::string explore_wake(WakeModel::Mutation mutation, bool cancels, std::size_t* states) {
  std::string wrong;
  for (const auto& [first, second] :
       std::vector<std::pair<int, int>>{{1, 2}, {2, 1}, {1, 1}, {5, 9}, {9, 5}}) {
    const WakeModel model{mutation, cancels};
    WakeModel::State initial;
    initial.producers[0].deadline = static_cast<std::int8_t>(first);
    initial.producers[1].deadline = static_cast<std::int8_t>(second);
    if (mutation == WakeModel::Mutation::kReadBeforeTheInsert) {
      initial.producers[0].at = initial.producers[1].at = 12;
    }
    Explorer<WakeModel> explorer(model);
    if (std::string found = explorer.run(initial); wrong.empty()) {
      wrong = found;
    }
    *states += explorer.states();
  }
  return wrong;
}

// A12: a waiter about to sleep, and an earlier deadline at that instant.
TEST(WakeExplorer, NoInterleavingMissesAWakeUp) {
  std::size_t states = 0;
  EXPECT_EQ(explore_wake(WakeModel::Mutation::kNone, false, &states), "");
  EXPECT_EQ(explore_wake(WakeModel::Mutation::kNone, true, &states), "");
  EXPECT_GT(states, 10'000U);
}

TEST(WakeExplorer, FindsWhatIsWrongWithOtherWaysToSleep) {
  std::size_t states = 0;
  using Mutation = WakeModel::Mutation;
  EXPECT_NE(explore_wake(Mutation::kEpochNotedAfterTheVisit, false, &states), "");
  EXPECT_NE(explore_wake(Mutation::kNotAlwaysDuringTheVisit, false, &states), "");
  EXPECT_NE(explore_wake(Mutation::kReadBeforeTheInsert, false, &states), "");
  EXPECT_NE(explore_wake(Mutation::kNoEpoch, false, &states), "");
  EXPECT_NE(explore_wake(Mutation::kSleepUntilNextOfAll, false, &states), "");
}

}  // namespace
}  // namespace carillon
