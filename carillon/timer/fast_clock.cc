// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/internal/fast_clock.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "carillon/base/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <fstream>
#include <string>
#endif

namespace carillon::internal {

constinit thread_local ThreadPlace thread_place;
constinit CounterRate counter_rate;

// Guards the numbers of threads; a fork must wait for it.
constinit std::mutex numbers_mutex;

namespace {

// How many threads have each number.
constinit std::array<unsigned, kThreadNumbers> threads_of_number{};

// Gives the number of its thread back when that ends.
struct NumberHolder {
  ~NumberHolder() {
    const std::lock_guard<std::mutex> lock(numbers_mutex);
    --threads_of_number[thread_place.number_plus_one - 1];
    thread_place.number_plus_one = 0;
  }
};

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
    counter_rate.rate.store(static_cast<std::uint64_t>(exact * kTooFast * kTwoTo32),
                            std::memory_order_relaxed);
    // Nobody uses the rate before he sees a window.
    counter_rate.window.store(static_cast<std::uint64_t>(1e6 / exact), std::memory_order_release);
  }
  calibration.store(Calibration::kOver, std::memory_order_release);
}

#endif

}  // namespace

unsigned number_this_thread() noexcept {
  {
    const std::lock_guard<std::mutex> lock(numbers_mutex);
    const auto least = std::min_element(threads_of_number.begin(), threads_of_number.end());
    ++*least;
    thread_place.number_plus_one = static_cast<unsigned>(least - threads_of_number.begin()) + 1;
  }
  static thread_local const NumberHolder kHolder;
  static_cast<void>(kHolder);
  return thread_place.number_plus_one - 1;
}

Instant read_steady_clock() noexcept {
#if defined(__x86_64__)
  const std::uint64_t before = __rdtsc();
  const Instant now = SteadyClock().now();
  if (__rdtsc() - before < kUndisturbed) {
    const Span::rep nanos = now.time_since_epoch().count();
    thread_place.counter = before;
    thread_place.nanos = nanos;
    calibrate(before, nanos);
  }
  return now;
#else
  return SteadyClock().now();
#endif
}

}  // namespace carillon::internal
