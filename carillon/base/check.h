// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Assertions that stay on. A failed check is a bug of ours (never an operating error): it prints
/// where, what and the values given, then aborts.
///
/// CARILLON_CHECK  in every build: for bugs whose continuation could lose or duplicate a job, or a
///                 timer.
/// CARILLON_DCHECK in builds without NDEBUG: where a check would be felt on a hot path.

#include <sstream>
#include <string>

namespace carillon::internal {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message) noexcept;

template <class... Values>
[[noreturn]] [[gnu::cold]] [[gnu::noinline]] void check_failed_with(const char* file, int line,
                                                                    const char* condition,
                                                                    const Values&... values) {
  std::ostringstream out;
  ((out << values), ...);
  check_failed(file, line, condition, out.str());
}

}  // namespace carillon::internal

#define CARILLON_CHECK(condition, ...)                                                \
  do {                                                                                \
    if (!(condition)) [[unlikely]] {                                                  \
      ::carillon::internal::check_failed_with(__FILE__, __LINE__,                     \
                                              #condition __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                 \
  } while (false)

#ifdef NDEBUG
#define CARILLON_DCHECK(condition, ...)       \
  do {                                        \
    if (false) {                              \
      CARILLON_CHECK(condition, __VA_ARGS__); \
    }                                         \
  } while (false)
#else
#define CARILLON_DCHECK(condition, ...) CARILLON_CHECK(condition, __VA_ARGS__)
#endif
