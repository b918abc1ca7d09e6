// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What is set of the webhook of a tube.

#include <cstdint>
#include <optional>

#include "carillon/blocks/token_bucket.h"
#include "carillon/server/webhook/post.h"

namespace carillon::server {

/// How long a job that failed waits: after attempt n, base * 2^(n - 1), at most cap; with jitter
/// anything from nothing to that.
struct WebhookBackoff {
  Span base = std::chrono::seconds(1);
  Span cap = std::chrono::hours(1);
  bool jitter = true;
  bool operator==(const WebhookBackoff&) const = default;
};

struct WebhookRate {
  std::uint64_t count = 0;
  Span per = std::chrono::seconds(1);
  std::uint64_t burst = 0;
  bool operator==(const WebhookRate&) const = default;
};

struct WebhookSettings {
  static constexpr std::uint32_t kMaxConcurrency = 1'000;

  PostTarget target;
  /// Posts at a time.
  std::uint32_t concurrency = 10;
  /// Posts begun; nothing: as many as there are.
  std::optional<WebhookRate> rate;
  /// A job whose so-manieth attempt fails is buried. 0: never.
  std::uint32_t max_attempts = 20;
  /// Of jobs that have none of their own.
  WebhookBackoff backoff;
  /// A server's Retry-After counts up to this.
  Span max_retry_after = std::chrono::hours(1);
  /// Whether a 4xx buries at once, that is not 408, 425 or 429: trying again would not help.
  bool bury_on_client_error = false;
  bool operator==(const WebhookSettings&) const = default;
};

}  // namespace carillon::server
