// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/idle_monitor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "carillon/blocks/internal/early_wheel.h"
#include "carillon/blocks/internal/ticker.h"
#include "carillon/timer/internal/spin_lock.h"

namespace carillon {

using internal::SpinLockHold;

// Belongs to its Item, and to the core while it is in the list of those that are due; whoever is
// the last of them deletes it.
struct IdleMonitor::Slot : WheelHook {
  enum class State : std::uint8_t {
    kWatched,
    // Silent for too long; in the list of those that are due, where it can be cancelled still.
    kDue,
    kRunning,
    kDone,
  };

  Slot(UniqueFunction<void()> callback, Span its_timeout) noexcept
      : timeout(its_timeout.count()), on_idle(std::move(callback)) {}

  // The monitor's time when it was last touched.
  std::atomic<std::int64_t> touched{0};

  // Guarded by the core's lock.
  std::int64_t timeout;
  UniqueFunction<void()> on_idle;
  State state = State::kWatched;
  bool has_item = true;
  bool in_list = false;
  Slot* next_due = nullptr;
};

// Time in here is the monitor's own, in nanoseconds: it never goes faster than the Timer's clock,
// and what it advances in one step is bounded. A touch that notes time t has been made before the
// time was t + most_step: from there the timeout counts, so that none is early.
struct IdleMonitor::Core {
  Core(Timer& its_timer, const IdleMonitorOptions& options)
      : timer(its_timer),
        resolution(std::clamp(options.resolution, its_timer.tick(),
                              std::max<Span>(its_timer.tick(), kCoarsest))),
        most_step(resolution.count() + resolution.count() / 4 + 2 * its_timer.tick().count()),
        unit(std::max<std::int64_t>(1, resolution.count() / 8)),
        max_items(options.max_items),
        budget(std::max<std::size_t>(options.budget, 1)) {}

  // Some 146 years, so that sums do not overflow.
  static constexpr Span kLongest{Span::max() / 2};
  static constexpr std::chrono::hours kCoarsest{1};
  static constexpr std::size_t kAtOnce = 64;

  static Span bounded(Span timeout) noexcept { return std::clamp(timeout, Span::zero(), kLongest); }
  // When the slot is due unless it is touched.
  [[nodiscard]] std::int64_t due_at(const Slot& slot) const noexcept {
    return slot.touched.load(std::memory_order_relaxed) + most_step + slot.timeout;
  }
  [[nodiscard]] Tick tick_after(std::int64_t at) const noexcept {
    return static_cast<Tick>((at - 1) / unit + 1);
  }
  static void place(CoarseWheel& its_wheel, Slot& slot, Tick deadline) noexcept {
    const Tick at =
        internal::early_deadline(its_wheel.now(), std::max(deadline, its_wheel.now() + 1));
    if (slot.scheduled()) {
      its_wheel.reschedule(slot, at);
    } else {
      its_wheel.schedule(slot, at);
    }
  }

  static void enlist(Slot& slot, Slot**& last) noexcept {
    slot.state = Slot::State::kDue;
    slot.in_list = true;
    slot.next_due = nullptr;
    *last = &slot;
    last = &slot.next_due;
  }

  void step() CARILLON_REQUIRES(lock);
  // Puts up to `most` of those that come up where they belong, or at the end of a list.
  std::size_t look(CoarseWheel& its_wheel, std::int64_t now, std::size_t most, Slot**& last);
  struct Taken;
  // Runs the callback of the first of those that are due, or destroys it. False: there is none.
  bool run_one_due();
  bool drop_one_due();
  static void enlist_all(CoarseWheel& its_wheel, Slot**& last) noexcept;
  std::optional<Span> work();
  CancelResult cancel(Slot& slot) noexcept;
  // The item, or the list of those that are due, does not need the slot any more.
  void release(Slot& slot, bool by_item) noexcept;

  Timer& timer;
  const Span resolution;
  const std::int64_t most_step;
  // A tick of the wheel: finer than what is asked for, since it is rounded up to.
  const std::int64_t unit;
  const std::size_t max_items;
  const std::size_t budget;

