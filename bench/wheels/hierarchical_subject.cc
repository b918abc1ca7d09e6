// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/passive_subject.h"
#include "bench/wheels/workloads.h"
#include "carillon/wheel/hierarchical_wheel.h"

namespace carillon::bench {
namespace {

struct HierarchicalName : ExactWheel {
  static constexpr std::string_view kName = "HierarchicalWheel";
};

}  // namespace

SubjectEntry hierarchical_subject() {
  return entry_of<PassiveSubject<HierarchicalWheel, WheelHook, HierarchicalName>>();
}

}  // namespace carillon::bench
