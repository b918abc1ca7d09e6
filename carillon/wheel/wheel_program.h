// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests: a string of bytes as a program of wheel operations, run on wheel and model in
/// lockstep. The property test draws the bytes, the fuzzer breeds them, and both find the same
/// things interesting: ties, level boundaries, the past, the end of time, sinks that meddle.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <sstream>
#include <string>

#include "carillon/wheel/wheel_model.h"

namespace carillon {

class WheelProgram {
 public:
  static constexpr int kTimers = 24;

  explicit WheelProgram(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  /// Runs it on a fresh `Wheel`; throws std::logic_error, with the operations so far, when wheel
  /// and model disagree.
  template <TimeDriven Wheel>
  void run() {
    at_ = 0;
    log_.str("");
    try {
      const Tick start = decode_start();
      log_ << "start " << start;
      WheelLockstep<Wheel> wheels(start, kTimers);
      while (at_ < bytes_.size()) {
        operate(wheels);
      }
      wheels.check_all();
      wheels.ask();
      finish(wheels);
    } catch (const std::logic_error& error) {
      throw std::logic_error(std::string(error.what()) + "\n" + log_.str());
    }
  }

 private:
  std::uint8_t next_byte() { return at_ < bytes_.size() ? bytes_[at_++] : std::uint8_t{0}; }
  Tick next_bytes(int count) {
    Tick value = 0;
    for (int i = 0; i < count; ++i) {
      value = value << 8 | next_byte();
    }
    return value;
  }
  int next_id() { return next_byte() % kTimers; }

  static Tick saturating_add(Tick tick, Tick delay) {
    return tick > kLastTick - delay ? kLastTick : tick + delay;
  }

  Tick decode_start() {
    switch (next_byte() % 5) {
      case 0: return 0;
      case 1: return next_byte();
      case 2: return (Tick{1} << (next_byte() % 64)) - next_byte();
      case 3: return kLastTick - next_byte();
      default: return next_bytes(8);
    }
  }

  template <class Lockstep>
  Tick decode_tick(const Lockstep& wheels) {
    const Tick now = wheels.now();
    switch (next_byte() % 11) {
      case 0: return saturating_add(now, next_byte() % 8);
      case 1: return saturating_add(now, next_byte());
      case 2: return saturating_add(now, next_bytes(2));
      case 3: return saturating_add(now, next_bytes(4));
      case 4: return now - std::min<Tick>(now, next_byte());
      case 5: return kLastTick - next_byte() % 4;
      case 6: return next_bytes(8);
      // Beside where a level begins.
      case 7: {
        const Tick below = (Tick{1} << (next_byte() % 64)) - 1;
        return saturating_add(now | below, 1) + next_byte() % 5 - 2;
      }
      case 8: return saturating_add(now, Tick{1} << (next_byte() % 64)) + next_byte() % 3 - 1;
      // When another timer is due, or around it.
      case 9: return wheels.deadline(next_id());
      default: return wheels.deadline(next_id()) + next_byte() % 5 - 2;
    }
  }

  template <class Lockstep>
  void operate(Lockstep& wheels) {
    switch (next_byte() % 18) {
      case 16:
      case 17: postpone(wheels); break;
      case 0:
      case 1:
      case 2:
      case 3:
      case 4: {
        const int id = next_id();
        const Tick deadline = decode_tick(wheels);
        log_ << "\nschedule " << id << " for " << deadline;
        wheels.schedule(id, deadline);
        break;
      }
      case 5:
      case 6: {
        const int id = next_id();
        log_ << "\ncancel " << id;
        wheels.cancel(id);
        break;
      }
      case 7: {
        const int id = next_id();
        log_ << "\ndestroy " << id;
        wheels.destroy(id);
        break;
      }
      // Cancels the earliest, which leaves the next one to be searched.
      case 8: {
        cancel_earliest(wheels);
        break;
      }
      case 9:
      case 10:
        log_ << "\nask";
        wheels.ask();
        break;
      case 11:
      case 12: advance(wheels, decode_tick(wheels), kUnlimited); break;
      case 13: advance(wheels, decode_tick(wheels), next_byte() % 8); break;
      // As a driver does: sleep until the next deadline.
      case 14: advance(wheels, wheels.next_deadline().value_or(wheels.now()), kUnlimited); break;
      default: rarely(wheels); break;
    }
  }

  // From its own deadline, or else mostly earlier deadlines would be drawn.
  template <class Lockstep>
  void postpone(Lockstep& wheels) {
    const int id = next_id();
    const Tick deadline = next_byte() % 2 == 0
                              ? decode_tick(wheels)
                              : saturating_add(wheels.deadline(id), next_bytes(1 + id % 3));
    log_ << "\npostpone " << id << " to " << deadline;
    wheels.postpone(id, deadline);
  }

  template <class Lockstep>
  void cancel_earliest(Lockstep& wheels) {
    const auto earliest = wheels.next_deadline();
    for (int id = 0; id < kTimers && earliest; ++id) {
      if (wheels.scheduled(id) && wheels.deadline(id) == *earliest) {
        log_ << "\ncancel the earliest, " << id;
        wheels.cancel(id);
        return;
      }
    }
  }

  template <class Lockstep>
  void rarely(Lockstep& wheels) {
    switch (next_byte() % 4) {
      case 0:
        log_ << "\nclear";
        wheels.clear();
        break;
      case 1:
        log_ << "\nreplace wheel";
        wheels.replace_wheel();
        break;
      default: wheels.check_all(); break;
    }
  }

  // After a timer has expired its sink does up to three things, as long as the bytes last and this
  // advance has not had enough of it: a timer that re-arms itself could go on for 2^64 ticks.
  template <class Lockstep>
  void advance(Lockstep& wheels, Tick target, std::size_t budget) {
    log_ << "\nadvance to " << target;
    int reactions = 64;
    wheels.advance(target, budget, [&](int expired) {
      log_ << "\n  expires " << expired << " at " << wheels.now();
      for (int count = next_byte() % 4; count > 0 && reactions > 0; --count, --reactions) {
        react(wheels, expired);
      }
    });
  }

  template <class Lockstep>
  void react(Lockstep& wheels, int expired) {
    switch (next_byte() % 13) {
      case 12: postpone(wheels); break;
      case 0:
      case 1:
      case 2: {
        const int id = next_id();
        const Tick deadline = decode_tick(wheels);
        log_ << "\n    schedule " << id << " for " << deadline;
        wheels.schedule(id, deadline);
        break;
      }
      case 3:
      case 4: {
        const Tick deadline = decode_tick(wheels);
        log_ << "\n    schedule itself for " << deadline;
        wheels.schedule(expired, deadline);
        break;
      }
      case 5:
      case 6: {
        const int id = next_id();
        log_ << "\n    cancel " << id;
        wheels.cancel(id);
        break;
      }
      case 7: {
        const int id = next_id();
        log_ << "\n    destroy " << id;
        wheels.destroy(id);
        break;
      }
      case 8:
        log_ << "\n    destroy itself";
        wheels.destroy(expired);
        break;
      case 9:
        log_ << "\n    cancel a neighbour";
        cancel_earliest(wheels);
        break;
      case 10:
        log_ << "\n    ask";
        wheels.ask();
        break;
      default:
        if (next_byte() % 16 == 0) {
          log_ << "\n    clear";
          wheels.clear();
        }
        break;
    }
  }

  // Whatever is left expires, in order, in no more steps than there are timers.
  template <class Lockstep>
  void finish(Lockstep& wheels) {
    for (int steps = 0; wheels.next_deadline(); ++steps) {
      if (steps > kTimers) {
        throw std::logic_error("a wake-up for nothing");
      }
      wheels.advance(*wheels.next_deadline());
      wheels.ask();
    }
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::ostringstream log_;
};

}  // namespace carillon
