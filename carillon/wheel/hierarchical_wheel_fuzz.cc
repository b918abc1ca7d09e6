// SPDX-License-Identifier: Apache-2.0
// libFuzzer over programs of wheel operations: the first byte picks the geometry.
#include <cstdint>
#include <span>

#include "carillon/wheel/hierarchical_wheel_impl.h"
#include "carillon/wheel/wheel_program.h"

namespace {

struct FourSlots : carillon::PowerOfTwoLevels<2> {
  static constexpr int kShortList = 0;
};
struct UnevenSlots : carillon::PowerOfTwoLevels<1, 7, 3> {
  static constexpr int kShortList = 1;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace carillon;
  if (size == 0) {
    return 0;
  }
  WheelProgram program(std::span(bytes, size).subspan(1));
  switch (bytes[0] % 4) {
    case 0: program.run<HierarchicalWheel>(); break;
    case 1: program.run<LinuxWheel>(); break;
    case 2: program.run<BasicHierarchicalWheel<FourSlots>>(); break;
    default: program.run<BasicHierarchicalWheel<UnevenSlots>>(); break;
  }
  return 0;
}
