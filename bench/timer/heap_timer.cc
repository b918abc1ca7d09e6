// SPDX-License-Identifier: Apache-2.0
#include "bench/timer/heap_timer.h"

#include <chrono>

namespace carillon::bench {
namespace {

using SteadyPoint = std::chrono::steady_clock::time_point;

// Callbacks run in groups, outside the lock.
constexpr std::size_t kGroup = 64;

Tick tick_of(SteadyPoint point) {
  return static_cast<Tick>(Span(point.time_since_epoch()).count());
}

}  // namespace

HeapTimer::HeapTimer() : thread_([this] { run(); }) {}

HeapTimer::~HeapTimer() {
  if (thread_.joinable()) static_cast<void>(close());
}

HeapTimer::Handle HeapTimer::add(Span delay, std::function<void()> callback) {
  const Tick deadline = tick_of(std::chrono::steady_clock::now() + delay);
  Handle handle;
  bool earliest = false;
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) free_.push_back(&nodes_.emplace_back());
    Node* node = free_.back();
    free_.pop_back();
    node->callback = std::move(callback);
    handle.node_ = node;
    handle.life_ = node->life;
    earliest = heap_.schedule(*node, deadline);
  }
  if (earliest) earlier_.notify_one();
  return handle;
}

bool HeapTimer::cancel(Handle& handle) {
  std::function<void()> released;
  const std::lock_guard lock(mutex_);
  Node* node = handle.node_;
  if (node == nullptr || node->life != handle.life_) return false;
  heap_.cancel(*node);
  released = std::move(node->callback);
  free_locked(*node);
  return true;
}

std::size_t HeapTimer::close() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  earlier_.notify_one();
  thread_.join();
  return heap_.size();
}

void HeapTimer::free_locked(Node& node) {
  node.callback = nullptr;
  ++node.life;
  free_.push_back(&node);
}

void HeapTimer::run() {
  std::vector<std::function<void()>> due;
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const auto take = [&](LazyHeap::Hook& hook) {
      auto& node = static_cast<Node&>(hook);
      due.push_back(std::move(node.callback));
      free_locked(node);
    };
    heap_.advance(tick_of(std::chrono::steady_clock::now()), take, kGroup);
    if (!due.empty()) {
      lock.unlock();
      for (const auto& callback : due) callback();
      due.clear();
      lock.lock();
      continue;
    }
    if (const auto next = heap_.next_deadline()) {
      earlier_.wait_until(lock, SteadyPoint(Span(static_cast<Span::rep>(*next))));
    } else {
      earlier_.wait(lock);
    }
  }
}

}  // namespace carillon::bench
