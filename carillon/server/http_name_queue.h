// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Who sets something by name waits here until nobody else is setting that name.
///
/// A schedule lies in the partition of its tube, so two requests that give one name to tubes of
/// different partitions meet in neither. All of them come through the network thread, which
/// therefore owns the names: one request at a time has a name, asks every partition whether it
/// knows it, and sets it in one. Why so: docs/decisions/0017-names-of-schedules.md.

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

namespace carillon::server {

/// Threads:   the network thread.
/// Callbacks: may take and give back names.
/// Limits:    kMaxWaiting.
class HttpNameQueue {
 public:
  /// Of all names together.
  static constexpr std::size_t kMaxWaiting = 4'096;

  /// Calls `begin` when nobody has the name, perhaps at once: then it is the caller's until
  /// give_back(). False: too many are waiting, and it is never called.
  bool take(const std::string& name, std::function<void()> begin) {
    const auto [place, is_free] = waiting_.try_emplace(name);
    if (!is_free) {
      if (count_ >= kMaxWaiting) return false;
      ++count_;
      place->second.push_back(std::move(begin));
      return true;
    }
    begin();
    return true;
  }

  /// Pre: the caller has it.
  void give_back(const std::string& name) {
    const auto found = waiting_.find(name);
    if (found->second.empty()) {
      waiting_.erase(found);
      return;
    }
    const std::function<void()> next = std::move(found->second.front());
    found->second.pop_front();
    --count_;
    next();
  }

 private:
  // Of each name that somebody has: who wants it next.
  std::unordered_map<std::string, std::deque<std::function<void()>>> waiting_;
  std::size_t count_ = 0;
};

}  // namespace carillon::server
