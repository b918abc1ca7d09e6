// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/passive_subject.h"
#include "bench/wheels/workloads.h"
#include "carillon/wheel/wall_clock_wheel.h"

namespace carillon::bench {
namespace {

struct WallClockName : ExactWheel {
  static constexpr std::string_view kName = "WallClockWheel";
};

}  // namespace

SubjectEntry wall_clock_subject() {
  return entry_of<PassiveSubject<WallClockWheel, WheelHook, WallClockName>>();
}

}  // namespace carillon::bench
