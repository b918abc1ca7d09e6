// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "carillon/base/check.h"
#include "carillon/blocks/internal/keyed_limiter.h"

namespace carillon::internal {

ExactRate::ExactRate(Rate rate, std::uint64_t most_permits) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  CARILLON_CHECK(rate.permits > 0 && rate.per > Span::zero() && most_permits > 0, "a limiter of ",
                 rate.permits, " permits in ", rate.per.count(), " ns, at most ", most_permits,
                 " at once");
  const auto per = static_cast<std::uint64_t>(rate.per.count());
  const std::uint64_t common = std::gcd(rate.permits, per);
  std::uint64_t all = 0;
  CARILLON_CHECK(rate.permits / common < kMost &&
                     !__builtin_mul_overflow(per / common, most_permits, &all) && all < kMost,
                 "too many permits at once (", most_permits, ") for so slow a rate: ", rate.permits,
                 " in ", rate.per.count(), " ns");
  permit = static_cast<std::int64_t>(per / common);
  nano = static_cast<std::int64_t>(rate.permits / common);
  most = static_cast<std::int64_t>(all);
}

}  // namespace carillon::internal
