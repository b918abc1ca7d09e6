// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/indexed_heap.h"
#include "bench/wheels/lazy_heap.h"
#include "bench/wheels/ordered_map.h"
#include "bench/wheels/passive_subject.h"
#include "bench/wheels/workloads.h"

namespace carillon::bench {
namespace {

struct ExactHeap {
  static constexpr Family kFamily = Family::kHeap;
  static constexpr int kLateShift = 0;
};
struct LazyHeapName : ExactHeap {
  static constexpr std::string_view kName = "heap, lazy cancel";
  static LazyHeap make(std::size_t capacity) { return LazyHeap(capacity); }
};
struct IndexedHeapName : ExactHeap {
  static constexpr std::string_view kName = "4-ary heap";
  static IndexedHeap make(std::size_t capacity) { return IndexedHeap(capacity); }
};
struct OrderedMapName : ExactHeap {
  static constexpr std::string_view kName = "std::multimap";
};

}  // namespace

std::vector<SubjectEntry> heap_subjects() {
  return {entry_of<PassiveSubject<LazyHeap, LazyHeap::Hook, LazyHeapName>>(),
          entry_of<PassiveSubject<IndexedHeap, IndexedHeap::Hook, IndexedHeapName>>(),
          entry_of<PassiveSubject<OrderedMap, OrderedMap::Hook, OrderedMapName>>()};
}

}  // namespace carillon::bench
