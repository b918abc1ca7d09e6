// SPDX-License-Identifier: Apache-2.0
// Cancel, fire and reschedule (internal/core.h), as a model whose steps are those of the code, and
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

// One timer. Thread 0 is the driver: Shard::take_due(), twice at most, each time with its Firing
// handed to an executor's thread; threads 1 and 2 are those: Core::run(); thread 3 is
// Shard::cancel(), thread 4 Shard::reschedule(), to a later time.
struct FireModel {
  enum class Mutation {
    kNone,
    kBeginWithoutCompare,      // Core::run() stores kBegun, whatever is there.
    kCancelWithoutCompare,     // take_back() looks, then stores.
    kRescheduleLeavesRecord,   // reschedule() puts it into the wheel and does not take it back.
    kRecordUsedAgainTooEarly,  // It is given back when it is cancelled, not when it is consumed.
    kStateOfRunForgotten,      // cancel() does not look for a record.
  };
  static constexpr int kThreads = 5;
  enum : std::int8_t { kFree, kQueued, kBegun, kCancelled, kDone };
  enum : std::int8_t { kNoAnswer, kYes, kRunning, kNotFound };

  struct Record {
    std::int8_t state = kFree;
    std::int8_t holds_callback = 0;
    std::int8_t in_table = 0;
    std::int8_t deadline = 0;
  };
  struct Executor {
    std::int8_t at = 0;
    std::int8_t record = -1;  // Of its Firing; -1: none yet.
  };
  struct State {
    std::int8_t locked = 0;
    std::int8_t wheel = 1;      // The deadline of the entry: 1, or 2 after reschedule(); 0: none.
    std::int8_t parked = 0;     // The entry is that of a timer that was taken back.
    std::int8_t callbacks = 1;  // That lie in the wheel or among the parked.
    std::int8_t destroyed = 0;
    std::int8_t runs = 0;
    std::int8_t ran_old = 0;  // Runs for the deadline 1 that begin after reschedule() said yes.
    std::int8_t empty_run = 0;
    std::array<Record, 2> records{};
    std::array<Executor, 2> executors{};
    std::int8_t driver_at = 0;
    std::int8_t takes = 0;
    std::int8_t cancel_at = 0;
    std::int8_t cancel_record = -1;
    std::int8_t cancel_answer = kNoAnswer;
    std::int8_t runs_at_cancel = 0;
    std::int8_t reschedule_at = 0;
    std::int8_t reschedule_record = -1;
    std::int8_t reschedule_answer = kNoAnswer;
  };

  Mutation mutation = Mutation::kNone;

  bool step(State& s, int thread) const {
    switch (thread) {
      case 0: return drive(s);
      case 1:
      case 2: return execute(s, thread - 1);
      case 3: return cancel(s);
      default: return reschedule(s);
    }
  }

  bool drive(State& s) const {
    switch (s.driver_at) {
      case 0:
        if (s.locked != 0 || s.takes == 2) {
          return false;
        }
        s.locked = 1;
        s.driver_at = 1;
        return true;
      case 1:  // wheel->advance(): both deadlines are due by now
        ++s.takes;
        if (s.wheel != 0) {
          std::int8_t free = 0;
          while (s.records[free].state != kFree) {
            ++free;
          }
          Record& record = s.records[free];
          record = {kQueued, s.callbacks, 1, s.wheel};
          s.wheel = s.parked = s.callbacks = 0;
          Executor& executor = s.executors[s.executors[0].record == -1 ? 0 : 1];
          executor.record = free;
        }
        s.driver_at = 2;
        return true;
      default:
        s.locked = 0;
        s.driver_at = 0;
        return true;
    }
  }

