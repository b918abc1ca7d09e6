// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/lease_keeper.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "carillon/base/mutex.h"
#include "carillon/base/random.h"
#include "carillon/timer/manual_driver.h"

namespace carillon {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A life of 30 s: renewed after 10, again after 2, counts as lost after 27.
struct Kept {
  ManualDriver time;
  Timer timer{time.options()};
  LeaseKeeper keeper{timer};
  Lease lease;
  const Instant start = time.now();
  std::vector<Span> renewals;
  std::vector<RenewReply> unanswered;
  std::optional<LeaseLoss> lost;
  std::optional<Span> lost_at;
  enum { kRenew, kFail, kRefuse, kDrop, kKeep } answer = kRenew;

  [[nodiscard]] Span elapsed() const { return time.now() - start; }
  auto renew() {
    return [this](RenewReply reply) {
      renewals.push_back(elapsed());
      switch (answer) {
        case kRenew: reply.renewed(); break;
        case kFail: reply.failed(); break;
        case kRefuse: reply.refused(); break;
        case kDrop: break;
        case kKeep: unanswered.push_back(std::move(reply));
      }
    };
  }
  auto on_lost() {
    return [this](LeaseLoss loss) {
      EXPECT_FALSE(lost) << "told twice";
      EXPECT_FALSE(lease.held());
      lost = loss;
      lost_at = elapsed();
    };
  }
  void hold() {
    lease = keeper.claim();
    ASSERT_TRUE(lease.hold(renew(), on_lost()));
  }
};

TEST(LeaseKeeper, RenewsAtAThirdOfTheLife) {
  Kept k;
  k.hold();
  k.time.advance(hours(1));
  EXPECT_TRUE(k.lease.held());
  EXPECT_FALSE(k.lost);
  ASSERT_EQ(k.renewals.size(), 360U);
  EXPECT_EQ(k.renewals[0], seconds(10));
  EXPECT_EQ(k.renewals[359], hours(1));
  EXPECT_TRUE(k.lease.release());
  EXPECT_FALSE(k.lease.held());
  EXPECT_FALSE(k.lease.release());
  EXPECT_EQ(k.timer.pending(), 0U);
  k.time.advance(hours(1));
  EXPECT_EQ(k.renewals.size(), 360U);
  EXPECT_FALSE(k.lost);
}

// F16: renewal every 10 s; one fails.
TEST(LeaseKeeperStory, AFailedRenewalIsRetriedAndRenewalsGoOn) {
  for (const auto failure : {Kept::kFail, Kept::kDrop}) {
    Kept k;
    k.hold();
    k.answer = failure;
    k.time.advance(seconds(15));
    EXPECT_EQ(k.renewals, (std::vector<Span>{seconds(10), seconds(12), seconds(14)}));
    EXPECT_TRUE(k.lease.held());
    k.answer = Kept::kRenew;
    k.time.advance(seconds(11));
    EXPECT_EQ(k.renewals.size(), 5U);
    EXPECT_EQ(k.renewals[3], seconds(16));
    EXPECT_EQ(k.renewals[4], seconds(26)) << "a third of a life after the success";
    k.time.advance(hours(1));
    EXPECT_TRUE(k.lease.held());
    EXPECT_FALSE(k.lost);
  }
}

// F16: retried until the lease ends, and the holder is told then.
TEST(LeaseKeeperStory, AHolderIsToldWhenNoRenewalHasSucceededInTime) {
  for (const auto failure : {Kept::kFail, Kept::kDrop, Kept::kKeep}) {
    Kept k;
    k.hold();
    k.answer = failure;
    k.time.advance(seconds(27) - Span(1));
    EXPECT_TRUE(k.lease.held());
    EXPECT_FALSE(k.lost);
    k.time.advance(Span(1));
    EXPECT_EQ(k.lost, LeaseLoss::kExpired);
    EXPECT_EQ(k.lost_at, seconds(27));
    EXPECT_FALSE(k.lease.held());
    EXPECT_FALSE(k.lease.release());
    const auto renewals = k.renewals.size();
    EXPECT_EQ(renewals, 9U) << "each 2 s from 10 s on";
    k.unanswered.clear();
    EXPECT_EQ(k.timer.pending(), 0U);
    k.time.advance(hours(1));
    EXPECT_EQ(k.renewals.size(), renewals);
  }
}

TEST(LeaseKeeper, ARefusalIsToldAtOnce) {
  Kept k;
  k.hold();
  k.answer = Kept::kRefuse;
  k.time.advance(seconds(10));
  EXPECT_EQ(k.lost, LeaseLoss::kRefused);
  EXPECT_EQ(k.lost_at, seconds(10));
  EXPECT_EQ(k.timer.pending(), 0U);
  k.time.advance(hours(1));
  EXPECT_EQ(k.renewals.size(), 1U);
}

// The lock has counted from when it was asked.
TEST(LeaseKeeper, ALifeCountsFromWhenItWasAskedFor) {
  Kept k;
  k.lease = k.keeper.claim();
  k.time.advance(seconds(5));  // Until it is granted.
  EXPECT_FALSE(k.lease.held());
  ASSERT_TRUE(k.lease.hold(k.renew(), k.on_lost()));
  k.answer = Kept::kKeep;
  k.time.advance(seconds(5));
  ASSERT_EQ(k.renewals, (std::vector<Span>{seconds(10)}));
  k.time.advance(seconds(1));
  k.unanswered[0].renewed();  // Begun at 10 s, so it ends at 37 s.
  k.answer = Kept::kFail;
  k.time.advance(seconds(26) - Span(1));
  EXPECT_TRUE(k.lease.held());
  k.time.advance(Span(1));
  EXPECT_EQ(k.lost_at, seconds(37));
}

TEST(LeaseKeeper, WhatIsGrantedTooLateIsNotHeld) {
  Kept k;
  k.lease = k.keeper.claim();
  k.time.advance(seconds(27));
  EXPECT_FALSE(k.lease.hold(k.renew(), k.on_lost()));
  EXPECT_EQ(k.timer.pending(), 0U);
}

// An answer that comes when the lease is over does not revive it.
TEST(LeaseKeeper, AnAnswerThatIsLateChangesNothing) {
  Kept k;
  k.hold();
  k.answer = Kept::kKeep;
  k.time.advance(seconds(30));
  EXPECT_EQ(k.lost, LeaseLoss::kExpired);
  for (RenewReply& reply : k.unanswered) {
    reply.renewed();
  }
  EXPECT_FALSE(k.lease.held());
  EXPECT_EQ(k.timer.pending(), 0U);
}

TEST(LeaseKeeper, ARefusalFromBeforeTheLastSuccessSaysNothing) {
  Kept k;
  k.hold();
  k.answer = Kept::kKeep;
  k.time.advance(seconds(12));
  ASSERT_EQ(k.unanswered.size(), 2U);
  k.unanswered[1].renewed();
  k.unanswered[0].refused();
  EXPECT_TRUE(k.lease.held());
  EXPECT_FALSE(k.lost);
}

// B16: the release arrives before what it is to release.
TEST(LeaseKeeperStory, AReleaseWinsThatComesBeforeTheLockIsGranted) {
  Kept k;
  k.lease = k.keeper.claim();
  EXPECT_FALSE(k.lease.release());
  EXPECT_FALSE(k.lease.hold(k.renew(), k.on_lost())) << "the caller gives the lock back";
  EXPECT_EQ(k.timer.pending(), 0U);
  k.time.advance(hours(1));
  EXPECT_TRUE(k.renewals.empty());
}

// B16, F16: a release that comes late, and a renewal that is answered late, of an old lease; a new
// lease of the same lock is renewed.
TEST(LeaseKeeperStory, WhatIsLateDoesNotTouchTheNextLease) {
  Kept k;
  k.hold();
  Lease old = std::move(k.lease);
  k.answer = Kept::kKeep;
  k.time.advance(seconds(10));
  EXPECT_TRUE(old.release());
  k.answer = Kept::kRenew;
  k.hold();
  EXPECT_GT(k.lease.generation(), old.generation());
  EXPECT_EQ(k.timer.pending(), 2U);
  k.unanswered[0].renewed();
  EXPECT_FALSE(old.release());
  old = {};
  EXPECT_FALSE(old.held());
  EXPECT_EQ(k.timer.pending(), 2U);
  k.time.advance(hours(1));
  EXPECT_TRUE(k.lease.held());
  EXPECT_EQ(k.renewals.size(), 361U);
}

TEST(LeaseKeeper, ItMayBeReleasedInItsOwnCallbacks) {
  Kept k;
  k.lease = k.keeper.claim();
  ASSERT_TRUE(
      k.lease.hold([&](RenewReply) { EXPECT_TRUE(k.lease.release()); }, [](LeaseLoss) { FAIL(); }));
  k.time.advance(hours(1));
  EXPECT_EQ(k.timer.pending(), 0U);
  Lease other = k.keeper.claim();
  bool lost = false;
  ASSERT_TRUE(other.hold([](RenewReply reply) { reply.refused(); },
                         [&](LeaseLoss) {
                           other = {};
                           lost = true;
                         }));
  k.time.advance(hours(1));
  EXPECT_TRUE(lost);
}

TEST(LeaseKeeper, WhatCallbacksOwnIsReleasedWithTheLease) {
  Kept k;
  const auto payload = std::make_shared<int>(1);
  k.lease = k.keeper.claim();
  ASSERT_TRUE(
      k.lease.hold([payload](RenewReply reply) { reply.renewed(); }, [payload](LeaseLoss) {}));
  k.time.advance(seconds(100));
  EXPECT_EQ(payload.use_count(), 3);
  k.lease.release();
  EXPECT_EQ(payload.use_count(), 1);
}

TEST(LeaseKeeper, AStoppedTimerKeepsNothing) {
  Kept k;
  k.lease = k.keeper.claim();
  k.timer.stop();
  EXPECT_FALSE(k.lease.hold(k.renew(), k.on_lost()));
  EXPECT_FALSE(k.lease.held());
}

TEST(LeaseKeeper, ATimerThatIsStoppedLaterEndsItByTheClock) {
  Kept k;
  k.hold();
  k.timer.stop();
  k.time.advance(seconds(27) - Span(1));
  EXPECT_TRUE(k.lease.held());
  k.time.advance(Span(1));
  EXPECT_FALSE(k.lease.held());
  EXPECT_FALSE(k.lease.release());
}

TEST(LeaseKeeper, RenewalsGoOnInATimerThatIsFull) {
  ManualDriver time;
  TimerOptions options;
  options.max_pending = 2;
  Timer timer(time.options(options));
  LeaseKeeper keeper(timer);
  Lease lease = keeper.claim();
  int renewals = 0;
  ASSERT_TRUE(lease.hold(
      [&](RenewReply reply) {
        ++renewals;
        EXPECT_EQ(timer.after(seconds(1), [] {}).refusal(), Refusal::kLimit);
        renewals % 2 == 0 ? reply.renewed() : reply.failed();
      },
      [](LeaseLoss) { FAIL(); }));
  Lease another = keeper.claim();
  EXPECT_FALSE(another.hold([](RenewReply) { FAIL(); }, [](LeaseLoss) { FAIL(); }));
  time.advance(seconds(120));
  EXPECT_TRUE(lease.held());
  EXPECT_EQ(renewals, 20);
}

TEST(LeaseKeeperDeathTest, OptionsThatCannotBeKeptStopTheProgram) {
  ManualDriver time;
  Timer timer(time.options());
  EXPECT_DEATH(LeaseKeeper(timer, {.life = seconds(10), .renew_after = seconds(9)}), "a lease of");
}

// Threads that hold and release, a Timer that renews, a lock that answers anything, at once or
// later from another thread. Each lease ends once: it is released, and then nobody is told, ever;
// or it is over, and the holder is told once, or finds out by the release.
TEST(LeaseKeeperStress, EachLeaseEndsOnce) {
  struct End {
    std::atomic<int> told{0};
    bool released = false;
  };
  constexpr int kThreads = 4;
  constexpr int kLeases = 300;
  std::vector<std::vector<std::shared_ptr<End>>> ends(kThreads);
  Mutex mutex;
  std::vector<RenewReply> unanswered;
  {
    Timer timer({.tick = microseconds(50)});
    LeaseKeeper keeper(timer, {.life = milliseconds(1)});
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Random random(static_cast<std::uint64_t>(t) + 1);
        for (int i = 0; i < kLeases; ++i) {
          auto end = std::make_shared<End>();
          auto answers = std::make_shared<std::atomic<std::uint64_t>>(random());
          Lease lease = keeper.claim();
          const bool held = lease.hold(
              [&, answers](RenewReply reply) {
                switch (answers->fetch_add(1) % 8) {
                  case 0: return reply.refused();
                  case 1: return reply.failed();
                  case 2: return;
                  case 3: {
                    const MutexLock lock(mutex);
                    return unanswered.push_back(std::move(reply));
                  }
                  default: return reply.renewed();
                }
              },
              [end](LeaseLoss) { ++end->told; });
          if (!held) {
            continue;  // This thread was held up for a millisecond.
          }
          const Instant until = timer.now() + microseconds(random.between(0, 3000));
          while (timer.now() < until) {
            std::this_thread::yield();
          }
          end->released = lease.release();
          ends[static_cast<std::size_t>(t)].push_back(end);
          std::vector<RenewReply> late;
          {
            const MutexLock lock(mutex);
            late.swap(unanswered);
          }
          for (RenewReply& reply : late) {
            random.between(0, 1) == 0 ? reply.renewed() : reply.refused();
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_TRUE(timer.stop().empty());
    unanswered.clear();
  }
  int released = 0;
  int told = 0;
  for (const auto& of_thread : ends) {
    for (const auto& end : of_thread) {
      EXPECT_LE(end->told, end->released ? 0 : 1);
      released += end->released ? 1 : 0;
      told += end->told;
    }
  }
  EXPECT_GT(released, 0);
  EXPECT_GT(told, 0);
}

}  // namespace
}  // namespace carillon
