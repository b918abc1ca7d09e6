// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <future>
#include <memory>
#include <thread>

#include "bench/timer/workloads.h"

namespace carillon::bench {
namespace {

// A steady_timer for each, on a pool with a thread for each core.
class AsioSubject {
 public:
  static constexpr std::string_view kName = "Boost.Asio";
  using Handle = std::shared_ptr<boost::asio::steady_timer>;

  template <class F>
  Handle add(Span delay, F callback) {
    auto timer = std::make_shared<boost::asio::steady_timer>(*pool_, delay);
    timer->async_wait([timer, callback, pending = Pending(&dropped_)](
                          const boost::system::error_code& error) mutable {
      pending.end();
      if (!error) callback();
    });
    return timer;
  }

  // What it had to tell is on its way; the pool destroys it.
  bool cancel(Handle& handle) {
    const bool cancelled = handle->cancel() == 1;
    handle.reset();
    return cancelled;
  }

  std::size_t close() {
    // What was cancelled before this is out of the queue then, or running.
    std::promise<void> reached;
    boost::asio::post(*pool_, [&reached] { reached.set_value(); });
    reached.get_future().wait();
    pool_->stop();
    pool_->join();
    pool_.reset();
    return dropped_.load();
  }

 private:
  // Tells a wait that ended from one that the pool dropped.
  class Pending {
   public:
    explicit Pending(std::atomic<std::size_t>* dropped) noexcept : dropped_(dropped) {}
    Pending(Pending&& other) noexcept : dropped_(std::exchange(other.dropped_, nullptr)) {}
    Pending& operator=(Pending&&) = delete;
    ~Pending() {
      if (dropped_ != nullptr) dropped_->fetch_add(1, std::memory_order_relaxed);
    }
    void end() noexcept { dropped_ = nullptr; }

   private:
    std::atomic<std::size_t>* dropped_;
  };

  std::atomic<std::size_t> dropped_ = 0;
  std::unique_ptr<boost::asio::thread_pool> pool_ =
      std::make_unique<boost::asio::thread_pool>(std::max(1U, std::thread::hardware_concurrency()));
};

}  // namespace

SubjectEntry asio_subject() { return entry_of<AsioSubject>(); }

}  // namespace carillon::bench
