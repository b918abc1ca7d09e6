// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Decides for all webhooks which job is asked for next and what becomes of it: a state machine
/// without a socket, a clock or the broker.
///
///     reserve ─► on_job ─► post ─► on_outcome ─► finish ─► on_finished
///        ▲                  │                      │
///        └── one at a time  └── a connection       └── 2xx: delete; 410, attempts used up: bury;
///            a tube, while      of all that            else: release after the backoff
///            it may post        there may be
///
/// Nobody holds up anybody:
///  - A tube asks for a job only when it could post it at once, as far as that is its own business:
///    its concurrency, its rate, its pause. What waits, waits in the tube, for any worker.
///  - All tubes share `max_connections`. A tube may have as many as are free: one alone has half of
///    them, two have a third each, and there is one left for whoever comes next. A tube that has
///    none gets the first that is free, in the order of asking.
///  - After kCircuitFailures failures of an endpoint in a row a tube pauses, for a second, then for
///    twice as long each time, a minute at most; then it tries with a single job, and each success
///    doubles how many may go at a time. So an endpoint that is down costs a few attempts, and not
///    all the attempts of all jobs. An answer such as 404 is a failure of the job only.

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "carillon/base/random.h"
#include "carillon/server/webhook/settings.h"
#include "carillon/wheel/hierarchical_wheel.h"

namespace carillon::server {

/// A job that was reserved for a webhook.
struct WebhookJob {
  broker::JobId id = 0;
  std::uint32_t attempt = 1;  ///< The first is 1.
  Span ttr = std::chrono::minutes(1);
  std::optional<std::int64_t> due_at_ms;
  std::string key;
  std::string content_type;
  /// The job's own; nothing: the webhook's.
  std::optional<WebhookBackoff> backoff;
  broker::Body body;
};

/// What is to become of a reserved job.
struct WebhookFinish {
  enum class What : std::uint8_t { kDelete, kRelease, kBury };
  What what = What::kDelete;
  Span delay{};  ///< kRelease.
  bool operator==(const WebhookFinish&) const = default;
};

/// How that ended.
enum class WebhookFinished : std::uint8_t {
  kDone,
  kBuried,  ///< It was released, and its own attempts are used up.
  kGone,    ///< The reservation had ended, or the job.
  kFailed,  ///< The store is out of service.
};

/// How a webhook is doing.
struct WebhookState {
  std::uint32_t in_flight = 0;    ///< Posts.
  std::uint32_t concurrency = 0;  ///< How many may be, at present.
  bool starved = false;           ///< A job waits for a connection.
  std::uint32_t failures = 0;     ///< Of the endpoint, in a row.
  std::optional<Span> paused_for;
  std::uint64_t delivered = 0;
  std::uint64_t failed = 0;  ///< Attempts.
  std::uint64_t buried = 0;
  // Of the last outcome.
  PostOutcome::End last_end = PostOutcome::End::kCancelled;
  int last_status = 0;
  std::string last_error;
  std::optional<Span> last_ago;
};

/// Of all webhooks since the start.
struct WebhookTotals {
  static constexpr std::array<std::int64_t, 13> kBoundsMs{
      5, 10, 25, 50, 100, 250, 500, 1'000, 2'500, 5'000, 10'000, 30'000, 60'000};

  std::size_t hooks = 0;
  std::size_t in_flight = 0;
  std::size_t paused = 0;
  std::uint64_t delivered = 0;
  std::uint64_t buried = 0;
  std::array<std::uint64_t, 6> by_class{};  ///< Answers of 2xx at [2], to 5xx.
  std::array<std::uint64_t, 9> by_end{};    ///< Index: PostOutcome::End.
  std::array<std::uint64_t, kBoundsMs.size() + 1> durations{};
  double seconds = 0;
};

/// What people are told of a webhook. Of each kind one in kNewsInterval at most, for each tube.
struct WebhookNews {
  enum class What : std::uint8_t {
    kFailing,    ///< The first failure of its endpoint in a row.
    kPaused,     ///< So many failures that it pauses; once for an outage.
    kRecovered,  ///< A success after what was told of as kPaused.
    kBuried,     ///< Jobs were buried since this was last told.
  };
  What what = What::kFailing;
  std::uint64_t count = 0;  ///< Failures in a row; jobs.
  PostOutcome::End end = PostOutcome::End::kCancelled;
  int status = 0;
  std::string error;  ///< Of the last failure.
};

/// Threads:  one object, one thread.
/// Lifetime: `outside` must outlive it.
/// Cost:     O(1) an event, but O(tubes that wait for a connection) when one becomes free.
class WebhookPump {
 public:
  static constexpr std::uint32_t kCircuitFailures = 5;
  static constexpr Span kFirstPause = std::chrono::seconds(1);
  static constexpr Span kLongestPause = std::chrono::minutes(1);
  /// What the store could not do is tried again after this; so is a reserve that failed.
  static constexpr Span kAgain = std::chrono::seconds(1);
  /// A reservation is renewed when half of it is over, but not more often than this.
  static constexpr Span kLeastTouch = std::chrono::milliseconds(50);
  static constexpr Span kNewsInterval = std::chrono::minutes(1);

