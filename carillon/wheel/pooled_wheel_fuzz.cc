// SPDX-License-Identifier: Apache-2.0
// libFuzzer over programs of operations on a pooled wheel: the first byte picks the shape.
#include <cstdint>
#include <span>

#include "carillon/wheel/pooled_wheel_hooks.h"
#include "carillon/wheel/wheel_program.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace carillon;
  if (size == 0) {
    return 0;
  }
  WheelProgram program(std::span(bytes, size).subspan(1));
  switch (bytes[0] % 4) {
    case 0: program.run<HookedPool<PooledShape>>(); break;
    case 1: program.run<HookedPool<TinyPool>>(); break;
    case 2: program.run<HookedPool<SmallPool>>(); break;
    default: program.run<HookedPool<MortalPool>>(); break;
  }
  return 0;
}
