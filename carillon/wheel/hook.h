// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `WheelHook`, the 32 bytes that an object carries in order to wait in a wheel, and `Tick`, the
/// unit in which every wheel counts time.
///
/// A wheel never allocates: what waits in it is the user's own object, linked through the hook.
/// Derive from WheelHook, and the sink, which gets the hook back, finds the object by a cast. An
/// object with several timeouts has a member for each, of a type that derives from it and points
/// back:
///
///     struct Order;
///     struct Timeout : carillon::WheelHook {
///       Timeout(Order& o, void (Order::*f)()) : order(o), on_due(f) {}
///       Order& order;
///       void (Order::*on_due)();
///     };
///     struct Order {
///       Timeout unpaid{*this, &Order::cancel};
///       Timeout unsent{*this, &Order::remind};
///       void cancel();
///       void remind();
///     };
///     wheel.advance(now, [](carillon::WheelHook& hook) {
///       auto& timeout = static_cast<Timeout&>(hook);
///       (timeout.order.*timeout.on_due)();
///     });
///
/// All hooks of one wheel are of one such type, or have a common base that tells them apart.

#include <cstddef>
#include <cstdint>

#include "carillon/wheel/internal/hook_list.h"

namespace carillon {

/// One unit of wheel time: an unsigned count whose length the user chooses (a millisecond, a
/// frame). Wheels know no clock; they are told the present tick.
using Tick = std::uint64_t;

/// The last tick there is. A deadline here is "practically never", and is still kept.
inline constexpr Tick kLastTick = ~Tick{0};

class WheelHook;

namespace internal {

// What a hook must reach of the wheel it waits in, whatever the kind of wheel, so that it can
// unlink itself: removal touches the list and these three words, nothing else. Wheels derive from
// it; occupancy bits are therefore cleared lazily, by whoever next looks for an occupied slot.
struct WheelCore {
  std::size_t size = 0;
  // No timer in the wheel is due before `earliest`; while `earliest_exact`, one is due then.
  Tick earliest = kLastTick;
  bool earliest_exact = false;

  // Unlinks `hook`, which must be scheduled here.
  inline void forget(WheelHook& hook) noexcept;
  // Takes note of a new timer due at `deadline`; returns whether it is now known to be the
  // earliest.
  inline bool admit(Tick deadline) noexcept;
};

struct HookAccess;

}  // namespace internal

/// The place of one timer in a wheel; the same for all the intrusive wheels.
///
/// Threads:   as the wheel: one thread at a time.
/// Lifetime:  belongs to the user. The destructor cancels it if it is scheduled, so a timer can
///            never outlive its object; the destructor of the wheel leaves it unscheduled. Neither
///            copied nor moved: others point to it.
/// Cost:      32 bytes on a 64-bit machine.
///
/// Example:
///     struct Connection : carillon::WheelHook { int socket; };
///     wheel.schedule(connection, wheel.now() + 30'000);
///     wheel.advance(now, [](carillon::WheelHook& hook) {
///       close(static_cast<Connection&>(hook).socket);
///     });
class WheelHook : private internal::ListNode {
 public:
  WheelHook() noexcept = default;
  WheelHook(const WheelHook&) = delete;
  WheelHook& operator=(const WheelHook&) = delete;
  ~WheelHook() {
    if (scheduled()) {
      owner_->forget(*this);
    }
  }

  /// True from schedule() until cancel(), or until the sink is about to be given the hook.
  [[nodiscard]] bool scheduled() const noexcept { return owner_ != nullptr; }

  /// The tick at which it is due; after it expired or was cancelled, the tick at which it last was.
  /// 0 if it was never scheduled. A deadline that had passed when it was scheduled reads as the
  /// tick after.
  [[nodiscard]] Tick deadline() const noexcept { return deadline_; }

 private:
  friend struct internal::WheelCore;
  friend struct internal::HookAccess;

  Tick deadline_ = 0;
  internal::WheelCore* owner_ = nullptr;
};

static_assert(sizeof(void*) != 8 || sizeof(WheelHook) == 32);

namespace internal {

// The wheels' key to the private parts of a hook.
struct HookAccess {
  static ListNode& node(WheelHook& hook) noexcept { return hook; }
  static WheelHook& hook(ListNode& node) noexcept { return static_cast<WheelHook&>(node); }
  static const WheelHook& hook(const ListNode& node) noexcept {
    return static_cast<const WheelHook&>(node);
  }
  static Tick& deadline(WheelHook& hook) noexcept { return hook.deadline_; }
  static WheelCore*& owner(WheelHook& hook) noexcept { return hook.owner_; }
};

void WheelCore::forget(WheelHook& hook) noexcept {
  static_cast<ListNode&>(hook).unlink();
  hook.owner_ = nullptr;
  --size;
  earliest_exact &= hook.deadline_ != earliest;
}

bool WheelCore::admit(Tick deadline) noexcept {
  const bool first = size++ == 0;
  if (deadline < earliest || first) {
    earliest = deadline;
    earliest_exact = true;
    return true;
  }
  earliest_exact |= deadline == earliest;
  return false;
}

}  // namespace internal

}  // namespace carillon