  // On a cache line of its own: read by every touch, written each resolution.
  alignas(64) std::atomic<std::int64_t> time{0};

  alignas(64) mutable internal::SpinLock lock;
  CoarseWheel wheel CARILLON_GUARDED_BY(lock);
  Slot* first_due CARILLON_GUARDED_BY(lock) = nullptr;
  Slot** last_due CARILLON_GUARDED_BY(lock) = &first_due;
  // When `time` was last advanced, on the Timer's clock.
  Instant stepped_at CARILLON_GUARDED_BY(lock);

  std::optional<internal::Ticker> ticker;
};

void IdleMonitor::Core::step() {
  const Instant now = timer.now();
  const std::int64_t passed = std::clamp<std::int64_t>((now - stepped_at).count(), 0, most_step);
  stepped_at = now;
  time.store(time.load(std::memory_order_relaxed) + passed, std::memory_order_relaxed);
}

std::size_t IdleMonitor::Core::look(CoarseWheel& its_wheel, std::int64_t now, std::size_t most,
                                    Slot**& last) {
  return its_wheel
      .advance(
          static_cast<Tick>(now / unit),
          [&](WheelHook& hook) {
            Slot& slot = static_cast<Slot&>(hook);
            const std::int64_t due = due_at(slot);
            if (due > now) {
              place(its_wheel, slot, tick_after(due));
              return;
            }
            enlist(slot, last);
          },
          most)
      .expired;
}

// The first of those that are due, taken out of their list.
struct IdleMonitor::Core::Taken {
  explicit Taken(Core& its_core) noexcept : core(its_core) {
    const SpinLockHold hold(core.lock);
    slot = core.first_due;
    if (slot == nullptr) {
      return;
    }
    core.first_due = slot->next_due;
    if (core.first_due == nullptr) {
      core.last_due = &core.first_due;
    }
    if (slot->state == Slot::State::kDue) {
      slot->state = Slot::State::kRunning;
      callback = std::move(slot->on_idle);
    }
  }
  Taken(const Taken&) = delete;
  // Also when the callback has thrown: the others are still in the list.
  ~Taken() {
    callback.reset();
    if (slot != nullptr) {
      core.release(*slot, false);
    }
  }

