// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/passive_subject.h"
#include "bench/wheels/workloads.h"
#include "carillon/wheel/coarse_wheel.h"

namespace carillon::bench {
namespace {

struct CoarseName {
  static constexpr std::string_view kName = "CoarseWheel";
  static constexpr Family kFamily = Family::kWheel;
  // It promises 4/63 and is held to 1/8, the next power of two.
  static constexpr int kLateShift = 3;
};

}  // namespace

SubjectEntry coarse_subject() {
  return entry_of<PassiveSubject<CoarseWheel, WheelHook, CoarseName>>();
}

}  // namespace carillon::bench
