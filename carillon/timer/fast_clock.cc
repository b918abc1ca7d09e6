// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/internal/fast_clock.h"

#include <atomic>
#include <cstdint>

#include "carillon/base/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>

#include <fstream>
#include <string>
#endif

namespace carillon::internal {
namespace {

struct ThreadPlace {
  unsigned number_plus_one = 0;
  // A reading of the clock, and of the counter before it.
  std::uint64_t counter = 0;
  Span::rep nanos = 0;
};
constinit thread_local ThreadPlace place;

constinit std::atomic<unsigned> threads_numbered{0};

#if defined(__x86_64__)

// Does the kernel go by the counter? Otherwise it does not trust it, for a reason.
bool counter_is_the_clock() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kAdvancedPowerManagement = 0x80000007U;
  constexpr unsigned kInvariantCounter = 1U << 8;
  if (__get_cpuid(kAdvancedPowerManagement, &a, &b, &c, &d) == 0 || (d & kInvariantCounter) == 0) {
    return false;
  }
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string source;
  file >> source;
  return source == "tsc";
}

// Nanoseconds for a count, times 2^32, a thousandth too many. 0: not known yet, or never to be.
constinit std::atomic<std::uint64_t> rate{0};
// Counts for which a reading is good: a millisecond.
constinit std::atomic<std::uint64_t> window{0};

// The first reading in this process; from it the rate is reckoned, once, when it is old enough.
constinit std::atomic<std::uint64_t> first_counter{0};
constinit std::atomic<Span::rep> first_nanos{0};
enum class Calibration : int { kNotBegun, kFirstReading, kReckoning, kOver };
constinit std::atomic<Calibration> calibration{Calibration::kNotBegun};

// A reading is exact if between these two lies less than a microsecond or so: 2,500 counts.
constexpr std::uint64_t kUndisturbed = 2500;

void calibrate(std::uint64_t counter, Span::rep nanos) noexcept {
  constexpr Span::rep kLongEnough = 20'000'000;
  Calibration now = calibration.load(std::memory_order_acquire);
  if (now == Calibration::kNotBegun) {
    if (calibration.compare_exchange_strong(now, Calibration::kReckoning)) {
      first_counter.store(counter, std::memory_order_relaxed);
      first_nanos.store(nanos, std::memory_order_relaxed);
      bool usable = false;
      try {
        usable = counter_is_the_clock();
      } catch (...) {
        usable = false;
      }
      calibration.store(usable ? Calibration::kFirstReading : Calibration::kOver,
                        std::memory_order_release);
    }
    return;
  }
  const Span::rep elapsed = nanos - first_nanos.load(std::memory_order_relaxed);
  if (now != Calibration::kFirstReading || elapsed < kLongEnough ||
      !calibration.compare_exchange_strong(now, Calibration::kReckoning)) {
    return;
  }
  const std::uint64_t counted = counter - first_counter.load(std::memory_order_relaxed);
  const double exact = static_cast<double>(elapsed) / static_cast<double>(counted);
  constexpr double kTooFast = 1.001;
  constexpr double kTwoTo32 = 4294967296.0;
  // Counters of 100 MHz to 10 GHz: no product with a window overflows.
  if (exact > 0.1 && exact < 10) {
    window.store(static_cast<std::uint64_t>(1e6 / exact), std::memory_order_relaxed);
    rate.store(static_cast<std::uint64_t>(exact * kTooFast * kTwoTo32), std::memory_order_release);
  }
  calibration.store(Calibration::kOver, std::memory_order_release);
}

#endif

Span::rep read_clock() noexcept { return SteadyClock().now().time_since_epoch().count(); }

#if defined(__x86_64__)
[[gnu::noinline]] Span::rep reread() noexcept {
  const std::uint64_t before = __rdtsc();
  const Span::rep nanos = read_clock();
  if (__rdtsc() - before < kUndisturbed) {
    place.counter = before;
    place.nanos = nanos;
    calibrate(before, nanos);
  }
  return nanos;
}
#endif

}  // namespace

unsigned thread_number() noexcept {
  if (place.number_plus_one == 0) [[unlikely]] {
    place.number_plus_one = threads_numbered.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  return place.number_plus_one - 1;
}

Instant steady_now_or_later() noexcept {
#if defined(__x86_64__)
  // The counter may be read before what stands before it in the program.
  constexpr Span::rep kReordered = 250;
  const std::uint64_t counted = __rdtsc() - place.counter;
  const std::uint64_t factor = rate.load(std::memory_order_relaxed);
  if (factor != 0 && counted < window.load(std::memory_order_relaxed)) [[likely]] {
    // A window is below 10^7 counts, a rate below 2^36.
    return Instant(
        Span(place.nanos + static_cast<Span::rep>((counted * factor) >> 32) + kReordered));
  }
  return Instant(Span(reread()));
#else
  return Instant(Span(read_clock()));
#endif
}

}  // namespace carillon::internal
