// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the subjects of event loops have in common.

#include <cstddef>

#include "bench/wheels/subject.h"
#include "bench/wheels/virtual_time.h"

namespace carillon::bench {

/// Virtual time, and the way from a library's callback to the sink of an advance().
template <class Timer>
class LibrarySubject {
 public:
  static constexpr Family kFamily = Family::kLibrary;
  static constexpr bool kDrivesItself = true;
  static constexpr int kLateShift = 0;
  static constexpr std::size_t kPayloadBytes = 0;

  [[nodiscard]] Tick now() const { return time_.now(); }

 protected:
  /// The library's callback: `timer` expires.
  void expire(Timer& timer) { give_(sink_, timer, time_.now()); }

  /// While `run()` runs, expire() calls `sink`.
  template <class Sink, class Run>
  void with_sink(Sink& sink, Run&& run) {
    sink_ = const_cast<void*>(static_cast<const void*>(&sink));  // Sink says whether it is const
    give_ = [](void* to, Timer& timer, Tick tick) { (*static_cast<Sink*>(to))(timer, tick); };
    run();
    sink_ = nullptr;
  }

  VirtualTime time_;

 private:
  void* sink_ = nullptr;
  void (*give_)(void*, Timer&, Tick) = nullptr;
};

}  // namespace carillon::bench
