// SPDX-License-Identifier: Apache-2.0
#pragma once

// The inside of a Timer: shards, and what they share.
//
// Where a timer is, and who may change that:
//
//     wheel ──due──> queued ──begin──> begun ──> done        (periodic: back into the wheel)
//       │              │
//     cancel         cancel
//
//   wheel   under the shard's lock.
//   queued  its FiringRecord says kQueued. One compare-and-swap decides between the thread that
//           begins it and those that cancel it or take it back; who wins owns the callback.
//   begun   owned by the thread that runs it.
//
// A record is reached in two ways: by handle, through the shard's table, under its lock; and by its
// Firing, without one. It is given back when its Firing is consumed.
//
// Missed wake-ups. The driver notes the epoch, says "any insert wakes me" (wake_before = kAlways),
// then visits every shard under its lock, says what it will wake for, and sleeps unless the epoch
// has moved. A producer inserts under the lock, then reads wake_before. If the driver's visit came
// after the insert, it has seen it. Otherwise the lock orders the driver's kAlways before the
// producer's read, which therefore sees kAlways or what the driver will sleep until; either makes
// it move the epoch if that is later than its deadline. wake_explorer_test.cc tries all
// interleavings of this, and fire_explorer_test.cc those of the states above.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "carillon/timer/internal/futex.h"
#include "carillon/timer/internal/spin_lock.h"
#include "carillon/timer/timer.h"
#include "carillon/wheel/internal/reciprocal.h"
#include "carillon/wheel/pooled_wheel.h"

namespace carillon::internal {

using TimerWheel = PooledWheel<TimerCallback>;

struct PeriodicTimer;

enum class FiringState : std::uint8_t { kQueued, kBegun, kCancelled, kDone };

// A callback that has left its wheel, and whose Firing has not been consumed.
struct FiringRecord {
  TimerCallback callback;
  Shard* shard = nullptr;
  // The name that handles know it by.
  WheelHandle timer;
  TimerKind kind = TimerKind::kOnce;
  PeriodicTimer* periodic = nullptr;
  Tick deadline = 0;
  std::atomic<FiringState> state{FiringState::kDone};
  bool in_table = false;
  FiringRecord* next_in_table = nullptr;
  FiringRecord* next_free = nullptr;  // And in Shard::finished.
};

// The records of a shard, found by handle. Under its lock.
class FiringTable {
 public:
  // Has memory for `count` more. May throw std::bad_alloc.
  void reserve(std::size_t count);
  // Pre: reserved.
  FiringRecord& add(TimerKind kind, WheelHandle timer) noexcept;
  [[nodiscard]] FiringRecord* find(TimerKind kind, WheelHandle timer) const noexcept;
  // It can no longer be found.
  void hide(FiringRecord& record) noexcept;
  // It can be used again. Pre: hidden.
  void give_back(FiringRecord& record) noexcept {
    record.next_free = free_;
    free_ = &record;
    ++free_count_;
  }
  // Calls `visit(FiringRecord&)` for each that can be found; it may hide that one.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (FiringRecord* record : heads_) {
      while (record != nullptr) {
        FiringRecord* const next = record->next_in_table;
        visit(*record);
        record = next;
      }
    }
  }
  void clear() noexcept;

 private:
  [[nodiscard]] std::size_t head_of(WheelHandle timer) const noexcept {
    return timer.index & (heads_.size() - 1);
  }

  std::vector<FiringRecord*> heads_;  // A power of two.
  std::vector<std::unique_ptr<FiringRecord[]>> blocks_;
  std::size_t capacity_ = 0;
  FiringRecord* free_ = nullptr;
  std::size_t free_count_ = 0;
};

// What lies in the wheel for a timer whose callback lies in Shard::parked: one that was due, waited
// for a thread, and was taken back by reschedule(), so that its handle is not that of its entry.
struct ParkedRef {
  WheelHandle name;
  void operator()() const noexcept {}
};
struct ParkedTimer {
  TimerCallback callback;
  WheelHandle entry;
};

// What lies in the wheel for a periodic timer, and that itself. Its callback is in here while it
// waits, and in its record from when it is due to when it has run.
struct PeriodicRef {
  std::uint32_t id;
  void operator()() const noexcept {}
};
struct PeriodicTimer {
  TimerCallback callback;
  WheelHandle name;  // Of the handles: its number, and its generation.
  WheelHandle entry;
  FiringRecord* record = nullptr;  // While it is queued or running.
  Instant due{};                   // Not rounded to ticks, so that it does not drift.
  Span period{};
  Repeat repeat = Repeat::kSkip;
  bool ending = false;  // Cancelled while it was running.
};

