// SPDX-License-Identifier: Apache-2.0
// A stranger's first program: it uses something of each layer that every installation has.
#include <cstdio>
#include <string_view>

#include "carillon/base/clock.h"
#include "carillon/base/result.h"
#include "carillon/wheel/hierarchical_wheel.h"

namespace {

struct Pot : carillon::WheelHook {
  std::string_view content;
};

carillon::Result<carillon::Tick> brewing_time(std::string_view content) {
  if (content == "tea") return carillon::Tick{240};
  return carillon::Error{carillon::ErrorCode::kNotFound, "no such drink"};
}

}  // namespace

int main() {
  const carillon::SteadyClock clock;
  const carillon::Instant start = clock.now();

  carillon::HierarchicalWheel wheel;
  Pot tea;
  Pot coffee;
  tea.content = "tea";
  coffee.content = "coffee";
  wheel.schedule(tea, *brewing_time(tea.content));
  wheel.schedule(coffee, 100);
  wheel.cancel(coffee);

  const carillon::Tick due = *wheel.next_deadline();
  wheel.advance(due, [&](carillon::WheelHook& hook) {
    const std::string_view content = static_cast<Pot&>(hook).content;
    std::printf("%.*s is ready at tick %llu\n", static_cast<int>(content.size()), content.data(),
                static_cast<unsigned long long>(wheel.now()));
  });
  return clock.now() >= start && !brewing_time("milk") && wheel.size() == 0 ? 0 : 1;
}
