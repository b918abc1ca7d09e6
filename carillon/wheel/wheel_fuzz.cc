// SPDX-License-Identifier: Apache-2.0
// libFuzzer over programs of wheel operations: the first byte picks the wheel.
#include <array>
#include <cstdint>
#include <span>

#include "carillon/wheel/wheel_kinds.h"
#include "carillon/wheel/wheel_program.h"

namespace {

using Run = void (*)(carillon::WheelProgram&);

template <class... Wheels>
struct Runs {
  static constexpr std::array<Run, sizeof...(Wheels)> kAll = {
      [](carillon::WheelProgram& program) { program.run<Wheels>(); }...};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  constexpr auto& kRuns = carillon::AllWheelsIn<Runs>::kAll;
  carillon::WheelProgram program(std::span(bytes, size).subspan(1));
  kRuns[bytes[0] % kRuns.size()](program);
  return 0;
}
