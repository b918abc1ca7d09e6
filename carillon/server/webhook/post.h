// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// One delivery of a job to a webhook, and how it ended: what the pump and the poster say to each
/// other.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/base/time.h"
#include "carillon/broker/body.h"
#include "carillon/broker/job.h"
#include "carillon/server/webhook/url.h"

namespace carillon::server {

/// Numbers deliveries; never used twice in a process.
using PostId = std::uint64_t;

/// Where the jobs of a tube go.
struct PostTarget {
  WebhookUrl url;
  /// Keys of the signature: none, one, or two while they are being changed.
  std::vector<std::string> secrets;
  /// Fields of the request beside ours: names and values. None is one of ours.
  std::vector<std::pair<std::string, std::string>> headers = {};
  /// For the name, the connection and TLS together.
  Span connect_timeout = std::chrono::seconds(5);
  /// For everything until the answer's head is there.
  Span timeout = std::chrono::seconds(30);
  bool operator==(const PostTarget&) const = default;
};

/// One job to be posted.
struct Post {
  PostId id = 0;
  std::shared_ptr<const PostTarget> target;
  std::string tube;
  broker::JobId job = 0;
  std::uint32_t attempt = 1;
  std::optional<std::int64_t> due_at_ms;  ///< By the calendar; nothing: it is not known.
  std::string key;                        ///< Empty: none.
  std::string content_type;               ///< Empty: application/octet-stream.
  broker::Body body;
};

struct PostOutcome {
  enum class End : std::uint8_t {
    kAnswered,     ///< status
    kRefused,      ///< Every address of the host is one that may not be connected to.
    kUnresolved,   ///< The host's name has no address, or nobody knows.
    kUnreachable,  ///< None of its addresses took the connection.
    kTls,          ///< No TLS, or a certificate that does not convince.
    kTimedOut,
    kClosed,   ///< The connection ended before an answer.
    kGarbage,  ///< The answer is not HTTP.
    kCancelled,
  };
  End end = End::kCancelled;
  int status = 0;
  std::optional<Span> retry_after;
  std::string detail;  ///< For people: what exactly went wrong.
  Span took{};

  [[nodiscard]] bool succeeded() const noexcept {
    return end == End::kAnswered && status >= 200 && status < 300;
  }
};

[[nodiscard]] constexpr std::string_view to_string(PostOutcome::End end) noexcept {
  switch (end) {
    case PostOutcome::End::kAnswered: return "answered";
    case PostOutcome::End::kRefused: return "refused";
    case PostOutcome::End::kUnresolved: return "unresolved";
    case PostOutcome::End::kUnreachable: return "unreachable";
    case PostOutcome::End::kTls: return "tls";
    case PostOutcome::End::kTimedOut: return "timed_out";
    case PostOutcome::End::kClosed: return "closed";
    case PostOutcome::End::kGarbage: return "garbage";
    case PostOutcome::End::kCancelled: return "cancelled";
  }
  return "unknown";
}

/// Something that posts. Each post has one outcome, which comes from another thread or later, never
/// from inside post().
class WebhookPoster {
 public:
  virtual ~WebhookPoster() = default;
  virtual void post(Post post) = 0;
  /// Ends it with kCancelled, unless its outcome is on the way already.
  virtual void cancel(PostId id) = 0;
};

}  // namespace carillon::server
