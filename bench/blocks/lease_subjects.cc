// SPDX-License-Identifier: Apache-2.0
//
// Leases that are held, renewed once half way, and refused at the deadline: LeaseKeeper beside what
// is written by hand. The operation is a lease that is given back, and taken anew.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "bench/blocks/swept_map.h"
#include "bench/blocks/waits.h"
#include "bench/blocks/workloads.h"
#include "carillon/blocks/lease_keeper.h"
#include "carillon/timer/timer.h"

namespace carillon::bench {
namespace {

// The lock elsewhere: renews a lease once.
class RemoteLock {
 public:
  bool renew() { return ++renewals_ == 1; }

 private:
  int renewals_ = 0;
};

// Of a life that is renewed at a third. Keepers by hand find out at the next renewal that one that
// has failed was the last, and need no timer for the end.
constexpr int kThird = 3;

// Leases: take(item, renew_after), whether it is held; give_back(item), whether it was.
template <class Leases>
class LeaseSubject {
 public:
  static constexpr std::string_view kBench = "Lease";
  static constexpr std::string_view kName = Leases::kName;
  static constexpr std::size_t kMostItems = Leases::kMostItems;
  static constexpr bool kComesAndGoes = false;

  explicit LeaseSubject(const Setup& setup) : leases_(setup.items) {}

  void add(std::size_t first, std::size_t count, Instant deadline) {
    for (std::size_t i = first; i < first + count; ++i) {
      // Up, so that the second renewal is not before the deadline.
      leases_.take(i, (deadline - SteadyClock().now() + Span(1)) / 2);
    }
  }
  bool use(std::size_t item, std::uint64_t /*number*/) {
    return leases_.give_back(item) && leases_.take(item, kLife);
  }
  std::size_t gone() { return leases_.lost(); }
  void help() {}

 private:
  Leases leases_;
};

class OurLeases {
 public:
  static constexpr std::string_view kName = "LeaseKeeper";
  static constexpr std::size_t kMostItems = SIZE_MAX;

  explicit OurLeases(std::size_t items) { leases_.reserve(items); }

  bool take(std::size_t item, Span renew_after) {
    if (item == leases_.size()) leases_.emplace_back();
    LeaseKeeper keeper(timer_, {.life = renew_after * kThird, .renew_after = renew_after});
    leases_[item] = keeper.claim();
    return leases_[item].hold(
        [lock = RemoteLock()](RenewReply reply) mutable {
          lock.renew() ? reply.renewed() : reply.refused();
        },
        [this](LeaseLoss loss) {
          lost_.fetch_add(loss == LeaseLoss::kRefused ? 1 : 0, std::memory_order_relaxed);
        });
  }
  bool give_back(std::size_t item) { return leases_[item].release(); }
  [[nodiscard]] std::size_t lost() const { return lost_.load(); }

 private:
  std::atomic<std::size_t> lost_ = 0;
  Timer timer_;
  std::vector<Lease> leases_;
};

template <class Waits>
class HandmadeLeases {
 public:
  static constexpr std::string_view kName = Waits::kName;
  static constexpr std::size_t kMostItems = SIZE_MAX;

  explicit HandmadeLeases(std::size_t items) { leases_.reserve(items); }

  bool take(std::size_t item, Span renew_after) {
    if (item == leases_.size()) leases_.emplace_back();
    leases_[item] = std::make_shared<Held>();
    const std::shared_ptr<Held>& lease = leases_[item];
    lease->renew = [lock = RemoteLock()]() mutable { return lock.renew(); };
    lease->on_lost = [this] { lost_.fetch_add(1, std::memory_order_relaxed); };
    lease->renew_after = renew_after;
    const std::lock_guard lock(lease->mutex);
    renew_later(lease);
    return true;
  }
  bool give_back(std::size_t item) {
    Held& lease = *leases_[item];
    const std::lock_guard lock(lease.mutex);
    waits_.cancel(lease.handle);
    return !std::exchange(lease.over, true);
  }
  [[nodiscard]] std::size_t lost() const { return lost_.load(); }

