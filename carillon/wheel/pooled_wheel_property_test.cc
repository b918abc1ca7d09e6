// SPDX-License-Identifier: Apache-2.0
// Random programs on a pooled wheel and on a std::multimap in lockstep: RapidCheck prints the seed
// and the shortest program it found. RC_PARAMS="max_success=100000 seed=..." for longer runs.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <vector>

#include "carillon/wheel/pooled_wheel_hooks.h"
#include "carillon/wheel/wheel_program.h"

namespace carillon {
namespace {

template <class Wheel>
void check_random_program() {
  const auto bytes = *rc::gen::scale(
      12.0, rc::gen::container<std::vector<std::uint8_t>>(rc::gen::cast<std::uint8_t>(
                rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 256)))));
  WheelProgram(bytes).run<Wheel>();
}

RC_GTEST_PROP(PooledWheelProperty, DefaultShapeDoesWhatAMultimapDoes, ()) {
  check_random_program<HookedPool<PooledShape>>();
}

RC_GTEST_PROP(PooledWheelProperty, ChunksOfOneEntryDoWhatAMultimapDoes, ()) {
  check_random_program<HookedPool<TinyPool>>();
}

RC_GTEST_PROP(PooledWheelProperty, ChunksOfThreeEntriesDoWhatAMultimapDoes, ()) {
  check_random_program<HookedPool<SmallPool>>();
}

RC_GTEST_PROP(PooledWheelProperty, NodesThatAreRetiredSoonDoWhatAMultimapDoes, ()) {
  check_random_program<HookedPool<MortalPool>>();
}

}  // namespace
}  // namespace carillon