// A callback with a key.
struct KeyedNode {
  TimerCallback callback;
  std::string key;
};
struct KeyedRef {
  std::unique_ptr<KeyedNode> node;
  void operator()() const { node->callback(); }
};
struct KeyEntry {
  WheelHandle timer;  // Null: none is pending.
  std::uint64_t generation = 0;
  std::size_t tickets = 0;
};

// A callback that follows the calendar.
struct CalendarNode {
  TimerCallback callback;
  WallTime at;
};
struct CalendarRef {
  std::unique_ptr<CalendarNode> node;
  void operator()() const { node->callback(); }
};

struct HandleHash {
  std::size_t operator()(WheelHandle handle) const noexcept {
    return (std::uint64_t{handle.generation} << 32 | handle.index) * 0x9e3779b97f4a7c15U >> 16;
  }
};

struct alignas(64) Shard {
  using Kind = TimerKind;

  SpinLock mutex;

  // Guarded by mutex. Which of the Timers that have used this memory does now; 0 is none.
  std::uint32_t life CARILLON_GUARDED_BY(mutex) = 0;
  // False: refuses what is scheduled.
  bool open CARILLON_GUARDED_BY(mutex) = false;
  // Null: nothing has been scheduled here yet, or it is stopped.
  std::unique_ptr<TimerWheel> wheel CARILLON_GUARDED_BY(mutex);
  std::uint64_t scheduled CARILLON_GUARDED_BY(mutex) = 0;
  std::uint64_t cancelled CARILLON_GUARDED_BY(mutex) = 0;
  std::uint64_t rejected CARILLON_GUARDED_BY(mutex) = 0;
  std::uint64_t dropped CARILLON_GUARDED_BY(mutex) = 0;
  FiringTable firings CARILLON_GUARDED_BY(mutex);
  std::unordered_map<WheelHandle, ParkedTimer, HandleHash> parked CARILLON_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<PeriodicTimer>> periodics CARILLON_GUARDED_BY(mutex);
  std::vector<std::uint32_t> free_periodics CARILLON_GUARDED_BY(mutex);
  std::unordered_map<std::string, KeyEntry> keys CARILLON_GUARDED_BY(mutex);
  std::uint64_t missed CARILLON_GUARDED_BY(mutex) = 0;
  // With max_pending: so many timers may be added before it must ask for more.
  std::size_t credit CARILLON_GUARDED_BY(mutex) = 0;

  // Constant.
  Core* core = nullptr;

  // Low half: records that are queued. High half: records whose Firing has not been consumed, and
  // one for the Timer.
  static constexpr std::uint64_t kOneQueued = 1;
  static constexpr std::uint64_t kOneHeld = std::uint64_t{1} << 32;
  alignas(64) std::atomic<std::uint64_t> flight{0};
  std::atomic<std::uint64_t> exceptions{0};
  std::atomic<std::uint64_t> slow{0};
  // Records whose Firing has been consumed, to be given back under the lock.
  std::atomic<FiringRecord*> finished{nullptr};

  // `delay` from now; or at `*at`, if there is one.
  TimerHandle schedule(Span delay, const Instant* at, TimerCallback&& callback);
  TimerHandle schedule_every(Span period, TimerCallback&& callback, Repeat repeat);
  TimerHandle schedule_at(WallTime at, TimerCallback&& callback);
  // `generation`: what that of the key has to be still, if it matters.
  TimerHandle schedule_keyed(const std::string& key, Span delay, const Instant* at,
                             TimerCallback&& callback, const std::uint64_t* generation);
  CancelResult cancel(std::uint32_t in_life, Kind kind, WheelHandle timer) noexcept;
  CancelResult cancel_key(const std::string& key) noexcept;
  void note_rejected() noexcept {
    const SpinLockHold hold(mutex);
    ++rejected;
  }
  RescheduleResult reschedule(std::uint32_t in_life, Kind kind, WheelHandle timer, Span delay,
                              const Instant* at);
  TimerState state(std::uint32_t in_life, Kind kind, WheelHandle timer) noexcept;
  TimerState key_state(const std::string& key) noexcept;
  std::uint64_t draw_ticket(const std::string& key);
  void return_ticket(const std::string& key) noexcept;