  bool execute(State& s, int number) const {
    Executor& e = s.executors[number];
    if (e.record < 0) {
      return false;
    }
    Record& r = s.records[e.record];
    switch (e.at) {
      case 0:  // state: kQueued -> kBegun
        if (r.state == kQueued || mutation == Mutation::kBeginWithoutCompare) {
          r.state = kBegun;
          s.ran_old += r.deadline == 1 && s.reschedule_answer == kYes ? 1 : 0;
          e.at = 1;
        } else {
          e.at = 3;
        }
        return true;
      case 1:  // callback(), and its end
        ++s.runs;
        s.empty_run += r.holds_callback != 0 ? 0 : 1;
        s.destroyed = static_cast<std::int8_t>(s.destroyed + r.holds_callback);
        r.holds_callback = 0;
        e.at = 2;
        return true;
      case 2:  // state = kDone
        r.state = kDone;
        e.at = 3;
        return true;
      case 3:  // consume(), and give_back_finished() by whoever has the lock next
        if (s.locked != 0) {
          return false;
        }
        r = Record{};
        e.at = 4;
        return true;
      default: return false;
    }
  }

  // Shard::take_back(), which takes the callback. `looked` is what an unsound one saw before.
  bool take_back(State& s, Record& r, bool looked) const {
    if (!looked && r.state != kQueued) {
      return false;
    }
    r.state = mutation == Mutation::kRecordUsedAgainTooEarly ? kFree : kCancelled;
    r.in_table = 0;
    static_cast<void>(s);
    return true;
  }

  static std::int8_t find(const State& s) {
    for (std::int8_t i = 0; i < 2; ++i) {
      if (s.records[i].in_table != 0) {
        return i;
      }
    }
    return -1;
  }

  bool cancel(State& s) const {
    switch (s.cancel_at) {
      case 0:
        if (s.locked != 0) {
          return false;
        }
        s.locked = 1;
        s.cancel_at = 1;
        return true;
      case 1:  // wheel->payload(), parked
        if (s.wheel != 0) {
          s.destroyed = static_cast<std::int8_t>(s.destroyed + s.callbacks);
          s.wheel = s.parked = s.callbacks = 0;
          s.cancel_answer = kYes;
          s.cancel_at = 4;
          return true;
        }
        s.cancel_record = find(s);
        s.cancel_answer = kNotFound;
        s.cancel_at = s.cancel_record < 0 || mutation == Mutation::kStateOfRunForgotten ? 4 : 2;
        return true;
      case 2: {  // take_back(): one compare-and-swap
        Record& r = s.records[s.cancel_record];
        if (mutation == Mutation::kCancelWithoutCompare && r.state == kQueued) {
          s.cancel_at = 6;
          return true;
        }
        if (take_back(s, r, false)) {
          s.destroyed = static_cast<std::int8_t>(s.destroyed + r.holds_callback);
          r.holds_callback = 0;
          s.cancel_answer = kYes;
          s.cancel_at = 4;
        } else {
          s.cancel_at = 3;
        }
        return true;
      }
      case 3:  // state.load()
        s.cancel_answer = s.records[s.cancel_record].state == kBegun ? kRunning : kNotFound;
        s.cancel_at = 4;
        return true;
      case 4:
        s.locked = 0;
        s.runs_at_cancel = s.runs;
        s.cancel_at = 5;
        return true;
      case 6: {  // The second half of a take_back() that only looked.
        Record& r = s.records[s.cancel_record];
        take_back(s, r, true);
        s.destroyed = static_cast<std::int8_t>(s.destroyed + r.holds_callback);
        r.holds_callback = 0;
        s.cancel_answer = kYes;
        s.cancel_at = 4;
        return true;
      }
      default: return false;
    }
  }

