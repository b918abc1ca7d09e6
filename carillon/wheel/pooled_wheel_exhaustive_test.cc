// SPDX-License-Identifier: Apache-2.0
// All short sequences of operations on a tiny pooled wheel, against the model.
#include <gtest/gtest.h>

#include "carillon/wheel/pooled_wheel_hooks.h"
#include "carillon/wheel/wheel_sequences.h"

namespace carillon {
namespace {

TEST(PooledWheelExhaustive, AllSequencesOnAWheelOfFourSlots) {
  for (const Tick start : kSequenceStarts) {
    ASSERT_NO_FATAL_FAILURE(run_all_sequences<HookedPool<TinyPool>>(start));
  }
}

}  // namespace
}  // namespace carillon