  // Takes at most `most` timers that are due at `target` out of the wheel; their Firings are added
  // to `out`. Returns whether more are due then.
  bool take_due(Tick target, std::size_t most, std::vector<Firing>& out);
  // The earliest deadline of the wheel; nothing if it is empty. If that is later than `now`, the
  // wheel is told the time.
  std::optional<Tick> next_deadline(Tick now);
  // The calendar has been set.
  void follow_calendar();

  // Takes the callback of a record that is queued, so that it is never run; false if it has begun.
  bool take_back(FiringRecord& record, TimerCallback& callback) noexcept CARILLON_REQUIRES(mutex);
  // The timer that had this callback, and was pending, is cancelled.
  void note_cancelled(const TimerCallback& callback, WheelHandle timer) noexcept
      CARILLON_REQUIRES(mutex);
  void retire_periodic(PeriodicTimer& periodic) noexcept CARILLON_REQUIRES(mutex);
  // A callback has run: a periodic timer goes back into the wheel. True: it is to run again at
  // once, and has begun.
  bool finish(FiringRecord& record) noexcept;

  // Refuses what comes.
  void refuse_all() noexcept;
  // And cancels all that has not begun; adds it to `out`.
  void close(std::vector<UnfiredTimer>& out);
  // Gives back all memory. Pre: closed, nothing runs.
  void clear() noexcept;
  // Has a callback begun and not ended?
  [[nodiscard]] bool has_begun() noexcept;

  [[nodiscard]] std::size_t pending() noexcept;
  // Pending or running, but for periodic ones.
  [[nodiscard]] std::size_t unfinished() noexcept;
  void add_to(TimerStats& stats) noexcept;
  void add_to(std::vector<std::size_t>& levels);

 private:
  // Before the first timer.
  void begin();
  [[nodiscard]] bool take_credit();
  void give_credit() noexcept CARILLON_REQUIRES(mutex);
  [[nodiscard]] std::size_t pending_locked() const noexcept CARILLON_REQUIRES(mutex) {
    return (wheel ? wheel->size() : 0) + static_cast<std::uint32_t>(flight.load());
  }
  void give_back_finished() noexcept CARILLON_REQUIRES(mutex);
  CancelResult cancel_elsewhere(Kind kind, WheelHandle timer, TimerCallback& doomed) noexcept
      CARILLON_REQUIRES(mutex);
  RescheduleResult reschedule_elsewhere(WheelHandle timer, Tick deadline) CARILLON_REQUIRES(mutex);
  RescheduleResult reschedule_periodic(WheelHandle timer, Instant due, Tick deadline)
      CARILLON_REQUIRES(mutex);
  [[nodiscard]] PeriodicTimer* find_periodic(WheelHandle timer) const noexcept
      CARILLON_REQUIRES(mutex);
  CancelResult cancel_periodic(WheelHandle timer, TimerCallback& doomed) noexcept
      CARILLON_REQUIRES(mutex);
  [[nodiscard]] TimerState state_locked(Kind kind, WheelHandle timer) noexcept
      CARILLON_REQUIRES(mutex);
  void forget_key(const std::string& key, WheelHandle timer) noexcept CARILLON_REQUIRES(mutex);
  // A calendar time that has not come, though its tick has; true if it has been put back.
  bool put_back(WheelHandle name, TimerCallback& callback) CARILLON_REQUIRES(mutex);
  void expire(TimerWheel::Expired&& expired, std::vector<Firing>& out) CARILLON_REQUIRES(mutex);
};

// Histograms that threads write, each mostly a stripe of its own.
struct alignas(64) HistogramStripe {
  std::array<std::atomic<std::uint64_t>, TimerHistogram::kBuckets> counts{};
  std::atomic<std::uint64_t> sum_ns{0};

  void add(Span span) noexcept {
    counts[TimerHistogram::bucket_of(span)].fetch_add(1, std::memory_order_relaxed);
    sum_ns.fetch_add(static_cast<std::uint64_t>(span.count()), std::memory_order_relaxed);
  }
  void add_to(TimerHistogram& histogram) const noexcept;
};

// What a Timer has while it lives.
struct TimerLife {
  TimerOptions options;
  std::shared_ptr<Executor> executor;

