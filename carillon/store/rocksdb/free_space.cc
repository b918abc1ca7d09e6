// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/free_space.h"

#include <sys/statvfs.h>

#include <limits>
#include <utility>

namespace carillon::store {
namespace {

std::function<std::uint64_t()> ask_the_system(std::string folder) {
  return [folder = std::move(folder)]() -> std::uint64_t {
    struct statvfs system{};
    if (::statvfs(folder.c_str(), &system) != 0) return std::numeric_limits<std::uint64_t>::max();
    // f_bavail, not f_bfree: what the superuser keeps back is not ours.
    return static_cast<std::uint64_t>(system.f_bavail) * system.f_frsize;
  };
}

}  // namespace

FreeSpace::FreeSpace(std::string folder, std::uint64_t min_bytes, Span interval,
                     std::function<std::uint64_t()> ask)
    : min_bytes_(min_bytes),
      interval_(interval),
      ask_(ask ? std::move(ask) : ask_the_system(std::move(folder))),
      asked_at_((clock_.now() - interval).time_since_epoch().count()),
      bytes_(ask_()) {}

bool FreeSpace::enough() const noexcept {
  if (min_bytes_ == 0) return true;
  const Span::rep now = clock_.now().time_since_epoch().count();
  Span::rep asked_at = asked_at_.load(std::memory_order_relaxed);
  if (now - asked_at >= interval_.count() &&
      asked_at_.compare_exchange_strong(asked_at, now, std::memory_order_relaxed)) {
    bytes_.store(ask_(), std::memory_order_relaxed);
  }
  return bytes() >= min_bytes_;
}

}  // namespace carillon::store
