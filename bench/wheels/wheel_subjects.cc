// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/passive_subject.h"
#include "bench/wheels/workloads.h"
#include "carillon/wheel/coarse_wheel.h"
#include "carillon/wheel/hashed_wheel.h"
#include "carillon/wheel/hierarchical_wheel.h"
#include "carillon/wheel/kafka_wheel.h"
#include "carillon/wheel/wall_clock_wheel.h"

namespace carillon::bench {
namespace {

struct ExactWheel {
  static constexpr Family kFamily = Family::kWheel;
  static constexpr int kLateShift = 0;
};
struct HierarchicalName : ExactWheel {
  static constexpr std::string_view kName = "HierarchicalWheel";
};
struct LinuxName : ExactWheel {
  static constexpr std::string_view kName = "LinuxWheel";
};
struct KafkaName : ExactWheel {
  static constexpr std::string_view kName = "KafkaWheel";
};
struct WallClockName : ExactWheel {
  static constexpr std::string_view kName = "WallClockWheel";
};
// One turn is longer than all delays but W4's.
struct HashedName : ExactWheel {
  static constexpr std::string_view kName = "HashedWheel";
  static HashedWheel make(std::size_t) { return HashedWheel(0, 65'536); }
};
struct CoarseName {
  static constexpr std::string_view kName = "CoarseWheel";
  static constexpr Family kFamily = Family::kWheel;
  // It promises 4/63 and is held to 1/8, the next power of two.
  static constexpr int kLateShift = 3;
};

}  // namespace

std::vector<SubjectEntry> wheel_subjects() {
  return {entry_of<PassiveSubject<HierarchicalWheel, WheelHook, HierarchicalName>>(),
          pooled_subject(),
          entry_of<PassiveSubject<LinuxWheel, WheelHook, LinuxName>>(),
          entry_of<PassiveSubject<KafkaWheel, WheelHook, KafkaName>>(),
          entry_of<PassiveSubject<WallClockWheel, WheelHook, WallClockName>>(),
          entry_of<PassiveSubject<HashedWheel, WheelHook, HashedName>>(),
          entry_of<PassiveSubject<CoarseWheel, WheelHook, CoarseName>>()};
}

}  // namespace carillon::bench
