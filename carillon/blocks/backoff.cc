// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/backoff.h"

#include <algorithm>
#include <cmath>

#include "carillon/base/check.h"
#include "carillon/blocks/spread.h"

namespace carillon {
namespace {

// Another one each time, and no system call for it.
std::uint64_t fresh_seed() noexcept {
  static std::atomic<std::uint64_t> counter{
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count())};
  return Random(counter.fetch_add(1, std::memory_order_relaxed))();
}

// As whole numbers of 1 / scale, if it is a share of `tokens`.
std::int64_t scaled(double per_success, std::uint32_t tokens, std::int64_t scale) {
  CARILLON_CHECK(per_success >= 0 && per_success <= tokens, "a retry budget that gives back ",
                 per_success, " tokens a success");
  return static_cast<std::int64_t>(per_success * static_cast<double>(scale));
}

}  // namespace

RetryBudget::RetryBudget(std::uint32_t tokens, double per_success)
    : full_(tokens * kScale), per_success_(scaled(per_success, tokens, kScale)), left_(full_) {
  constexpr std::uint32_t kMostTokens = 1'000'000;
  CARILLON_CHECK(tokens >= 1 && tokens <= kMostTokens, "a retry budget of ", tokens, " tokens");
}

bool RetryBudget::take() noexcept {
  std::int64_t before = left_.load(std::memory_order_relaxed);
  while (!left_.compare_exchange_weak(before, std::max<std::int64_t>(before - kScale, 0),
                                      std::memory_order_relaxed)) {
  }
  return before - kScale >= full_ / 2;
}

void RetryBudget::give() noexcept {
  std::int64_t before = left_.load(std::memory_order_relaxed);
  while (before < full_ &&
         !left_.compare_exchange_weak(before, std::min(before + per_success_, full_),
                                      std::memory_order_relaxed)) {
  }
}

double RetryBudget::tokens() const noexcept {
  return static_cast<double>(left_.load(std::memory_order_relaxed)) / static_cast<double>(kScale);
}

Backoff::Backoff(const RetryOptions& options, Instant now)
    : options_(options),
      random_(options.seed ? *options.seed : fresh_seed()),
      deadline_(saturating_add(now, options.at_most)),
      longest_ns_(static_cast<double>(options.first.count())) {
  CARILLON_CHECK(options.first >= Span::zero(), "a first wait of ", options.first.count(), " ns");
  CARILLON_CHECK(options.factor >= 1 && std::isfinite(options.factor), "a factor of ",
                 options.factor);
  CARILLON_CHECK(options.most >= options.first, "a longest wait of ", options.most.count(),
                 " ns, shorter than the first one");
}

std::optional<Span> Backoff::failed(Instant now) {
  // The budget counts every failure, whatever else ends it.
  const bool affordable = options_.budget == nullptr || options_.budget->take();
  if (options_.max_attempts != 0 && attempts_ >= options_.max_attempts) {
    end_ = RetryEnd::kAttempts;
    return std::nullopt;
  }
  if (!affordable) {
    end_ = RetryEnd::kBudget;
    return std::nullopt;
  }
  const Span wait = draw();
  if (saturating_add(now, wait) > deadline_) {
    end_ = RetryEnd::kDeadline;
    return std::nullopt;
  }
  attempts_ += attempts_ < std::numeric_limits<std::uint32_t>::max() ? 1 : 0;
  return wait;
}

void Backoff::succeeded() noexcept {
  end_ = RetryEnd::kSucceeded;
  if (options_.budget != nullptr) {
    options_.budget->give();
  }
}

Span Backoff::draw() noexcept {
  const auto most = static_cast<double>(options_.most.count());
  const Span longest =
      longest_ns_ < most ? Span(static_cast<Span::rep>(longest_ns_)) : options_.most;
  longest_ns_ = std::min(longest_ns_ * options_.factor, most);
  switch (options_.jitter) {
    case Jitter::kFull: return random_offset(longest, random_);
    case Jitter::kHalf: return longest - random_offset(longest / 2, random_);
    case Jitter::kNone: break;
  }
  return longest;
}

}  // namespace carillon
