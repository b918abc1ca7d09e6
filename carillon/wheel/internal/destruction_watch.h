// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How a function of a wheel learns that a callback has destroyed the wheel under it.

namespace carillon::internal {

// While one is on the stack, the destructor of the wheel tells it, through the flag that `slot`
// points to, that the wheel is no more; so for the one around it. `slot` is a member of the wheel.
class DestructionWatch {
 public:
  explicit DestructionWatch(bool*& slot) noexcept : slot_(slot), outer_(slot) {
    slot = &destroyed_;
  }
  DestructionWatch(const DestructionWatch&) = delete;
  DestructionWatch& operator=(const DestructionWatch&) = delete;
  ~DestructionWatch() {
    if (!destroyed_) {
      slot_ = outer_;
    } else if (outer_ != nullptr) {
      *outer_ = true;
    }
  }
  [[nodiscard]] bool destroyed() const noexcept { return destroyed_; }

 private:
  bool*& slot_;  // Not to be touched once the wheel is destroyed.
  bool* const outer_;
  bool destroyed_ = false;
};

}  // namespace carillon::internal
