// SPDX-License-Identifier: Apache-2.0
// Random programs on a wheel and on a std::multimap in lockstep: RapidCheck prints the seed and
// the shortest program it found. RC_PARAMS="max_success=100000 seed=..." for longer runs.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdint>
#include <vector>

#include "carillon/wheel/wheel_kinds.h"
#include "carillon/wheel/wheel_program.h"

namespace carillon {
namespace {

template <class Wheel>
class WheelPropertyTest : public ::testing::Test {};
using AllWheels = AllWheelsIn<::testing::Types>;
TYPED_TEST_SUITE(WheelPropertyTest, AllWheels);

TYPED_TEST(WheelPropertyTest, DoesWhatAMultimapDoes) {
  EXPECT_TRUE(rc::check([] {
    const auto bytes = *rc::gen::scale(
        12.0, rc::gen::container<std::vector<std::uint8_t>>(rc::gen::cast<std::uint8_t>(
                  rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, 256)))));
    WheelProgram(bytes).run<TypeParam>();
  }));
}

}  // namespace
}  // namespace carillon
