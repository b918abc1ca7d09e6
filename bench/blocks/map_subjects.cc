// SPDX-License-Identifier: Apache-2.0
//
// A session table: ExpiringMap beside maps under a mutex. Of ten operations one puts, one touches,
// eight get.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

#include "bench/blocks/heap_map.h"
#include "bench/blocks/swept_map.h"
#include "bench/blocks/workloads.h"
#include "carillon/blocks/expiring_map.h"
#include "carillon/timer/timer.h"

namespace carillon::bench {
namespace {

using Key = std::uint64_t;
using Value = std::uint64_t;

// Map: put(key, value, ttl), true if there was none; touch(key); get(key).
template <class Map>
class MapSubject {
 public:
  static constexpr std::string_view kBench = "Map";
  static constexpr std::string_view kName = Map::kName;
  static constexpr bool kComesAndGoes = false;

  explicit MapSubject(const Setup& /*setup*/) {}

  void add(std::size_t first, std::size_t count, Instant deadline) {
    for (std::size_t i = first; i < first + count; ++i) {
      require_equal("an entry that is new", 1,
                    map_.put(i, i, deadline - SteadyClock().now()) ? 1 : 0);
    }
  }
  bool use(std::size_t item, std::uint64_t number) {
    constexpr std::uint64_t kTurn = 10;
    switch (number % kTurn) {
      case 0: return !map_.put(item, item, kLife);
      case 1: return map_.touch(item);
      default: return map_.get(item) == Value{item};
    }
  }
  std::size_t gone() { return map_.gone(); }
  void help() {}

 private:
  Map map_;
};

class OurMap {
 public:
  static constexpr std::string_view kName = "ExpiringMap";

  bool put(Key key, Value value, Span ttl) { return map_.put(key, value, ttl); }
  bool touch(Key key) { return map_.touch(key); }
  std::optional<Value> get(Key key) { return map_.get(key); }
  [[nodiscard]] std::size_t gone() const { return gone_.load(); }

 private:
  ExpiringMapOptions<Key, Value> options() {
    ExpiringMapOptions<Key, Value> options;
    options.on_removed = [this](const Key&, Value&, Removal) {
      gone_.fetch_add(1, std::memory_order_relaxed);
    };
    return options;
  }

  std::atomic<std::size_t> gone_ = 0;
  Timer timer_;
  ExpiringMap<Key, Value> map_{timer_, options()};
};

template <std::size_t kMutexes>
class SweptEntries {
 public:
  static constexpr std::string_view kName =
      kMutexes == 1 ? "mutex + map, sweeper" : "64 maps, sweeper";

  bool put(Key key, Value value, Span ttl) {
    const Instant now = SteadyClock().now();
    return map_.with(key, [&](Entry& entry) {
      const bool is_new = entry.deadline <= now;
      entry = {value, ttl, now + ttl};
      return is_new;
    });
  }
  bool touch(Key key) {
    const Instant now = SteadyClock().now();
    return map_.with_existing(key, [&](Entry& entry) {
      const bool lives = entry.deadline > now;
      if (lives) entry.deadline = now + entry.ttl;
      return lives;
    });
  }
  std::optional<Value> get(Key key) {
    const Instant now = SteadyClock().now();
    std::optional<Value> value;
    map_.with_existing(key, [&](Entry& entry) {
      if (entry.deadline > now) value = entry.value;
      return true;
    });
    return value;
  }
  [[nodiscard]] std::size_t gone() const { return map_.gone(); }

 private:
  struct Entry {
    Value value = 0;
    Span ttl{};
    Instant deadline = Instant::min();
  };

  SweptMap<Key, Entry, kMutexes> map_{
      [](const Entry& entry, Instant now) { return entry.deadline <= now; }};
};

class HeapEntries {
 public:
  static constexpr std::string_view kName = "map + heap";

  bool put(Key key, Value value, Span ttl) {
    return map_.put(key, {value, ttl}, SteadyClock().now() + ttl);
  }
  bool touch(Key key) {
    const Instant now = SteadyClock().now();
    return map_.with(key, now,
                     [&](Entry& entry, Instant& deadline) { deadline = now + entry.ttl; });
  }
  std::optional<Value> get(Key key) {
    std::optional<Value> value;
    map_.with(key, SteadyClock().now(), [&](Entry& entry, Instant&) { value = entry.value; });
    return value;
  }
  [[nodiscard]] std::size_t gone() const { return gone_.load(); }

 private:
  struct Entry {
    Value value = 0;
    Span ttl{};
  };

  std::atomic<std::size_t> gone_ = 0;
  HeapMap<Key, Entry> map_{[this](Entry&) { ++gone_; }};
};

}  // namespace

void add_map_subjects(std::vector<SubjectEntry>& entries) {
  entries.push_back(entry_of<MapSubject<OurMap>>());
  entries.push_back(entry_of<MapSubject<SweptEntries<1>>>());
  entries.push_back(entry_of<MapSubject<SweptEntries<64>>>());
  entries.push_back(entry_of<MapSubject<HeapEntries>>());
}

}  // namespace carillon::bench
