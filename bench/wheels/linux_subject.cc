// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/passive_subject.h"
#include "bench/wheels/workloads.h"
#include "carillon/wheel/hierarchical_wheel.h"

namespace carillon::bench {
namespace {

struct LinuxName : ExactWheel {
  static constexpr std::string_view kName = "LinuxWheel";
};

}  // namespace

SubjectEntry linux_subject() {
  return entry_of<PassiveSubject<LinuxWheel, WheelHook, LinuxName>>();
}

}  // namespace carillon::bench
