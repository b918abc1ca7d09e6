// SPDX-License-Identifier: Apache-2.0
//
// Limits per client: the limiters beside a deque of times, or a bucket, in a map under a mutex.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "bench/blocks/swept_map.h"
#include "bench/blocks/workloads.h"
#include "carillon/blocks/sliding_window_limiter.h"
#include "carillon/blocks/token_bucket.h"

namespace carillon::bench {
namespace {

// More than anybody takes, so that everything is granted.
constexpr std::uint64_t kPlenty = 100'000;

// "10.0.1.44", as a server has it: in a buffer of what has come in.
class Addresses {
 public:
  explicit Addresses(std::size_t count) : text_(count * kRoom, '\0') {
    for (std::size_t i = 0; i < count; ++i) {
      fmt::format_to(&text_[i * kRoom], "10.{}.{}.{}", i >> 16U, i >> 8U & 255U, i & 255U);
    }
  }
  std::string_view operator[](std::size_t number) const { return text_.data() + number * kRoom; }
  // Into the cache: a server has just read it from a socket.
  void receive(std::size_t number) const { __builtin_prefetch(text_.data() + number * kRoom); }

 private:
  static constexpr std::size_t kRoom = 16;  // With a zero behind the longest, "10.15.255.255".
  std::string text_;
};

std::uint64_t permits_of(const Setup& setup) { return setup.refused ? 1 : kPlenty; }

// When everything is granted, a key has some ten permits within it; else longer than any run.
Span window_of(const Setup& setup) {
  const bool passes = setup.part == Part::kRate && !setup.refused;
  return passes ? std::chrono::milliseconds(10) : kLife;
}

// A permit in so long.
Span pace_of(const Setup& setup) {
  const bool passes = setup.part == Part::kRate && !setup.refused;
  return passes ? std::chrono::milliseconds(1) : kLife;
}

// ---------------------------------------------------------------------- ours

class WindowOfOurs : public SlidingWindowLimiter<> {
 public:
  static constexpr std::string_view kBench = "Window";
  static constexpr std::string_view kName = "SlidingWindowLimiter";
  static Span span_of(const Setup& setup) { return window_of(setup); }
  explicit WindowOfOurs(const Setup& setup)
      : SlidingWindowLimiter({permits_of(setup), window_of(setup)}) {}
};

class BucketOfOurs : public TokenBucket<> {
 public:
  static constexpr std::string_view kBench = "Bucket";
  static constexpr std::string_view kName = "TokenBucket";
  static Span span_of(const Setup& setup) { return pace_of(setup); }
  explicit BucketOfOurs(const Setup& setup)
      : TokenBucket({{1, pace_of(setup)}, permits_of(setup)}) {}
};

// Limiter: span_of(setup), a permit taken at t makes a key busy until t + span; try_acquire().
template <class Limiter>
class Ours {
 public:
  static constexpr std::string_view kBench = Limiter::kBench;
  static constexpr std::string_view kName = Limiter::kName;
  static constexpr bool kComesAndGoes = true;

  explicit Ours(const Setup& setup)
      : span_(Limiter::span_of(setup)), names_(setup.items), limiter_(setup) {}

  void add(std::size_t first, std::size_t count, Instant deadline) {
    const Instant at = std::min(deadline - span_, SteadyClock().now());
    for (std::size_t i = first; i < first + count; ++i) {
      static_cast<void>(limiter_.try_acquire(names_[i], 1, at));
    }
    added_ += count;
  }
  void expect(std::size_t item) const { names_.receive(item); }
  bool use(std::size_t item, std::uint64_t /*number*/) {
    return limiter_.try_acquire(names_[item]).granted;
  }
  std::size_t gone() { return added_ - limiter_.keys(); }
  void help() { limiter_.sweep(); }

 private:
  const Span span_;
  const Addresses names_;
  std::size_t added_ = 0;
  Limiter limiter_;
};

// ---------------------------------------------------------------------- by hand

class DequePolicy {
 public:
  static constexpr std::string_view kBench = "Window";
  static constexpr std::string_view kWhat = "deque of times";
  using Entry = std::deque<Instant>;

  explicit DequePolicy(const Setup& setup) : limit_(permits_of(setup)), window_(window_of(setup)) {}
  [[nodiscard]] Span span() const { return window_; }
  [[nodiscard]] bool over(const Entry& entry, Instant now) const {
    return entry.empty() || entry.back() + window_ <= now;
  }
  bool decide(Entry& entry, Instant now) const {
    while (!entry.empty() && entry.front() + window_ <= now) entry.pop_front();
    if (entry.size() >= limit_) return false;
    entry.push_back(now);
    return true;
  }

 private:
  std::uint64_t limit_;
  Span window_;
};

class DoublePolicy {
 public:
  static constexpr std::string_view kBench = "Bucket";
  static constexpr std::string_view kWhat = "bucket";
  struct Entry {
    double missing = 0;
    Instant at;
  };

  explicit DoublePolicy(const Setup& setup)
      : burst_(static_cast<double>(permits_of(setup))), pace_(pace_of(setup)) {}
  [[nodiscard]] Span span() const { return pace_; }
  [[nodiscard]] bool over(const Entry& entry, Instant now) const { return left(entry, now) <= 0; }
  bool decide(Entry& entry, Instant now) const {
    const double missing = left(entry, now);
    if (missing + 1 > burst_) return false;
    entry = {missing + 1, now};
    return true;
  }

 private:
  [[nodiscard]] double left(const Entry& entry, Instant now) const {
    if (entry.missing == 0) return 0;
    const double back = std::chrono::duration<double>(now - entry.at) / pace_;
    return std::max(0.0, entry.missing - back);
  }

  double burst_;
  Span pace_;
};

template <class Policy, std::size_t kMutexes>
class ByHand {
 public:
  static constexpr std::string_view kBench = Policy::kBench;
  static constexpr std::string_view kName =
      kMutexes == 1 ? "mutex + map, sweeper" : "64 maps, sweeper";
  static constexpr bool kComesAndGoes = true;

  explicit ByHand(const Setup& setup)
      : policy_(setup),
        names_(setup.items),
        map_([this](const auto& entry, Instant now) { return policy_.over(entry, now); }) {}

  void add(std::size_t first, std::size_t count, Instant deadline) {
    const Instant at = std::min(deadline - policy_.span(), SteadyClock().now());
    for (std::size_t i = first; i < first + count; ++i) decide(i, at);
  }
  void expect(std::size_t item) const { names_.receive(item); }
  bool use(std::size_t item, std::uint64_t /*number*/) { return decide(item, SteadyClock().now()); }
  std::size_t gone() { return map_.gone(); }
  void help() {}

 private:
  bool decide(std::size_t item, Instant now) {
    return map_.with(std::string(names_[item]),
                     [&](auto& entry) { return policy_.decide(entry, now); });
  }

  const Policy policy_;
  const Addresses names_;
  SweptMap<std::string, typename Policy::Entry, kMutexes> map_;
};

}  // namespace

void add_limiter_subjects(std::vector<SubjectEntry>& entries) {
  entries.push_back(entry_of<Ours<WindowOfOurs>>());
  entries.push_back(entry_of<ByHand<DequePolicy, 1>>());
  entries.push_back(entry_of<ByHand<DequePolicy, 64>>());
  entries.push_back(entry_of<Ours<BucketOfOurs>>());
  entries.push_back(entry_of<ByHand<DoublePolicy, 1>>());
  entries.push_back(entry_of<ByHand<DoublePolicy, 64>>());
}

}  // namespace carillon::bench
