// SPDX-License-Identifier: Apache-2.0
// Random programs on a wheel and on a std::multimap in lockstep: RapidCheck prints the seed and
// the shortest program it found. RC_PARAMS="max_success=100000 seed=..." for longer runs.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <vector>

#include "carillon/wheel/hierarchical_wheel_impl.h"
#include "carillon/wheel/wheel_program.h"

namespace carillon {
namespace {

// Few timers crowd a small wheel; where nothing is searched, every coarse slot that is asked about
// is sorted ahead.
struct FourSlots : PowerOfTwoLevels<2> {
  static constexpr int kShortList = 0;
};
struct TwoSlots : PowerOfTwoLevels<1> {
  static constexpr int kShortList = 2;
};
struct UnevenSlots : PowerOfTwoLevels<1, 7, 3> {
  static constexpr int kShortList = 1;
};

template <class Wheel>
void check_random_program() {
  const auto bytes = *rc::gen::scale(
      12.0, rc::gen::container<std::vector<std::uint8_t>>(rc::gen::cast<std::uint8_t>(
                rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 256)))));
  WheelProgram(bytes).run<Wheel>();
}

RC_GTEST_PROP(HierarchicalWheelProperty, DefaultWheelDoesWhatAMultimapDoes, ()) {
  check_random_program<HierarchicalWheel>();
}

RC_GTEST_PROP(HierarchicalWheelProperty, LinuxWheelDoesWhatAMultimapDoes, ()) {
  check_random_program<LinuxWheel>();
}

RC_GTEST_PROP(HierarchicalWheelProperty, WheelOfFourSlotsDoesWhatAMultimapDoes, ()) {
  check_random_program<BasicHierarchicalWheel<FourSlots>>();
}

RC_GTEST_PROP(HierarchicalWheelProperty, WheelOfTwoSlotsDoesWhatAMultimapDoes, ()) {
  check_random_program<BasicHierarchicalWheel<TwoSlots>>();
}

RC_GTEST_PROP(HierarchicalWheelProperty, UnevenLevelsDoWhatAMultimapDoes, ()) {
  check_random_program<BasicHierarchicalWheel<UnevenSlots>>();
}

}  // namespace
}  // namespace carillon