  bool reschedule(State& s) const {
    switch (s.reschedule_at) {
      case 0:
        if (s.locked != 0) {
          return false;
        }
        s.locked = 1;
        s.reschedule_at = 1;
        return true;
      case 1:  // wheel->reschedule()
        if (s.wheel != 0) {
          s.wheel = 2;
          s.reschedule_answer = kYes;
          s.reschedule_at = 4;
          return true;
        }
        s.reschedule_record = find(s);
        s.reschedule_answer = kNotFound;
        s.reschedule_at = s.reschedule_record < 0 ? 4 : 2;
        return true;
      case 2: {  // wheel->schedule(ParkedRef), take_back()
        Record& r = s.records[s.reschedule_record];
        if (mutation == Mutation::kRescheduleLeavesRecord) {
          s.wheel = 2;
          s.callbacks = 1;
          s.reschedule_answer = kYes;
          s.reschedule_at = 4;
          return true;
        }
        if (take_back(s, r, false)) {
          s.wheel = 2;
          s.parked = 1;
          s.callbacks = r.holds_callback;
          r.holds_callback = 0;
          s.reschedule_answer = kYes;
          s.reschedule_at = 4;
        } else {
          s.reschedule_at = 3;
        }
        return true;
      }
      case 3:  // state.load()
        s.reschedule_answer = s.records[s.reschedule_record].state == kDone ? kNotFound : kRunning;
        s.reschedule_at = 4;
        return true;
      case 4:
        s.locked = 0;
        s.reschedule_at = 5;
        return true;
      default: return false;
    }
  }

  [[nodiscard]] std::string check(const State& s, bool stuck) const {
    if (s.runs > 1) {
      return "ran twice";
    }
    if (s.destroyed > 1) {
      return "the callback was destroyed twice";
    }
    if (s.empty_run != 0) {
      return "ran without a callback";
    }
    if (s.ran_old != 0) {
      return "ran for the old time after it was rescheduled";
    }
    if (s.cancel_answer == kYes && s.cancel_at == 5 && (s.runs != 0 || s.destroyed != 1)) {
      return "cancelled, and has run or is not released";
    }
    if (!stuck) {
      return "";
    }
    if (s.locked != 0 || s.cancel_at != 5 || s.reschedule_at != 5) {
      return "a deadlock";
    }
    // What was rescheduled after the driver's last visit waits in the wheel.
    const int waits = s.wheel != 0 ? 1 : 0;
    if (s.runs + waits + (s.cancel_answer == kYes ? 1 : 0) != 1) {
      return "neither ran nor waits nor was cancelled; or more than one of these";
    }
    if (s.destroyed + s.callbacks != 1) {
      return "a callback was lost";
    }
    if (s.cancel_answer == kNotFound && s.runs_at_cancel == 0) {
      return "cancel() found nothing before it ran";
    }
    if (s.reschedule_answer == kRunning && s.runs == 0) {
      return "said to run, and did not";
    }
    return "";
  }
};

std::string explore_fire(FireModel::Mutation mutation, std::size_t* states) {
  const FireModel model{mutation};
  Explorer<FireModel> explorer(model);
  std::string wrong = explorer.run(FireModel::State{});
  *states = explorer.states();
  return wrong;
}

// B1, B2: a timer that is due is cancelled and rescheduled by others at the same time.
TEST(FireExplorer, CancelFireAndRescheduleAgreeInEveryInterleaving) {
  std::size_t states = 0;
  EXPECT_EQ(explore_fire(FireModel::Mutation::kNone, &states), "");
  EXPECT_GT(states, 500U);
}

TEST(FireExplorer, FindsWhatIsWrongWithOtherWaysToCancel) {
  std::size_t states = 0;
  using Mutation = FireModel::Mutation;
  EXPECT_NE(explore_fire(Mutation::kBeginWithoutCompare, &states), "");
  EXPECT_NE(explore_fire(Mutation::kCancelWithoutCompare, &states), "");
  EXPECT_NE(explore_fire(Mutation::kRescheduleLeavesRecord, &states), "");
  EXPECT_NE(explore_fire(Mutation::kRecordUsedAgainTooEarly, &states), "");
  EXPECT_NE(explore_fire(Mutation::kStateOfRunForgotten, &states), "");
}

}  // namespace
}  // namespace carillon
