// SPDX-License-Identifier: Apache-2.0
// On a real Redis and in real time, so that only what is too early is measured; what is late is
// waited for.
#include "redis_lock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "carillon/base/clock.h"
#include "processes.h"

namespace carillon::redis_lock {
namespace {

using namespace std::chrono_literals;

constexpr const char* kKey = "lock";
constexpr Span kPatience = 30s;

// What a holder is told.
class Told {
 public:
  auto on_lost() {
    return [this](LeaseLoss loss) {
      const std::lock_guard lock(mutex_);
      EXPECT_FALSE(loss_) << "told twice";
      loss_ = loss;
      at_ = SteadyClock().now();
      told_.notify_all();
    };
  }
  std::optional<LeaseLoss> wait(Span at_most = kPatience) {
    std::unique_lock lock(mutex_);
    told_.wait_for(lock, at_most, [this] { return loss_.has_value(); });
    return loss_;
  }
  Instant at() {
    const std::lock_guard lock(mutex_);
    return at_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable told_;
  std::optional<LeaseLoss> loss_;
  Instant at_;
};

class RedisLockTest : public testing::Test {
 protected:
  RedisLockTest() {
    ::signal(SIGPIPE, SIG_IGN);
    server_.start();
  }

  RedisServer server_;
  RedisConnection redis_{server_.unix_socket(), 5s};
  Told told_;
  Timer timer_;
  // Renewed after 1 s, again each 200 ms, counts as lost after 2.7 s.
  LeaseKeeper keeper_{timer_, {.life = 3s}};
  RedisLock lock_{keeper_, server_.unix_socket(), kKey};
};

TEST_F(RedisLockTest, IsHeldByOneAndKeptBeyondItsLife) {
  ASSERT_TRUE(lock_.try_lock(told_.on_lost()));
  EXPECT_EQ(redis_.ask({"GET", kKey}).text, lock_.token());
  RedisLock other(keeper_, server_.unix_socket(), kKey);
  EXPECT_FALSE(other.try_lock([](LeaseLoss) { FAIL(); }));
  EXPECT_EQ(told_.wait(4s), std::nullopt) << "longer than a life";
  EXPECT_TRUE(lock_.held());
  EXPECT_GT(redis_.ask({"PTTL", kKey}).number, 0);
  EXPECT_FALSE(other.try_lock([](LeaseLoss) { FAIL(); }));
  EXPECT_TRUE(lock_.unlock());
  EXPECT_FALSE(lock_.held());
  EXPECT_EQ(redis_.ask({"GET", kKey}).kind, Reply::Kind::kNothing);
  EXPECT_TRUE(other.try_lock([](LeaseLoss) {}));
  EXPECT_FALSE(lock_.unlock());
  EXPECT_EQ(redis_.ask({"GET", kKey}).text, other.token()) << "unlocking twice leaves it alone";
}

TEST_F(RedisLockTest, AHolderIsToldByTheNextRenewalThatItsKeyIsGone) {
  ASSERT_TRUE(lock_.try_lock(told_.on_lost()));
  EXPECT_EQ(redis_.ask({"DEL", kKey}).number, 1);
  EXPECT_EQ(told_.wait(), LeaseLoss::kRefused) << "and not that its time is over";
  EXPECT_FALSE(lock_.held());
  EXPECT_FALSE(lock_.unlock());
}

TEST_F(RedisLockTest, AHolderIsToldThatAnotherHasItsKeyAndLeavesThatAlone) {
  ASSERT_TRUE(lock_.try_lock(told_.on_lost()));
  ASSERT_EQ(redis_.ask({"SET", kKey, "another's", "PX", "60000"}).text, "OK");
  EXPECT_EQ(told_.wait(), LeaseLoss::kRefused);
  EXPECT_FALSE(lock_.unlock());
  EXPECT_EQ(redis_.ask({"GET", kKey}).text, "another's");
  EXPECT_GT(redis_.ask({"PTTL", kKey}).number, 10'000) << "nor was its life changed";
}

TEST_F(RedisLockTest, ALateExtensionOrReleaseOfAnOldLeaseDoesNotTouchTheNext) {
  ASSERT_TRUE(lock_.try_lock(told_.on_lost()));
  const std::string old = lock_.token();
  ASSERT_TRUE(lock_.unlock());
  ASSERT_TRUE(lock_.try_lock(told_.on_lost())) << "of the same process";
  EXPECT_NE(lock_.token(), old);
  LockKey late(server_.unix_socket(), kKey, 5s);
  EXPECT_EQ(late.extend(old, 60s), Answer::kNo);
  EXPECT_EQ(late.release(old), Answer::kNo);
  EXPECT_EQ(redis_.ask({"GET", kKey}).text, lock_.token());
  EXPECT_LE(redis_.ask({"PTTL", kKey}).number, 3'000);
  EXPECT_TRUE(lock_.unlock());
}

TEST_F(RedisLockTest, WithoutRedisItIsHeldUntilTheLeaseWouldEndAndThenLost) {
  for (const bool suspended : {false, true}) {
    SCOPED_TRACE(suspended ? "it does not answer" : "it is gone");
    Told told;
    const Instant before = SteadyClock().now();
    ASSERT_TRUE(lock_.try_lock(told.on_lost()));
    suspended ? server_.suspend() : server_.stop();
    EXPECT_EQ(told.wait(), LeaseLoss::kExpired);
    EXPECT_GE(told.at() - before, 2700ms) << "not before";
    EXPECT_FALSE(lock_.held());
    EXPECT_FALSE(lock_.unlock());
    if (!suspended) server_.start();
  }
}

// Renewals fail meanwhile, and are tried again until one succeeds.
TEST_F(RedisLockTest, ARedisThatComesBackInTimeRenewsIt) {
  LeaseKeeper keeper(timer_, {.life = 6s});
  RedisLock lock(keeper, server_.unix_socket(), kKey);
  ASSERT_TRUE(lock.try_lock(told_.on_lost()));
  server_.suspend();
  EXPECT_EQ(told_.wait(2600ms), std::nullopt);  // The renewal after 2 s has failed after 2.4 s.
  server_.resume();
  const Instant give_up = SteadyClock().now() + kPatience;
  while (redis_.ask({"PTTL", kKey}).number < 4'500 && SteadyClock().now() < give_up) {
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_GE(redis_.ask({"PTTL", kKey}).number, 3'500) << "anew";
  EXPECT_TRUE(lock.held());
  EXPECT_EQ(told_.wait(Span::zero()), std::nullopt);
}

TEST_F(RedisLockTest, ARedisThatComesBackEmptyRefusesIt) {
  LeaseKeeper keeper(timer_, {.life = 10s});
  RedisLock lock(keeper, server_.unix_socket(), kKey);
  ASSERT_TRUE(lock.try_lock(told_.on_lost()));
  server_.stop();
  server_.start();
  EXPECT_EQ(told_.wait(), LeaseLoss::kRefused);
}

TEST_F(RedisLockTest, AnErrorIsNotARefusal) {
  ASSERT_TRUE(lock_.try_lock(told_.on_lost()));
  LockKey key(server_.unix_socket(), kKey, 5s);
  ASSERT_EQ(redis_.ask({"RPUSH", "list", "x"}).number, 1);
  LockKey list(server_.unix_socket(), "list", 5s);
  EXPECT_EQ(list.extend("x", 1s), Answer::kFailed) << "WRONGTYPE";
  EXPECT_EQ(key.acquire("x", 1s), Answer::kNo);
  LockKey nowhere("/nowhere", kKey, 5s);
  EXPECT_EQ(nowhere.acquire("x", 1s), Answer::kFailed);
  RedisLock out_of_reach(keeper_, "/nowhere", kKey);
  EXPECT_FALSE(out_of_reach.try_lock([](LeaseLoss) { FAIL(); }));
}

TEST_F(RedisLockTest, AnAnswerThatIsLateIsNotTakenForTheNext) {
  RedisConnection impatient(server_.unix_socket(), 50ms);
  ASSERT_EQ(impatient.ask({"ECHO", "first"}).text, "first");
  server_.suspend();
  EXPECT_EQ(impatient.ask({"ECHO", "second"}).kind, Reply::Kind::kFailed);
  server_.resume();
  Reply reply;
  for (int i = 0; i < 100 && reply.kind == Reply::Kind::kFailed; ++i) {
    reply = impatient.ask({"ECHO", "third"});
  }
  EXPECT_EQ(reply.text, "third");
}

// Two processes. The example's own test has the first killed; here it gives the lock back.
TEST_F(RedisLockTest, AnotherProcessHasItAsSoonAsItIsGivenBack) {
  Child first({CARILLON_REDIS_LOCK, "hold", server_.unix_socket(), "first"});
  EXPECT_EQ(first.line(kPatience), "first has the lock");
  Child second({CARILLON_REDIS_LOCK, "hold", server_.unix_socket(), "second"});
  EXPECT_EQ(second.line(kPatience), "second waits");
  EXPECT_EQ(second.line(4s), std::nullopt) << "kept beyond its life";
  first.end_input();
  EXPECT_EQ(first.line(kPatience), "first gives the lock back");
  EXPECT_EQ(second.line(kPatience), "second has the lock");
}

}  // namespace
}  // namespace carillon::redis_lock
