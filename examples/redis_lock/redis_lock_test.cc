// SPDX-License-Identifier: Apache-2.0
// On a real Redis and in real time, so that only what is too early is measured; what is late is
// waited for. What needs a machine that does not stand still for a second is observed again if it
// did (observe()).
#include "redis_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "carillon/base/clock.h"
#include "processes.h"

namespace carillon::redis_lock {
namespace {

using namespace std::chrono_literals;

constexpr const char* kKey = "lock";
constexpr Span kPatience = 60s;

// What a holder is told; it may be told when this has gone.
class Told {
 public:
  [[nodiscard]] auto on_lost() const {
    return [state = state_](LeaseLoss loss) {
      const std::lock_guard lock(state->mutex);
      EXPECT_FALSE(state->loss) << "told twice";
      state->loss = loss;
      state->at = SteadyClock().now();
      state->changed.notify_all();
    };
  }
  [[nodiscard]] std::optional<LeaseLoss> wait(Span at_most = kPatience) const {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, at_most, [this] { return state_->loss.has_value(); });
    return state_->loss;
  }
  [[nodiscard]] Instant at() const {
    const std::lock_guard lock(state_->mutex);
    return state_->at;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<LeaseLoss> loss;
    Instant at;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// The longest that a thread, which only sleeps, was kept from running.
class StallWatch {
 public:
  ~StallWatch() { longest(); }
  Span longest() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
    return longest_;
  }

 private:
  void run() {
    constexpr Span kPause = 10ms;
    Instant before = SteadyClock().now();
    while (!stopped_) {
      std::this_thread::sleep_for(kPause);
      const Instant now = SteadyClock().now();
      longest_ = std::max(longest_, now - before - kPause);
      before = now;
    }
  }

  std::atomic<bool> stopped_{false};
  Span longest_{};
  std::thread thread_{[this] { run(); }};
};

// What `look` sees. Looks again if the machine stood still meanwhile: then a lease was lost as it
// ought to be.
template <class Look>
auto observe(Look look) {
  for (;;) {
    StallWatch watch;
    auto seen = look();
    if (watch.longest() < 500ms) return seen;
  }
}

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
  RedisLock other(keeper_, server_.unix_socket(), kKey);
  const std::string kept = observe([&] {
    Told told;
    if (!lock_.try_lock(told.on_lost())) return "not taken";
    if (redis_.ask({"GET", kKey}).text != lock_.token()) return "another token";
    if (other.try_lock([](LeaseLoss) {})) return "taken by another";
    if (told.wait(4s)) return "lost before a life and a second had passed";
    if (!lock_.held()) return "not held";
    return other.try_lock([](LeaseLoss) {}) ? "taken by another later" : "kept";
  });
  ASSERT_EQ(kept, "kept");
  EXPECT_TRUE(lock_.unlock());
  EXPECT_FALSE(lock_.held());
  EXPECT_EQ(redis_.ask({"GET", kKey}).kind, Reply::Kind::kNothing);
  EXPECT_TRUE(other.try_lock([](LeaseLoss) {}));
  EXPECT_FALSE(lock_.unlock());
  EXPECT_EQ(redis_.ask({"GET", kKey}).text, other.token()) << "unlocking twice leaves it alone";
}

TEST_F(RedisLockTest, AHolderIsToldByTheNextRenewalThatItsKeyIsGone) {
  const auto loss = observe([&] {
    Told told;
    EXPECT_TRUE(lock_.try_lock(told.on_lost()));
    EXPECT_EQ(redis_.ask({"DEL", kKey}).number, 1);
    return told.wait();
  });
  EXPECT_EQ(loss, LeaseLoss::kRefused) << "and not that its time is over";
  EXPECT_FALSE(lock_.held());
  EXPECT_FALSE(lock_.unlock());
}

TEST_F(RedisLockTest, AHolderIsToldThatAnotherHasItsKeyAndLeavesThatAlone) {
  const auto loss = observe([&] {
    redis_.ask({"DEL", kKey});
    Told told;
    EXPECT_TRUE(lock_.try_lock(told.on_lost()));
    EXPECT_EQ(redis_.ask({"SET", kKey, "another's", "PX", "600000"}).text, "OK");
    return told.wait();
  });
  EXPECT_EQ(loss, LeaseLoss::kRefused);
  EXPECT_FALSE(lock_.unlock());
  EXPECT_EQ(redis_.ask({"GET", kKey}).text, "another's");
  EXPECT_GT(redis_.ask({"PTTL", kKey}).number, 300'000) << "nor was its life changed";
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
  const std::string renewed = observe([&] {
    Told told;
    if (!lock.try_lock(told.on_lost())) return "not taken";
    server_.suspend();
    const bool lost = told.wait(2600ms).has_value();  // The renewal after 2 s fails after 2.4 s.
    server_.resume();
    if (lost) return "lost too early";
    for (int i = 0; i < 300; ++i) {
      if (redis_.ask({"PTTL", kKey}).number > 4'500) break;  // It was 3,400.
      if (told.wait(10ms)) return "lost though Redis is back";
    }
    if (redis_.ask({"PTTL", kKey}).number < 3'500) return "not renewed";
    return lock.held() ? "renewed" : "not held";
  });
  EXPECT_EQ(renewed, "renewed");
}

TEST_F(RedisLockTest, ARedisThatComesBackEmptyRefusesIt) {
  LeaseKeeper keeper(timer_, {.life = 10s});
  RedisLock lock(keeper, server_.unix_socket(), kKey);
  const auto loss = observe([&] {
    Told told;
    EXPECT_TRUE(lock.try_lock(told.on_lost()));
    server_.stop();
    server_.start();
    return told.wait();
  });
  EXPECT_EQ(loss, LeaseLoss::kRefused);
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

TEST_F(RedisLockTest, AnotherProcessHasItAsSoonAsItIsGivenBack) {
  const std::vector<std::string> lines = observe([&] {
    Child first({CARILLON_REDIS_LOCK, "hold", server_.unix_socket(), "first"});
    std::vector<std::string> said{first.line(kPatience).value_or("")};
    Child second({CARILLON_REDIS_LOCK, "hold", server_.unix_socket(), "second"});
    said.push_back(second.line(kPatience).value_or(""));
    said.push_back(second.line(4s).value_or("(nothing for longer than a life)"));
    first.end_input();
    said.push_back(first.line(kPatience).value_or(""));
    said.push_back(second.line(kPatience).value_or(""));
    redis_.ask({"DEL", "lock:report"});
    return said;
  });
  EXPECT_THAT(lines, testing::ElementsAre("first has the lock", "second waits",
                                          "(nothing for longer than a life)",
                                          "first gives the lock back", "second has the lock"));
}

// The first is killed, and the second has the lock when the lease is over, and not before.
TEST_F(RedisLockTest, TheExampleTellsItsStory) {
  const auto lines_of = [](auto next) {
    std::vector<std::string> lines;
    while (auto line = next()) lines.push_back(*line);
    return lines;
  };
  const std::vector<std::string> story = observe([&] {
    Child program({CARILLON_REDIS_LOCK});
    return lines_of([&] { return program.line(kPatience); });
  });
  std::ifstream in(CARILLON_REDIS_LOCK_EXPECTED);
  const std::vector<std::string> expected = lines_of([&] {
    std::string line;
    return std::getline(in, line) ? std::optional(line) : std::nullopt;
  });
  EXPECT_GT(expected.size(), 5U);
  EXPECT_EQ(story, expected);
}

}  // namespace
}  // namespace carillon::redis_lock
