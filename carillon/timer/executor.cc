// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/executor.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "carillon/timer/internal/futex.h"

namespace carillon {

// The queue is D. Vyukov's bounded queue for many producers and consumers: a ring of cells, each
// with a number that says whose turn it is.
class ThreadPoolExecutor::Pool {
 public:
  explicit Pool(ThreadPoolOptions&& options)
      : options_(std::move(options)),
        cells_(std::bit_ceil(std::max<std::size_t>(options_.capacity, 2))),
        mask_(cells_.size() - 1) {
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      cells_[i].turn.store(i, std::memory_order_relaxed);
    }
    options_.threads = std::max(1U, options_.threads);
  }

  // Has `wanted` threads run. They share `self`. Throws std::system_error if not even one does.
  void start(const std::shared_ptr<Pool>& self, unsigned wanted) {
    if (started_.load(std::memory_order_acquire) >= wanted) {
      return;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    threads_.reserve(options_.threads);
    try {
      while (threads_.size() < wanted) {
        threads_.emplace_back([self] { self->work(); });
      }
    } catch (const std::system_error&) {
      if (threads_.empty()) {
        throw;
      }
    }
    started_.store(static_cast<unsigned>(threads_.size()), std::memory_order_release);
  }
  void start_all(const std::shared_ptr<Pool>& self) { start(self, options_.threads); }

  std::size_t push(std::span<Firing> firings, RoomListener& listener) {
    std::size_t count = 0;
    while (count < firings.size() && push_one(firings[count])) {
      ++count;
    }
    if (count != 0) {
      // Sequentially consistent, as tail_ is: either this sees who is about to sleep, or he sees
      // that there is something.
      if (const std::uint32_t sleepers = sleepers_.load(); sleepers != 0) {
        wake_word_.fetch_add(1);
        internal::futex_wake(wake_word_,
                             static_cast<unsigned>(std::min<std::size_t>(count, sleepers)));
      }
    }
    if (count < firings.size()) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (std::find(listeners_.begin(), listeners_.end(), &listener) == listeners_.end()) {
          listeners_.push_back(&listener);
        }
        listening_.store(true);
      }
      tell_room();
    }
    return count;
  }

  void stop(bool wait) {
    stopping_.store(true);
    wake_word_.fetch_add(1);
    internal::futex_wake_all(wake_word_);
    std::vector<std::thread> threads;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      threads = std::move(threads_);
    }
    const bool inside = innermost == this;
    for (std::thread& thread : threads) {
      if (wait && !inside) {
        thread.join();
      } else {
        thread.detach();
      }
    }
    Firing dropped;
    while (pop_one(dropped)) {
      dropped = Firing();
    }
  }

 private:
  struct alignas(32) Cell {
    std::atomic<std::size_t> turn{0};
    Firing firing;
  };

  bool push_one(Firing& firing) noexcept {
    std::size_t position = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[position & mask_];
      const std::size_t turn = cell.turn.load(std::memory_order_acquire);
      if (turn == position) {
        if (tail_.compare_exchange_weak(position, position + 1)) {
          cell.firing = std::move(firing);
          cell.turn.store(position + 1, std::memory_order_release);
          return true;
        }
      } else if (turn < position) {
        return false;
      } else {
        position = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  bool pop_one(Firing& firing) noexcept {
    std::size_t position = head_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[position & mask_];
      const std::size_t turn = cell.turn.load(std::memory_order_acquire);
      if (turn == position + 1) {
        if (head_.compare_exchange_weak(position, position + 1)) {
          firing = std::move(cell.firing);
          cell.turn.store(position + mask_ + 1, std::memory_order_release);
          return true;
        }
      } else if (turn < position + 1) {
        return false;
      } else {
        position = head_.load(std::memory_order_relaxed);
      }
    }
  }

  [[nodiscard]] std::size_t size() const noexcept {
    const std::size_t head = head_.load();
    const std::size_t tail = tail_.load();
    return tail > head ? tail - head : 0;
  }

  // Half of the queue is to be free, so that who waits for room is not woken for each.
  void tell_room() noexcept {
    if (!listening_.load() || size() > cells_.size() / 2) {
      return;
    }
    std::vector<RoomListener*> told;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      told.swap(listeners_);
      listening_.store(false);
    }
    for (RoomListener* listener : told) {
      listener->on_room();
    }
  }

  void work() {
    constexpr std::size_t kLongestName = 15;
    pthread_setname_np(pthread_self(), options_.thread_name.substr(0, kLongestName).c_str());
    innermost = this;
    Firing firing;
    while (!stopping_.load(std::memory_order_acquire)) {
      if (pop_one(firing)) {
        tell_room();  // Either this sees the listener, or who adds it sees what was taken out.
        firing();
        continue;
      }
      const std::uint32_t seen = wake_word_.load();
      sleepers_.fetch_add(1);
      if (size() == 0 && !stopping_.load()) {
        internal::futex_wait(wake_word_, seen);
      }
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  // The pool whose thread this is.
  static constinit thread_local const Pool* innermost;

  ThreadPoolOptions options_;
  std::vector<Cell> cells_;
  const std::size_t mask_;
  alignas(64) std::atomic<std::size_t> tail_{0};
  alignas(64) std::atomic<std::size_t> head_{0};
  alignas(64) std::atomic<std::uint32_t> wake_word_{0};
  std::atomic<std::uint32_t> sleepers_{0};
  std::atomic<unsigned> started_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> listening_{false};

  std::mutex mutex_;
  std::vector<std::thread> threads_;
  std::vector<RoomListener*> listeners_;
};

constinit thread_local const ThreadPoolExecutor::Pool* ThreadPoolExecutor::Pool::innermost =
    nullptr;

ThreadPoolExecutor::ThreadPoolExecutor() : ThreadPoolExecutor(ThreadPoolOptions{}) {}
ThreadPoolExecutor::ThreadPoolExecutor(ThreadPoolOptions options)
    : pool_(std::make_shared<Pool>(std::move(options))) {}

ThreadPoolExecutor::~ThreadPoolExecutor() { pool_->stop(true); }

void ThreadPoolExecutor::prepare() { pool_->start(pool_, 1); }

std::size_t ThreadPoolExecutor::try_execute(std::span<Firing> firings, RoomListener& listener) {
  pool_->start_all(pool_);
  return pool_->push(firings, listener);
}

namespace {

class InlineExecutor final : public Executor {
 public:
  [[nodiscard]] std::size_t try_execute(std::span<Firing> firings, RoomListener&) override {
    for (Firing& firing : firings) {
      firing();
    }
    return firings.size();
  }
};

}  // namespace

std::shared_ptr<Executor> inline_executor() {
  static const std::shared_ptr<Executor> kInline = std::make_shared<InlineExecutor>();
  return kInline;
}

}  // namespace carillon