  /// Must not call back.
  class Outside {
   public:
    virtual ~Outside() = default;
    /// Wait for a job of the tube: on_job() or on_reserve_failed() comes, unless it is cancelled.
    virtual void reserve(const std::string& tube) = 0;
    /// Neither comes any more.
    virtual void cancel_reserve(const std::string& tube) = 0;
    /// on_outcome() comes.
    virtual void post(Post post) = 0;
    virtual void cancel_post(PostId id) = 0;
    /// on_finished() comes.
    virtual void finish(PostId id, const WebhookFinish& finish) = 0;
    /// The job is ready again, as if it had not been reserved. Nothing comes.
    virtual void give_back(PostId id) = 0;
    virtual void touch(PostId id) = 0;
    virtual void tell(const std::string& tube, const WebhookNews& news) = 0;
  };

  WebhookPump(std::size_t max_connections, Outside& outside, std::uint64_t seed, Instant now);
  ~WebhookPump();
  WebhookPump(const WebhookPump&) = delete;
  WebhookPump& operator=(const WebhookPump&) = delete;

  /// From now on; more that are open already end as they began. Pre: not 0.
  void set_max_connections(std::size_t most, Instant now);
  /// From now on; posts that are under way end as they began.
  void set_hook(const std::string& tube, WebhookSettings settings, Instant now);
  void remove_hook(const std::string& tube, Instant now);
  /// While held, no job is asked for; posts that are under way end as they began.
  void hold(bool held, Instant now);

  /// `id` names the reservation in all that follows; it was not used before.
  void on_job(const std::string& tube, PostId id, WebhookJob job, Instant now);
  void on_reserve_failed(const std::string& tube, Instant now);
  void on_outcome(PostId id, const PostOutcome& outcome, Instant now);
  void on_finished(PostId id, WebhookFinished finished, Instant now);

  void advance(Instant now);
  [[nodiscard]] std::optional<Instant> next_wake() const;

  /// Asks for no more jobs. What is being posted goes on until idle().
  void stop(Instant now);
  /// Ends what is being posted; the jobs are given back.
  void cancel_posts();
  /// Nothing is held, posted or being finished.
  [[nodiscard]] bool idle() const noexcept { return carried_.empty(); }

  [[nodiscard]] std::optional<WebhookState> state_of(const std::string& tube, Instant now) const;
  [[nodiscard]] WebhookTotals totals(Instant now) const;

 private:
  struct Hook;
  struct Carried;
  struct Timer : WheelHook {
    Hook* hook = nullptr;
    Carried* carried = nullptr;
    Hook* buried_of = nullptr;  // Whose burials are to be told of.
  };

  void refill(Hook& hook, Instant now);
  void withdraw(Hook& hook);
  void give_back(Carried& carried);
  void dispatch(Hook& hook, Instant now);
  void feed_starved(Instant now);
  [[nodiscard]] bool may_connect(const Hook& hook) const noexcept;
  void learn(Hook& hook, const Carried& carried, const PostOutcome& outcome, Instant now);
  [[nodiscard]] WebhookFinish decide(const Hook& hook, const Carried& carried,
                                     const PostOutcome& outcome);
  void tell(Hook& hook, WebhookNews::What what, std::uint64_t count);
  void tell_of_buried(Hook& hook, Instant now);
  void count(Hook& hook, const PostOutcome& outcome, Instant now);
  void erase(Carried& carried, Instant now);
  void forget_if_over(Hook& hook);
  void wake_at(Timer& timer, Instant at);
  [[nodiscard]] Span jittered(Span longest);

  std::size_t max_connections_;
  Outside& outside_;
  Random random_;
  HierarchicalWheel wheel_;  // Ticks of 1 ms.
  std::unordered_map<std::string, std::unique_ptr<Hook>> hooks_;
  std::unordered_map<PostId, std::unique_ptr<Carried>> carried_;
  std::list<Hook*> starved_;  // In the order of asking.
  std::size_t posting_ = 0;
  bool stopping_ = false;
  bool held_ = false;
  WebhookTotals totals_;
};

}  // namespace carillon::server
