// SPDX-License-Identifier: Apache-2.0
// Buffs of a game, on a wheel whose tick is a frame: 60 a second, none while the game is paused,
// and the same on each run. No clock: a frame is one advance(), however long it took to draw.

#include <cstdio>
#include <string>

#include "carillon/wheel/hierarchical_wheel.h"

namespace {

constexpr carillon::Tick kSecond = 60;  // frames

struct Buff : carillon::WheelHook {
  explicit Buff(const char* of) : name(of) {}
  const char* name;
};

class Game {
 public:
  // Casting it again while it lasts starts it anew.
  void cast(Buff& buff, carillon::Tick seconds) {
    wheel_.reschedule(buff, wheel_.now() + seconds * kSecond);
    say(buff, "begins");
  }
  void dispel(Buff& buff) {
    if (wheel_.cancel(buff)) say(buff, "is dispelled");
  }
  void pause(bool on) { paused_ = on; }
  void frames(carillon::Tick count) {
    for (; count > 0; --count) {
      if (paused_) continue;  // the buffs stand still with the world
      wheel_.advance(wheel_.now() + 1,
                     [&](carillon::WheelHook& hook) { say(static_cast<Buff&>(hook), "ends"); });
    }
  }

 private:
  void say(const Buff& buff, const char* what) const {
    const auto frame = static_cast<unsigned>(wheel_.now());
    std::printf("frame %4u (%2u.%02u s): %s %s\n", frame, frame / 60, frame % 60 * 100 / 60,
                buff.name, what);
  }

  carillon::HierarchicalWheel wheel_;
  bool paused_ = false;
};

}  // namespace

int main() {
  Game game;
  Buff haste("haste");
  Buff shield("shield");
  Buff poison("poison");
  game.cast(haste, 5);
  game.cast(poison, 30);
  game.frames(90);
  game.cast(shield, 2);

  game.pause(true);
  game.frames(600);  // ten seconds in the menu
  game.pause(false);

  game.frames(60);
  game.cast(haste, 5);  // again, a second before... and it ends five seconds from here
  game.dispel(poison);
  game.frames(600);
}