 private:
  struct Held {
    std::function<bool()> renew;
    std::function<void()> on_lost;
    Span renew_after{};
    std::mutex mutex;  // of what follows: it is given back by another thread
    bool over = false;
    typename Waits::Handle handle{};
  };

  void renew_later(const std::shared_ptr<Held>& lease) {
    lease->handle = waits_.after(lease->renew_after, [this, lease] { renew(lease); });
  }
  void renew(const std::shared_ptr<Held>& lease) {
    {
      const std::lock_guard lock(lease->mutex);
      if (lease->over) return;
    }
    const bool renewed = lease->renew();
    {
      const std::lock_guard lock(lease->mutex);
      if (lease->over) return;
      if (renewed) return renew_later(lease);
      lease->over = true;
    }
    lease->on_lost();
  }

  std::atomic<std::size_t> lost_ = 0;
  Waits waits_;
  std::vector<std::shared_ptr<Held>> leases_;  // its handles go before what they wait in
};

// A thread walks all leases every 100 ms and renews those that are due.
class SweptLeases {
 public:
  static constexpr std::string_view kName = "mutex + map, sweeper";
  static constexpr std::size_t kMostItems = SIZE_MAX;

  explicit SweptLeases(std::size_t /*items*/) {}

  bool take(std::size_t item, Span renew_after) {
    auto lease = std::make_unique<Held>();
    lease->renew = [lock = RemoteLock()]() mutable { return lock.renew(); };
    lease->renew_after = renew_after;
    lease->renew_at = SteadyClock().now() + renew_after;
    return map_.with(item, [&](std::unique_ptr<Held>& place) {
      place = std::move(lease);
      return true;
    });
  }
  bool give_back(std::size_t item) {
    std::unique_ptr<Held> lease;
    map_.with_existing(item, [&](std::unique_ptr<Held>& place) {
      lease = std::move(place);
      return true;
    });
    return lease != nullptr;
  }
  [[nodiscard]] std::size_t lost() const { return map_.gone(); }

 private:
  struct Held {
    std::function<bool()> renew;
    Span renew_after{};
    Instant renew_at;
  };

  static bool is_lost(const std::unique_ptr<Held>& lease, Instant now) {
    if (lease == nullptr || lease->renew_at > now) return false;
    if (!lease->renew()) return true;
    lease->renew_at = now + lease->renew_after;
    return false;
  }

  SweptMap<std::uint64_t, std::unique_ptr<Held>, 1> map_{is_lost};
};

class RenewingThreads {
 public:
  static constexpr std::string_view kName = "thread each";
  static constexpr std::size_t kMostItems = kMostThreads;

  explicit RenewingThreads(std::size_t items) { leases_.reserve(items); }

  bool take(std::size_t item, Span renew_after) {
    if (item == leases_.size()) leases_.emplace_back();
    leases_[item] = std::make_unique<SleepingThread>([this, renew_after](SleepingThread& self) {
      RemoteLock lock;
      do {
        if (!self.sleep(renew_after)) return;
      } while (lock.renew());
      lost_.fetch_add(1, std::memory_order_relaxed);
    });
    return true;
  }
  bool give_back(std::size_t item) {
    leases_[item].reset();
    return true;  // none of those that are given back is due for an hour
  }
  [[nodiscard]] std::size_t lost() const { return lost_.load(); }

 private:
  std::atomic<std::size_t> lost_ = 0;
  std::vector<std::unique_ptr<SleepingThread>> leases_;
};

}  // namespace

void add_lease_subjects(std::vector<SubjectEntry>& entries) {
  entries.push_back(entry_of<LeaseSubject<OurLeases>>());
  entries.push_back(entry_of<LeaseSubject<HandmadeLeases<HeapWaits>>>());
  entries.push_back(entry_of<LeaseSubject<HandmadeLeases<AsioWaits>>>());
  entries.push_back(entry_of<LeaseSubject<SweptLeases>>());
  entries.push_back(entry_of<LeaseSubject<RenewingThreads>>());
}

}  // namespace carillon::bench