  // Guards the start and the end of the driver's thread.
  std::mutex mutex;
  std::thread driver;
  std::thread::id driver_id;  // Set by that thread.
  bool stopped = false;
  // It was stopped by a callback on the driver's thread, which may still be at work.
  std::atomic<bool> driver_detached{false};

  // The driver's own.
  std::vector<Firing> batch;
  std::size_t handed_over = 0;  // Of the batch.
  std::array<std::optional<Tick>, TimerOptions::kMaxShards + 1> next;
  int calendar_fd = -1;  // Readable when the calendar has been set.
  Span calendar_offset{};

  static constexpr std::size_t kStripes = 16;
  std::array<HistogramStripe, kStripes> lateness;
  std::array<HistogramStripe, kStripes> callback_time;
  HistogramStripe driver_work;

  // The first time of each is told.
  std::atomic<bool> told_exception{false};
  std::atomic<bool> told_slow{false};
  std::atomic<bool> told_dropped{false};

  ~TimerLife();
};

// The memory of a Timer. It is given to another one later, and never back to the system.
struct Core final : RoomListener {
  // What wake_before may be besides a tick: any insert wakes the driver,
  static constexpr Tick kAlways = kLastTick;
  // or none, since it waits for something else.
  static constexpr Tick kNever = 0;

  Core() noexcept;

  // A core for a Timer. May throw.
  static Core& open(TimerOptions&& options);
  std::vector<UnfiredTimer> stop();
  std::vector<UnfiredTimer> drain(Span at_most);
  // The Timer is gone. Pre: stopped.
  void release() noexcept;

  // ---- time. Constant while it is open.
  ClockKind clock_kind = ClockKind::kSteady;
  const Clock* custom_clock = nullptr;
  const Calendar* custom_calendar = nullptr;
  std::uint64_t tick_ns = 1;
  Reciprocal by_tick;
  std::size_t shard_count = 1;
  // And one for what follows the calendar.
  std::size_t all_shards = 1;
  bool limited = false;
  ManualDriver* manual = nullptr;
  std::uint32_t life_number = 0;
  std::unique_ptr<TimerLife> life;

  [[nodiscard]] Instant now() const noexcept;
  // Not before now, and later by a microsecond at most: cheaper than now().
  [[nodiscard]] Instant now_or_later() const noexcept;
  [[nodiscard]] WallTime wall_now() const noexcept;
  // When `at` is, if the calendar is not set until then.
  [[nodiscard]] Instant instant_of(WallTime at) const noexcept;
  // When it is `at` by the steady clock, if the machine is not suspended until then.
  [[nodiscard]] Instant instant_of_steady(Instant at) const noexcept;
  // The tick at which `deadline` is due: rounded up, so never early.
  [[nodiscard]] Tick tick_of(Instant deadline) const noexcept {
    const auto nanos = deadline.time_since_epoch().count();
    if (nanos <= 0) {
      return 0;
    }
    if (deadline == Instant::max()) {
      return kLastTick;
    }
    const auto count = static_cast<std::uint64_t>(nanos);
    const std::uint64_t whole = by_tick.divide(count);
    return whole + (whole * tick_ns != count ? 1 : 0);
  }
  // The tick that has been reached: rounded down.
  [[nodiscard]] Tick reached(Instant instant) const noexcept {
    const auto nanos = instant.time_since_epoch().count();
    return nanos <= 0 ? 0 : by_tick.divide(static_cast<std::uint64_t>(nanos));
  }
  // When something is due that is scheduled now: one of no delay at the next tick.
  [[nodiscard]] Tick tick_after(Span delay) const noexcept {
    const Instant present = now_or_later();
    return delay > Span::zero() ? tick_of(saturating_add(present, delay)) : reached(present) + 1;
  }
  // When `tick` begins.
  [[nodiscard]] Instant begin_of(Tick tick) const noexcept {
    std::uint64_t nanos = 0;
    if (__builtin_mul_overflow(tick, tick_ns, &nanos) ||
        nanos > static_cast<std::uint64_t>(Span::max().count())) {
      return Instant::max();
    }
    return Instant(Span(static_cast<Span::rep>(nanos)));
  }

