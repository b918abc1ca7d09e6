// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The ready jobs of a tube, most urgent first.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "carillon/broker/internal/job_table.h"

namespace carillon::broker::internal {

/// What orders ready jobs: priority, then put order.
struct ReadyKey {
  JobId id = 0;
  std::uint32_t priority = 0;

  friend bool operator<(const ReadyKey& a, const ReadyKey& b) noexcept {
    return a.priority != b.priority ? a.priority < b.priority : a.id < b.id;
  }
};

/// A 4-ary heap of jobs by (priority, id), in which a job knows its position (Job::prev).
///
/// Cost: 16 bytes a job. push O(1) when keys ascend, as they do in a queue of one priority, else
///       O(log size); remove O(log size). The four children of a node share a cache line.
class ReadyHeap {
 public:
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Pre: not empty.
  [[nodiscard]] std::uint32_t top() const noexcept { return entries_.front().job; }
  [[nodiscard]] ReadyKey top_key() const noexcept { return key(entries_.front()); }

  void push(JobTable& jobs, Job& job) {
    entries_.push_back({job.id, job.priority, job.index});
    sift_up(jobs, entries_.size() - 1);
  }
  void remove(JobTable& jobs, Job& job) {
    const std::size_t position = job.prev;
    const Entry last = entries_.back();
    entries_.pop_back();
    job.prev = kNil;
    if (position < entries_.size()) {
      entries_[position] = last;
      if (position > 0 && key(last) < key(entries_[parent(position)])) {
        sift_up(jobs, position);
      } else {
        sift_down(jobs, position);
      }
    }
    if (entries_.capacity() > kShrinkAbove && entries_.size() < entries_.capacity() / 4) {
      std::vector<Entry> smaller;
      smaller.reserve(entries_.capacity() / 2);
      smaller.assign(entries_.begin(), entries_.end());
      entries_ = std::move(smaller);
    }
  }
  void clear() noexcept { entries_ = {}; }
  /// Calls visit(index of a job) for each, in no particular order.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Entry& entry : entries_) visit(entry.job);
  }

  /// Calls visit(index of a job) for the most urgent, in order, until it returns false. `scratch`
  /// is for reuse of its memory. O(visited log visited).
  template <class Visit>
  void in_order(std::vector<std::uint32_t>& scratch, Visit&& visit) const {
    const auto later = [this](std::uint32_t a, std::uint32_t b) {
      return key(entries_[b]) < key(entries_[a]);
    };
    scratch.clear();
    if (!entries_.empty()) scratch.push_back(0);
    while (!scratch.empty()) {
      std::pop_heap(scratch.begin(), scratch.end(), later);
      const std::size_t position = scratch.back();
      scratch.pop_back();
      if (!visit(entries_[position].job)) return;
      const std::size_t first = 4 * position + 1;
      const std::size_t end = std::min(first + 4, entries_.size());
      for (std::size_t child = first; child < end; ++child) {
        scratch.push_back(static_cast<std::uint32_t>(child));
        std::push_heap(scratch.begin(), scratch.end(), later);
      }
    }
  }

  /// Stops the program if the order or a position is wrong.
  void check(const JobTable& jobs) const {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Job& job = jobs[entries_[i].job];
      CARILLON_CHECK(job.id == entries_[i].id && job.priority == entries_[i].priority, job.id);
      CARILLON_CHECK(job.prev == i, "job ", job.id, " believes it is at ", job.prev, " not ", i);
      CARILLON_CHECK(i == 0 || !(key(entries_[i]) < key(entries_[parent(i)])), job.id);
    }
  }

 private:
  struct Entry {
    JobId id;
    std::uint32_t priority;
    std::uint32_t job;
  };
  static constexpr std::size_t kShrinkAbove = 256;

  static ReadyKey key(const Entry& entry) noexcept { return {entry.id, entry.priority}; }
  static std::size_t parent(std::size_t position) noexcept { return (position - 1) / 4; }

  void put_at(JobTable& jobs, std::size_t position, const Entry& entry) noexcept {
    entries_[position] = entry;
    jobs[entry.job].prev = static_cast<std::uint32_t>(position);
  }
  void sift_up(JobTable& jobs, std::size_t position) noexcept {
    const Entry entry = entries_[position];
    while (position > 0 && key(entry) < key(entries_[parent(position)])) {
      put_at(jobs, position, entries_[parent(position)]);
      position = parent(position);
    }
    put_at(jobs, position, entry);
  }
  void sift_down(JobTable& jobs, std::size_t position) noexcept {
    const Entry entry = entries_[position];
    for (;;) {
      const std::size_t first = 4 * position + 1;
      if (first >= entries_.size()) break;
      const std::size_t end = std::min(first + 4, entries_.size());
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (key(entries_[child]) < key(entries_[least])) least = child;
      }
      if (!(key(entries_[least]) < key(entry))) break;
      put_at(jobs, position, entries_[least]);
      position = least;
    }
    put_at(jobs, position, entry);
  }

  std::vector<Entry> entries_;
};

}  // namespace carillon::broker::internal
