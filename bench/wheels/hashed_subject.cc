// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/passive_subject.h"
#include "bench/wheels/workloads.h"
#include "carillon/wheel/hashed_wheel.h"

namespace carillon::bench {
namespace {

// One turn is longer than all delays but W4's.
struct HashedName : ExactWheel {
  static constexpr std::string_view kName = "HashedWheel";
  static HashedWheel make(std::size_t) { return HashedWheel(0, 65'536); }
};

}  // namespace

SubjectEntry hashed_subject() {
  return entry_of<PassiveSubject<HashedWheel, WheelHook, HashedName>>();
}

}  // namespace carillon::bench