  // ---- producers
  [[nodiscard]] Shard& home_shard() noexcept;
  // A timer has been put into a wheel.
  void note_deadline(Tick deadline) noexcept {
    // That of a timer that is practically never is not less than kAlways.
    if (deadline < wake_before.load(std::memory_order_acquire) || deadline == kLastTick)
        [[unlikely]] {
      wake_for(deadline);
    }
  }
  // Another timer of the limit of all, or as many more as there are at a time. 0: none is left.
  [[nodiscard]] std::size_t take_credit() noexcept;
  // Starts the driver's thread, unless it runs. May throw std::system_error.
  void ensure_started();

  // ---- the driver
  void drive() noexcept;
  // Instead of that, on whatever thread. A callback may destroy the Timer.
  void poll(Instant now);
  // A turn of the driver: hands over what is due at `now`. Returns what wake_before is to be.
  Tick turn(Tick now);
  Tick hand_over_due(Tick now);
  // The earliest deadline; the first tick if something is handed over still; nothing if there is
  // none, or it is paused, or the executor has no room. From the driver.
  std::optional<Tick> first_due();
  // For a PollTimer: readable when it is to be polled. -1 if there is none.
  int poll_fd();
  // The driver looks at everything again.
  void wake() noexcept;
  void on_room() noexcept override {
    no_room.store(false);
    wake();
  }

  // ---- firings
  static Firing make_firing(FiringRecord& record) noexcept { return Firing(&record); }
  static void run(FiringRecord& record) noexcept;
  static void drop(FiringRecord& record) noexcept;
  // Is this thread in a callback of this Timer?
  [[nodiscard]] bool in_callback() const noexcept;

  static TimerHandle refuse(Refusal refusal) noexcept { return TimerHandle(refusal); }
  static TimerHandle make_handle(Shard& shard, std::uint32_t in_life, TimerKind kind,
                                 WheelHandle timer) noexcept {
    return {&shard, in_life, kind, timer};
  }

  // A line that the driver writes, twice a turn, and producers read.
  alignas(64) std::atomic<Tick> wake_before{kAlways};

  // Moved by whoever wants the driver to look again; it sleeps on it.
  alignas(64) std::atomic<std::uint32_t> epoch{0};
  std::atomic<std::uint32_t> asleep{0};
  std::atomic<bool> quit{false};
  std::atomic<bool> paused{false};
  // The executor had no room, and has not said since that it has.
  std::atomic<bool> no_room{false};
  // A timerfd that wakes who polls it; -1: the driver sleeps on `epoch`. Kept for the next Timer.
  std::atomic<int> fd{-1};
  std::array<int, 2> kept_fds{-1, -1};
  // With max_pending: what no shard has taken.
  std::atomic<std::size_t> credit{0};
  enum Stage : std::uint32_t { kOpen, kStopping, kStopped, kAbandoned };
  std::atomic<std::uint32_t> stage{kOpen};
  std::atomic<std::uint64_t> wakeups{0};
  std::atomic<std::uint64_t> executor_full{0};
  // So many wait on ended_epoch for callbacks to end.
  std::atomic<std::uint32_t> awaiting{0};
  std::atomic<std::uint32_t> ended_epoch{0};
  // By the Timer, by its driver's thread, by each shard whose `flight` is held: while there is one,
  // this is not given to another Timer.
  std::atomic<std::uint32_t> holds{0};

  std::array<Shard, TimerOptions::kMaxShards + 1> shards;

  Core* next_free = nullptr;
  Core* next_of_all = nullptr;

 private:
  void wake_for(Tick deadline) noexcept;
  bool hand_over();
  void sleep_until(Tick tick, std::uint32_t epoch_seen) noexcept;
  void await_callbacks() noexcept;
  void report(Shard& shard) noexcept;
  void note_run(Shard& shard, Span late, Span took) noexcept;
  void look_at_calendar();
  void open_fd();
  void set_fd(Instant until) const noexcept;
  static void consume(FiringRecord& record) noexcept;
  static void let_go(Shard& shard) noexcept;

 public:
  // A line for the log, the first time.
  void tell(std::atomic<bool>& told, std::string_view line) noexcept;
  void drop_hold() noexcept;
  // Waits until all that was handed over has run; for a ManualDriver.
  void await_idle() noexcept;
  // Waits until the executor that had no room has some, or it is paused or stopped; the same.
  void await_room() noexcept;
  // In the child of a fork: it is no Timer any more, and its memory is lost.
  void abandon() noexcept;
  static void tell(const TimerOptions& options, std::string_view line) noexcept;
};

}  // namespace carillon::internal
