// SPDX-License-Identifier: Apache-2.0
// The same tests over Asio's steady_timer and ours: what holds for the one holds for the other. On
// the real clock, which steady_timer has; no test waits for more than some milliseconds.
#include "carillon/timer/asio_wheel_timer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "carillon/timer/asio_fixture.h"

#if defined(CARILLON_ASIO_STANDALONE)
#include <asio/experimental/deferred.hpp>
#endif

namespace carillon {
namespace {

using namespace std::chrono_literals;
using testing::error_code;
using testing::kAborted;
using testing::Log;
using testing::wheel_timer;
namespace net = testing::net;
using Clock = std::chrono::steady_clock;
using Entries = std::vector<Log::Entry>;

// A Timer of the context's own, and one that is given.
struct OnSteady {
  using Type = net::steady_timer;
  Type make(net::io_context& io) { return Type(io); }
};
struct OnWheel {
  using Type = wheel_timer;
  Type make(net::io_context& io) { return Type(io); }
};
struct OnSharedWheel {
  using Type = wheel_timer;
  Type make(net::io_context& io) { return Type(timer, io); }
  Timer timer;
};

template <class Kind>
class AsioTimer : public ::testing::Test {
 public:
  Kind kind;
  net::io_context io;
  Log log;
};
using Kinds = ::testing::Types<OnSteady, OnWheel, OnSharedWheel>;
TYPED_TEST_SUITE(AsioTimer, Kinds);

TYPED_TEST(AsioTimer, CompletesAtItsExpiryAndNotBefore) {
  auto timer = this->kind.make(this->io);
  for (const auto delay : {1ms, 3ms, 0ms, -1ms}) {
    const auto begun = Clock::now();
    timer.expires_after(delay);
    EXPECT_GE(timer.expiry(), begun + delay);
    bool called = false;
    timer.async_wait([&](error_code error) {
      called = true;
      EXPECT_FALSE(error);
      EXPECT_GE(Clock::now(), begun + delay);
    });
    EXPECT_FALSE(called) << "never inside async_wait";
    this->io.restart();
    EXPECT_EQ(this->io.run(), 1U) << "a wait is work: run() does not return before";
    EXPECT_TRUE(called);
  }
}

TYPED_TEST(AsioTimer, OneThatWasNeverSetHasExpired) {
  auto timer = this->kind.make(this->io);
  EXPECT_EQ(timer.expiry(), Clock::time_point());
  timer.async_wait(this->log.handler(1));
  this->io.run();
  EXPECT_EQ(this->log.entries(), (Entries{{1, {}}}));
}

TYPED_TEST(AsioTimer, ExpiresAtAPointInTime) {
  auto timer = this->kind.make(this->io);
  const auto at = Clock::now() + 2ms;
  EXPECT_EQ(timer.expires_at(at), 0U);
  EXPECT_EQ(timer.expiry(), at);
  timer.async_wait(this->log.handler(1));
  timer.async_wait(this->log.handler(2));
  this->io.run();
  EXPECT_GE(Clock::now(), at);
  EXPECT_EQ(this->log.entries(), (Entries{{1, {}}, {2, {}}}));
}

TYPED_TEST(AsioTimer, CancelEndsEachWaitAborted) {
  auto timer = this->kind.make(this->io);
  EXPECT_EQ(timer.cancel(), 0U);
  timer.expires_after(1h);
  timer.async_wait(this->log.handler(1));
  timer.async_wait(this->log.handler(2));
  EXPECT_EQ(timer.cancel(), 2U);
  EXPECT_EQ(timer.cancel(), 0U) << "each is cancelled once";
  EXPECT_TRUE(this->log.entries().empty()) << "never inside cancel()";
  this->io.run();
  EXPECT_EQ(this->log.entries(), (Entries{{1, kAborted}, {2, kAborted}}));
}

TYPED_TEST(AsioTimer, CancelOneEndsTheOldest) {
  auto timer = this->kind.make(this->io);
  timer.expires_after(1h);
  for (int number = 1; number <= 3; ++number) {
    timer.async_wait(this->log.handler(number));
  }
  EXPECT_EQ(timer.cancel_one(), 1U);
  this->io.poll();
  EXPECT_EQ(this->log.entries(), (Entries{{1, kAborted}}));
  EXPECT_EQ(timer.cancel(), 2U);
  EXPECT_EQ(timer.cancel_one(), 0U);
  this->io.run();
  EXPECT_EQ(this->log.entries().size(), 3U);
}

TYPED_TEST(AsioTimer, OneThatIsCancelledKeepsItsExpiry) {
  auto timer = this->kind.make(this->io);
  timer.expires_after(2ms);
  const auto at = timer.expiry();
  timer.async_wait(this->log.handler(1));
  timer.cancel();
  EXPECT_EQ(timer.expiry(), at);
  timer.async_wait(this->log.handler(2));
  this->io.run();
  EXPECT_GE(Clock::now(), at);
  EXPECT_EQ(this->log.entries(), (Entries{{1, kAborted}, {2, {}}}));
}

TYPED_TEST(AsioTimer, ToSetItAnewCancelsWhatWaits) {
  auto timer = this->kind.make(this->io);
  timer.expires_after(1h);
  timer.async_wait(this->log.handler(1));
  EXPECT_EQ(timer.expires_after(1ms), 1U);
  timer.async_wait(this->log.handler(2));
  this->io.run();
  EXPECT_EQ(this->log.entries(), (Entries{{1, kAborted}, {2, {}}}));
  EXPECT_EQ(timer.expires_after(1h), 0U) << "nothing waits";
}

TYPED_TEST(AsioTimer, TheDestructorCancels) {
  {
    auto timer = this->kind.make(this->io);
    timer.expires_after(1h);
    timer.async_wait(this->log.handler(1));
  }
  this->io.run();
  EXPECT_EQ(this->log.entries(), (Entries{{1, kAborted}}));
}

TYPED_TEST(AsioTimer, WaitsMoveWithIt) {
  auto timer = this->kind.make(this->io);
  timer.expires_after(1h);
  timer.async_wait(this->log.handler(1));
  auto moved = std::move(timer);
  auto other = this->kind.make(this->io);
  other.expires_after(1h);
  other.async_wait(this->log.handler(2));
  other = std::move(moved);  // Cancels what other had.
  this->io.poll();
  EXPECT_EQ(this->log.entries(), (Entries{{2, kAborted}}));
  EXPECT_EQ(other.cancel(), 1U);
  this->io.run();
  EXPECT_EQ(this->log.entries(), (Entries{{2, kAborted}, {1, kAborted}}));
}

TYPED_TEST(AsioTimer, AHandlerMaySetItAgain) {
  auto timer = this->kind.make(this->io);
  int rounds = 0;
  std::function<void(error_code)> again = [&](error_code error) {
    ASSERT_FALSE(error);
    if (++rounds < 5) {
      timer.expires_at(timer.expiry() + 1ms);  // As the tutorials do, for no drift.
      timer.async_wait(again);
    }
  };
  const auto begun = Clock::now();
  timer.expires_at(begun + 1ms);
  timer.async_wait(again);
  this->io.run();
  EXPECT_EQ(rounds, 5);
  EXPECT_GE(Clock::now(), begun + 5ms);
}

TYPED_TEST(AsioTimer, AHandlerThatIsOnlyMoved) {
  auto timer = this->kind.make(this->io);
  timer.expires_after(1ms);
  auto owned = std::make_unique<int>(7);
  int seen = 0;
  timer.async_wait([&, owned = std::move(owned)](error_code) { seen = *owned; });
  this->io.run();
  EXPECT_EQ(seen, 7);
}

TYPED_TEST(AsioTimer, HandlersAreCalledOnTheirAssociatedExecutor) {
  net::io_context other;
  auto timer = this->kind.make(this->io);
  timer.expires_after(1ms);
  timer.async_wait(net::bind_executor(other.get_executor(), this->log.handler(1)));
  this->io.run();
  EXPECT_TRUE(this->log.entries().empty());
  other.run();
  EXPECT_EQ(this->log.entries(), (Entries{{1, {}}}));
}

TYPED_TEST(AsioTimer, AContextThatIsDestroyedDestroysHandlersUncalled) {
  using T = typename TypeParam::Type;
  const auto witness = std::make_shared<int>(0);
  {
    net::io_context short_lived;
    // As sessions do: the handler owns the timer that it waits for.
    auto timer = std::make_shared<T>(this->kind.make(short_lived));
    timer->expires_after(1h);
    T& waiting = *timer;
    waiting.async_wait([witness, timer](error_code) { ++*witness; });
    timer.reset();
    EXPECT_EQ(witness.use_count(), 2);
  }
  EXPECT_EQ(witness.use_count(), 1);
  EXPECT_EQ(*witness, 0);
}

TYPED_TEST(AsioTimer, UseFuture) {
  auto timer = this->kind.make(this->io);
  timer.expires_after(1ms);
  std::future<void> done = timer.async_wait(net::use_future);
  this->io.run();
  EXPECT_NO_THROW(done.get());
  timer.expires_after(1h);
  std::future<void> never = timer.async_wait(net::use_future);
  timer.cancel();
  this->io.restart();
  this->io.run();
  EXPECT_THROW(never.get(), carillon::asio::system_error);
}

#if defined(CARILLON_ASIO_COROUTINES)
TYPED_TEST(AsioTimer, UseAwaitable) {
  using T = typename TypeParam::Type;
  T timer = this->kind.make(this->io);
  T canceller = this->kind.make(this->io);
  const auto waiter = [&]() -> net::awaitable<int> {
    timer.expires_after(1ms);
    co_await timer.async_wait(net::use_awaitable);
    EXPECT_GE(Clock::now(), timer.expiry());
    timer.expires_after(1h);
    canceller.expires_after(1ms);
    canceller.async_wait([&](error_code) { timer.cancel(); });
    error_code error;
    co_await timer.async_wait(net::redirect_error(net::use_awaitable, error));
    EXPECT_EQ(error, kAborted);
    co_return 7;
  };
  int answer = 0;
  net::co_spawn(this->io, waiter(), [&](const std::exception_ptr& thrown, int value) {
    EXPECT_FALSE(thrown);
    answer = value;
  });
  this->io.run();
  EXPECT_EQ(answer, 7);
}
#endif

TYPED_TEST(AsioTimer, WaitBlocksUntilItsExpiry) {
  auto timer = this->kind.make(this->io);
  timer.wait();
  timer.expires_after(2ms);
  timer.wait();
  EXPECT_GE(Clock::now(), timer.expiry());
  error_code error = kAborted;
  timer.wait(error);
  EXPECT_FALSE(error);
}

TYPED_TEST(AsioTimer, ConstructorsSetTheExpiry) {
  using T = typename TypeParam::Type;
  const auto at = Clock::now() + 1h;
  EXPECT_EQ(T(this->io, at).expiry(), at);
  EXPECT_EQ(T(this->io.get_executor(), at).expiry(), at);
  EXPECT_GE(T(this->io, 2h).expiry(), at);
  EXPECT_GE(T(this->io.get_executor(), 2h).expiry(), at);
  EXPECT_EQ(T(this->io).get_executor(), this->io.get_executor());
  typename T::template rebind_executor<net::io_context::executor_type>::other bound(this->io, at);
  bound.async_wait(this->log.handler(1));
  EXPECT_EQ(bound.cancel(), 1U);
}

#if CARILLON_ASIO_VERSION >= 102000
TYPED_TEST(AsioTimer, ACancellationSlotEndsItsWaitOnly) {
  auto timer = this->kind.make(this->io);
  net::cancellation_signal signal;
  timer.expires_after(1h);
  timer.async_wait(this->log.handler(1));
  timer.async_wait(net::bind_cancellation_slot(signal.slot(), this->log.handler(2)));
  signal.emit(net::cancellation_type::total);
  this->io.poll();
  EXPECT_EQ(this->log.entries(), (Entries{{2, kAborted}}));
  EXPECT_EQ(timer.cancel(), 1U);
  this->io.run();
  signal.emit(net::cancellation_type::terminal);  // Late: nothing.
  EXPECT_EQ(this->log.entries().size(), 2U);
}
#endif

#if defined(CARILLON_ASIO_STANDALONE)
TYPED_TEST(AsioTimer, DeferredBeginsWhenItIsCalled) {
  auto timer = this->kind.make(this->io);
  timer.expires_after(1h);
  auto wait = timer.async_wait(net::experimental::deferred);
  EXPECT_EQ(timer.cancel(), 0U);
  std::move(wait)(this->log.handler(1));
  EXPECT_EQ(timer.cancel(), 1U);
  this->io.run();
  EXPECT_EQ(this->log.entries(), (Entries{{1, kAborted}}));
}
#endif

// Each handler is called once, whoever wins: two threads, and a cancel close to the expiry.
TYPED_TEST(AsioTimer, ExpiryAndCancelRace) {
  using T = typename TypeParam::Type;
  constexpr int kTimers = 400;
  struct Session {
    explicit Session(T&& made) : timer(std::move(made)) {}
    T timer;
    std::optional<T> canceller;
    std::atomic<int> called{0};
    std::atomic<std::size_t> cancelled{0};
    std::atomic<int> aborted{0};
  };
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < kTimers; ++i) {
    auto session = std::make_unique<Session>(this->kind.make(this->io));
    session->canceller.emplace(this->kind.make(this->io));
    Session& at = *session;
    const auto strand = net::make_strand(this->io);
    at.timer.expires_after(1ms + (i % 7) * 100us);
    at.canceller->expires_after(1ms + (i % 5) * 150us);
    at.timer.async_wait(net::bind_executor(strand, [&at](error_code error) {
      ++at.called;
      at.aborted += error ? 1 : 0;
    }));
    at.canceller->async_wait(
        net::bind_executor(strand, [&at](error_code) { at.cancelled = at.timer.cancel(); }));
    sessions.push_back(std::move(session));
  }
  std::thread second([&] { this->io.run(); });
  this->io.run();
  second.join();
  for (const auto& session : sessions) {
    EXPECT_EQ(session->called, 1);
    EXPECT_EQ(session->aborted, static_cast<int>(session->cancelled)) << "cancel tells the truth";
  }
}

}  // namespace
}  // namespace carillon