  Core& core;
  Slot* slot = nullptr;
  // None, if it was cancelled meanwhile.
  UniqueFunction<void()> callback;
};

bool IdleMonitor::Core::run_one_due() {
  Taken taken(*this);
  if (taken.callback) {
    taken.callback();
  }
  return taken.slot != nullptr;
}

bool IdleMonitor::Core::drop_one_due() { return Taken(*this).slot != nullptr; }

void IdleMonitor::Core::enlist_all(CoarseWheel& its_wheel, Slot**& last) noexcept {
  its_wheel.advance(kLastTick, [&](WheelHook& hook) { enlist(static_cast<Slot&>(hook), last); });
}

std::optional<Span> IdleMonitor::Core::work() {
  {
    const SpinLockHold hold(lock);
    step();
  }
  for (std::size_t done = 0;;) {
    while (run_one_due()) {
      if (++done >= budget) {
        return Span::zero();
      }
    }
    const SpinLockHold hold(lock);
    const std::size_t looked = look(wheel, time.load(std::memory_order_relaxed), kAtOnce, last_due);
    done += looked;
    if (first_due == nullptr && looked < kAtOnce) {
      return wheel.empty() ? std::nullopt : std::optional(resolution);
    }
    if (done >= budget) {
      return Span::zero();
    }
  }
}

CancelResult IdleMonitor::Core::cancel(Slot& slot) noexcept {
  UniqueFunction<void()> callback;  // Destroyed when the lock is released.
  const SpinLockHold hold(lock);
  switch (slot.state) {
    case Slot::State::kWatched: wheel.cancel(slot); [[fallthrough]];
    case Slot::State::kDue:
      slot.state = Slot::State::kDone;
      callback = std::move(slot.on_idle);
      return CancelResult::kCancelled;
    case Slot::State::kRunning: return CancelResult::kRunning;
    case Slot::State::kDone: break;
  }
  return CancelResult::kNotFound;
}

void IdleMonitor::Core::release(Slot& slot, bool by_item) noexcept {
  bool last = false;
  {
    const SpinLockHold hold(lock);
    if (by_item) {
      slot.has_item = false;
    } else {
      slot.in_list = false;
      slot.state = Slot::State::kDone;
    }
    last = !slot.has_item && !slot.in_list;
  }
  if (last) {
    delete &slot;
  }
}

IdleMonitor::IdleMonitor(Timer& timer, IdleMonitorOptions options)
    : core_(std::make_shared<Core>(timer, options)) {
  core_->ticker.emplace(timer, [core = core_.get()] { return core->work(); });
}

IdleMonitor::~IdleMonitor() {
  Core& core = *core_;
  core.ticker.reset();
  {
    const SpinLockHold hold(core.lock);
    Core::enlist_all(core.wheel, core.last_due);
  }
  while (core.drop_one_due()) {
  }
}

IdleMonitor::Item IdleMonitor::watch(Span timeout, UniqueFunction<void()> on_idle) {
  Core& core = *core_;
  auto slot = std::make_unique<Slot>(std::move(on_idle), Core::bounded(timeout));
  const Instant now = core.timer.now();
  {
    const SpinLockHold hold(core.lock);
    if (core.max_items != 0 && core.wheel.size() >= core.max_items) {
      return {};
    }
    if (core.wheel.empty()) {
      core.stepped_at = std::max(core.stepped_at, now);  // Time stood still.
    }
    slot->touched.store(core.time.load(std::memory_order_relaxed), std::memory_order_relaxed);
    Core::place(core.wheel, *slot, core.tick_after(core.due_at(*slot)));
  }
  Item item(core_, slot.release());
  if (!core.ticker->wake_within(now, core.resolution)) {
    return {};  // Nobody would look.
  }
  return item;
}

std::size_t IdleMonitor::size() const noexcept {
  const SpinLockHold hold(core_->lock);
  return core_->wheel.size();
}

IdleMonitor::Item::Item() noexcept = default;
IdleMonitor::Item::Item(std::shared_ptr<Core> core, Slot* slot) noexcept
    : core_(std::move(core)), slot_(slot), touched_(&slot->touched), time_(&core_->time) {}
IdleMonitor::Item::Item(Item&& other) noexcept
    : core_(std::move(other.core_)),
      slot_(std::exchange(other.slot_, nullptr)),
      touched_(std::exchange(other.touched_, nullptr)),
      time_(other.time_) {}
IdleMonitor::Item& IdleMonitor::Item::operator=(Item&& other) noexcept {
  if (this != &other) {
    release();
    core_ = std::move(other.core_);
    slot_ = std::exchange(other.slot_, nullptr);
    touched_ = std::exchange(other.touched_, nullptr);
    time_ = other.time_;
  }
  return *this;
}
IdleMonitor::Item::~Item() { release(); }

void IdleMonitor::Item::release() noexcept {
  if (slot_ != nullptr) {
    core_->cancel(*slot_);
    touched_ = nullptr;
    core_->release(*std::exchange(slot_, nullptr), true);
    core_.reset();
  }
}

bool IdleMonitor::Item::set_timeout(Span timeout) noexcept {
  if (slot_ == nullptr) {
    return false;
  }
  const SpinLockHold hold(core_->lock);
  if (slot_->state != Slot::State::kWatched) {
    return false;
  }
  slot_->timeout = Core::bounded(timeout).count();
  const Tick deadline = core_->tick_after(core_->due_at(*slot_));
  if (deadline < slot_->deadline()) {
    Core::place(core_->wheel, *slot_, deadline);
  }
  return true;
}

CancelResult IdleMonitor::Item::cancel() noexcept {
  return slot_ != nullptr ? core_->cancel(*slot_) : CancelResult::kNotFound;
}

bool IdleMonitor::Item::watched() const noexcept {
  if (slot_ == nullptr) {
    return false;
  }
  const SpinLockHold hold(core_->lock);
  return slot_->state == Slot::State::kWatched;
}

}  // namespace carillon
