// SPDX-License-Identifier: Apache-2.0
// All short sequences of operations on a tiny wheel of each kind, against the model.
#include <gtest/gtest.h>

#include "carillon/wheel/wheel_kinds.h"
#include "carillon/wheel/wheel_sequences.h"

namespace carillon {
namespace {

template <class Wheel>
class WheelExhaustiveTest : public ::testing::Test {};
using TinyWheels =
    ::testing::Types<TinyHierarchicalWheel, TinyDividingWheel, TinyHashedWheel, TinyCoarseWheel>;
TYPED_TEST_SUITE(WheelExhaustiveTest, TinyWheels);

TYPED_TEST(WheelExhaustiveTest, AllSequencesOnAWheelOfFourSlots) {
  for (const Tick start : kSequenceStarts) {
    ASSERT_NO_FATAL_FAILURE(run_all_sequences<TypeParam>(start));
  }
}

}  // namespace
}  // namespace carillon
