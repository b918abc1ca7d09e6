// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "bench/wheels/indexed_heap.h"
#include "bench/wheels/lazy_heap.h"
#include "bench/wheels/ordered_map.h"
#include "carillon/base/random.h"

namespace carillon::bench {
namespace {

static_assert(TimeDriven<LazyHeap> && TimeDriven<IndexedHeap> && TimeDriven<OrderedMap>);

template <class Heap>
std::unique_ptr<Heap> make_heap(std::size_t capacity) {
  if constexpr (std::is_constructible_v<Heap, std::size_t>) {
    return std::make_unique<Heap>(capacity);
  } else {
    return std::make_unique<Heap>();
  }
}

// Some timers, and beside the heap the plainest model of it.
template <class Heap>
class ReferenceHeap : public testing::Test {
 protected:
  using Hook = typename Heap::Hook;
  static constexpr std::size_t kTimers = 40;

  ReferenceHeap() : hooks_(std::make_unique<Hook[]>(kTimers)), heap_(make_heap<Heap>(kTimers)) {}

  std::size_t index_of(const Hook& hook) const {
    return static_cast<std::size_t>(&hook - hooks_.get());
  }

  std::optional<Tick> model_next() const {
    std::optional<Tick> next;
    for (const auto& deadline : model_) {
      if (deadline && (!next || *deadline < *next)) next = deadline;
    }
    return next;
  }
  std::size_t model_size() const {
    return static_cast<std::size_t>(
        std::count_if(model_.begin(), model_.end(), [](const auto& d) { return d.has_value(); }));
  }

  void schedule(std::size_t i, Tick deadline) {
    heap_->schedule(hooks_[i], deadline);
    model_[i] = std::max(deadline, heap_->now() + 1);
  }

  // Whatever the heap gives is what the model would give next.
  AdvanceResult advance(Tick target, std::size_t budget = kUnlimited) {
    const AdvanceResult result = heap_->advance(
        target,
        [&](Hook& hook) {
          const std::size_t i = index_of(hook);
          ASSERT_TRUE(model_[i].has_value());
          EXPECT_EQ(*model_[i], *model_next());
          EXPECT_EQ(heap_->now(), *model_[i]) << "never early";
          model_[i].reset();
        },
        budget);
    EXPECT_EQ(result.more, model_next().has_value() && *model_next() <= target);
    return result;
  }

  std::unique_ptr<Hook[]> hooks_;
  std::unique_ptr<Heap> heap_;
  std::vector<std::optional<Tick>> model_ = std::vector<std::optional<Tick>>(kTimers);
};

using Heaps = testing::Types<LazyHeap, IndexedHeap, OrderedMap>;
TYPED_TEST_SUITE(ReferenceHeap, Heaps);

TYPED_TEST(ReferenceHeap, DoesWhatTheModelDoes) {
  Random random(11);
  for (int step = 0; step < 200'000; ++step) {
    const std::size_t i = random.below(this->kTimers);
    const Tick deadline = this->heap_->now() + random.below(50);
    switch (random.below(5)) {
      case 0:
        if (!this->model_[i]) this->schedule(i, deadline);
        break;
      case 1:
        this->heap_->reschedule(this->hooks_[i], deadline);
        this->model_[i] = std::max(deadline, this->heap_->now() + 1);
        break;
      case 2:
        EXPECT_EQ(this->heap_->cancel(this->hooks_[i]), this->model_[i].has_value());
        this->model_[i].reset();
        break;
      case 3: this->advance(this->heap_->now() + random.below(4), 1 + random.below(5)); break;
      default: this->advance(this->heap_->now() + random.below(4)); break;
    }
    ASSERT_EQ(this->heap_->size(), this->model_size());
    ASSERT_EQ(this->heap_->next_deadline(), this->model_next());
    if (testing::Test::HasFailure()) FAIL() << "at step " << step;
  }
}

TYPED_TEST(ReferenceHeap, ASinkMayScheduleForNowAndIsServedAtTheNextTick) {
  this->heap_->schedule(this->hooks_[0], 5);
  std::vector<Tick> ticks;
  this->heap_->advance(8, [&](auto& hook) {
    ticks.push_back(this->heap_->now());
    this->heap_->schedule(hook, this->heap_->now());
  });
  EXPECT_EQ(ticks, (std::vector<Tick>{5, 6, 7, 8}));
}

TYPED_TEST(ReferenceHeap, ClearUnschedulesAll) {
  for (std::size_t i = 0; i < this->kTimers; ++i) this->schedule(i, 10 + i);
  this->heap_->cancel(this->hooks_[3]);
  this->heap_->clear();
  EXPECT_EQ(this->heap_->size(), 0U);
  EXPECT_FALSE(this->heap_->cancel(this->hooks_[0]));
  this->heap_->schedule(this->hooks_[0], 20);
  EXPECT_EQ(this->heap_->next_deadline(), 20U);
}

TEST(LazyHeap, DeadEntriesDoNotOutnumberTheLive) {
  constexpr std::size_t kTimers = 10'000;
  LazyHeap heap(kTimers);
  const auto hooks = std::make_unique<LazyHeap::Hook[]>(kTimers);
  for (std::size_t i = 0; i < kTimers; ++i) heap.schedule(hooks[i], 1'000'000 + i);
  for (Tick round = 1; round <= 100; ++round) {
    for (std::size_t i = 0; i < kTimers; ++i) heap.reschedule(hooks[i], 1'000'000 + i + round);
    ASSERT_LE(heap.entries(), 2 * kTimers + 100);
  }
  EXPECT_EQ(heap.size(), kTimers);
}

}  // namespace
}  // namespace carillon::bench
