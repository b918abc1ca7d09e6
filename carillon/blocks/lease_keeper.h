// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Holds a lock that lives elsewhere and is only lent: a key in Redis with a time to live, a row, a
/// session of a coordinator. Renews it in time, and tells the holder at once when it is lost.
///
///     |<------------------- life: 30 s ------------------->|
///     begun                                                the lock may be another's
///     |        10 s: renew()                        27 s   |
///     |        |  fails: again each 2 s ...         |      |
///     |        v                                    v
///     |        renewed: all of this anew            on_lost(kExpired): stop, now
///     |                 from when it was begun      (a margin before the end)
///
/// What goes wrong by hand, and does not here:
///
///   - *One failed renewal ends them all.* It is retried until the lease would end.
///   - *The life is counted from the answer.* The lock counts from when it got the request, which
///     was before; so here it counts from when the request was begun.
///   - *A renewal that outlives its lease.* A release may come before the lock was even granted,
///     and the answer to a renewal after the release. Each lease has a generation, and what is late
///     finds that its own is over: it neither revives it nor touches the next.
///   - *A holder that does not know.* held() is false from a margin before the end on, by the
///     clock, whether or not any thread has got around to say so.
///
/// No lease makes a write safe that is already under way when it ends: have the store refuse a
/// stale fencing token, if it can.

#include <cstdint>
#include <memory>

#include "carillon/base/time.h"
#include "carillon/timer/timer.h"
#include "carillon/timer/unique_function.h"

namespace carillon {

/// Why a lease is lost.
enum class LeaseLoss : std::uint8_t {
  /// No renewal has succeeded in time.
  kExpired,
  /// The lock said that it is not ours any more.
  kRefused,
};

struct LeaseKeeperOptions {
  /// How long the lock is lent for, as it was asked for.
  Span life = std::chrono::seconds(30);
  /// When to renew, from when the last success was begun. 0: a third of the life.
  Span renew_after{};
  /// When to try again, after a failure, or if no answer has come. 0: a fifteenth of the life.
  Span retry_after{};
  /// So long before the end of its life a lease counts as lost: for clocks that differ, and for the
  /// holder to stop. 0: a tenth of the life.
  Span margin{};
};

namespace internal {
struct LeaseState;
}  // namespace internal

/// To answer a renewal with, once, from any thread. If it is destroyed without an answer, the
/// renewal has failed.
class RenewReply {
 public:
  RenewReply(RenewReply&& other) noexcept = default;
  RenewReply& operator=(RenewReply&&) = delete;
  RenewReply(const RenewReply&) = delete;
  ~RenewReply();

  /// The lock is lent for another life, from when this renewal was begun.
  void renewed();
  /// It could not be asked, or did not answer: try again.
  void failed();
  /// It is not ours any more.
  void refused();

 private:
  friend struct internal::LeaseState;
  RenewReply(std::shared_ptr<internal::LeaseState> state, Instant begun) noexcept
      : state_(std::move(state)), begun_(begun) {}

  std::shared_ptr<internal::LeaseState> state_;  // Null: answered.
  Instant begun_;
};

/// One lease: first a claim, then held, then over.
///
/// Threads:  safe, but for moving and destroying it. Lifetime: its destructor releases it. The
///           Timer must outlive it.
class [[nodiscard]] Lease {
 public:
  using Renew = UniqueFunction<void(RenewReply)>;
  using OnLost = UniqueFunction<void(LeaseLoss)>;

  Lease() noexcept = default;
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  ~Lease();

  /// The lock has been granted: keeps it from now on. False, and nothing is kept, if the lease was
  /// released meanwhile, or would be over by now: then give the lock back.
  ///
  /// `renew` is called on the Timer's executor, by one thread at a time: it asks the lock to extend
  /// the lease, and answers, at once or later. `on_lost` is called once at most, when the lease is
  /// lost, on the Timer's executor or by whoever answers; never after release() has returned true.
  /// Neither may throw. Both are destroyed when the lease is over.
  [[nodiscard]] bool hold(Renew renew, OnLost on_lost);

  /// Ends the keeping. True: it was held, and now is to be given back to the lock. False: it was
  /// not held yet, and hold() will be false; or it was over.
  bool release() noexcept;

  /// Is it ours, by the clock? To be asked before whatever only the holder may do.
  [[nodiscard]] bool held() const noexcept;

  /// Unlike that of any other lease of this process; later ones have greater numbers. 0: none.
  [[nodiscard]] std::uint64_t generation() const noexcept;

 private:
  friend class LeaseKeeper;
  explicit Lease(std::shared_ptr<internal::LeaseState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<internal::LeaseState> state_;
};

/// Keeps leases of one kind.
///
/// Time:      by the Timer's clock. A machine that is suspended does not renew, and a lock that is
///            elsewhere does not wait for it: give the Timer ClockKind::kBoot, which counts that.
/// Threads:   safe. Lifetime: the Timer must outlive it; leases may outlive it.
/// Errors:    if the Timer takes no more timers, hold() is false; if it takes none later on, no
///            renewal is begun, and the lease is lost at its end. Once it is stopped nobody is told
///            any more; held() is false from the end on all the same.
/// Cost:      two timers a lease, 370 to 420 bytes in all; a lock of its own, held for moments.
///
/// Example (examples/redis_lock does it with Redis):
///     Lease lease = keeper.claim();                       // before the lock is asked for
///     if (lock.acquire(token, 30s) &&
///         lease.hold([&](RenewReply reply) { lock.extend(token, 30s, std::move(reply)); },
///                    [&](LeaseLoss) { stop_at_once(); })) {
///       work();
///       if (lease.release()) lock.release(token);
///     }
class LeaseKeeper {
 public:
  explicit LeaseKeeper(Timer& timer) : LeaseKeeper(timer, LeaseKeeperOptions()) {}
  LeaseKeeper(Timer& timer, LeaseKeeperOptions options);

  /// Begins a lease: to be called before the lock is asked for, as its life counts from here.
  Lease claim();

  [[nodiscard]] const LeaseKeeperOptions& options() const noexcept { return options_; }

 private:
  Timer& timer_;
  LeaseKeeperOptions options_;
};

}  // namespace carillon
