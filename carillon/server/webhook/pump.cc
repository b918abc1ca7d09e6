// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/pump.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "carillon/base/check.h"

namespace carillon::server {
namespace {

using End = PostOutcome::End;

constexpr int kRequestTimeout = 408;
constexpr int kGone = 410;
constexpr int kTooEarly = 425;
constexpr int kTooManyRequests = 429;
constexpr int kUnavailable = 503;

Tick tick(std::int64_t ms) noexcept { return static_cast<Tick>(std::max<std::int64_t>(ms, 0)); }

/// An answer that says that this request is wrong, and would be the next time.
bool is_client_error(const PostOutcome& outcome) noexcept {
  const int status = outcome.end == End::kAnswered ? outcome.status : 0;
  return status >= 400 && status < 500 && status != kRequestTimeout && status != kTooEarly &&
         status != kTooManyRequests;
}

/// An answer by which the endpoint says how long all should stay away.
bool asks_for_pause(const PostOutcome& outcome) noexcept {
  return outcome.retry_after &&
         (outcome.status == kTooManyRequests || outcome.status == kUnavailable);
}

/// Whether the time in which something is told once has passed.
bool is_over(const std::optional<Instant>& told_at, Instant now) noexcept {
  return !told_at || now - *told_at >= WebhookPump::kNewsInterval;
}

Span doubled(Span base, Span cap, std::uint32_t times) noexcept {
  Span span = base;
  for (std::uint32_t i = 0; i < times && span < cap; ++i) {
    span = span > cap / 2 ? cap : span * 2;
  }
  return std::min(span, cap);
}

}  // namespace

struct WebhookPump::Hook {
  explicit Hook(std::string name) : tube(std::move(name)) {
    timer.hook = this;
    buried_timer.buried_of = this;
  }

  const std::string tube;
  WebhookSettings settings;
  std::shared_ptr<const PostTarget> target;
  std::unique_ptr<TokenBucket<int>> bucket;
  bool active = false;
  bool waiting = false;     // A reserve is under way.
  bool permit = false;      // Taken out of the bucket for the next post.
  bool starved = false;     // It is in starved_.
  Carried* held = nullptr;  // Waits for a connection.
  std::uint32_t posting = 0;
  std::uint32_t finishing = 0;
  std::uint32_t window = 0;  // Of the concurrency, what the circuit lets through.
  std::uint32_t failures = 0;
  std::uint32_t pauses = 0;  // In a row.
  Instant opened_at{};       // When the last of them began.
  Instant paused_until{};
  Timer timer;

  // What was told, and what is to be.
  std::optional<Instant> told_failing_at;
  std::optional<Instant> told_paused_at;
  std::optional<Instant> told_buried_at;
  bool outage_told = false;
  std::uint64_t buried_untold = 0;
  Timer buried_timer;

  std::uint64_t delivered = 0;
  std::uint64_t failed = 0;
  std::uint64_t buried = 0;
  End last_end = End::kCancelled;
  int last_status = 0;
  std::string last_error;
  std::optional<Instant> last_at;
  End last_failed_end = End::kCancelled;
  int last_failed_status = 0;
  std::string last_failed_error;

  [[nodiscard]] std::uint32_t allowed() const noexcept {
    return std::min(settings.concurrency, window);
  }
};

/// A job that was reserved, until it is finished.
struct WebhookPump::Carried {
  Carried(PostId number, Hook& owner, WebhookJob what)
      : id(number), hook(owner), job(std::move(what)) {
    timer.carried = this;
  }
  enum class Phase : std::uint8_t { kHeld, kPosting, kFinishing };

  const PostId id;
  Hook& hook;
  WebhookJob job;
  Phase phase = Phase::kHeld;
  Instant begun_at{};  // Of the post.
  WebhookFinish finish;
  Timer timer;  // The next touch; or the next attempt to finish it.

  [[nodiscard]] Span touch_after() const noexcept { return std::max(job.ttr / 2, kLeastTouch); }
};

WebhookPump::WebhookPump(std::size_t max_connections, Outside& outside, std::uint64_t seed,
                         Instant now)
    : max_connections_(max_connections),
      outside_(outside),
      random_(seed),
      wheel_(tick(floor_ms(now))) {
  CARILLON_CHECK(max_connections > 0);
}

WebhookPump::~WebhookPump() = default;

// What is set.

void WebhookPump::set_max_connections(std::size_t most, Instant now) {
  CARILLON_CHECK(most > 0);
  max_connections_ = most;
  feed_starved(now);
}

void WebhookPump::set_hook(const std::string& tube, WebhookSettings settings, Instant now) {
  std::unique_ptr<Hook>& place = hooks_[tube];
  if (!place) place = std::make_unique<Hook>(tube);
  Hook& hook = *place;
  const bool fresh = !hook.active || hook.settings.target.url != settings.target.url;
  if (fresh) {  // Nothing is known against it.
    hook.window = WebhookSettings::kMaxConcurrency;
    hook.failures = hook.pauses = 0;
    hook.paused_until = Instant{};
  }
  if (!hook.active || hook.settings.rate != settings.rate) {
    hook.bucket.reset();
    if (settings.rate) {
      TokenBucketOptions options;
      options.common.max_keys = 1;
      options.common.shards = 1;
      options.rate = {settings.rate->count, settings.rate->per};
      options.burst = settings.rate->burst;
      hook.bucket = std::make_unique<TokenBucket<int>>(options);
    }
  }
  hook.target = std::make_shared<const PostTarget>(settings.target);
  hook.settings = std::move(settings);
  hook.active = true;
  refill(hook, now);
}

void WebhookPump::remove_hook(const std::string& tube, Instant now) {
  const auto found = hooks_.find(tube);
  if (found == hooks_.end()) return;
  found->second->active = false;
  refill(*found->second, now);
  forget_if_over(*found->second);
}

void WebhookPump::hold(bool held, Instant now) {
  held_ = held;
  for (const auto& [tube, hook] : hooks_) refill(*hook, now);
}

void WebhookPump::forget_if_over(Hook& hook) {
  if (hook.active || hook.held != nullptr || hook.posting + hook.finishing > 0) return;
  wheel_.cancel(hook.buried_timer);
  hooks_.erase(std::string(hook.tube));
}

// Asking for jobs.

void WebhookPump::refill(Hook& hook, Instant now) {
  if (!hook.active || stopping_ || held_) return withdraw(hook);
  if (hook.paused_until > now) {
    withdraw(hook);
    return wake_at(hook.timer, hook.paused_until);
  }
  if (hook.waiting || hook.held != nullptr) return;
  if (hook.posting + hook.finishing >= hook.allowed()) return;
  if (hook.bucket && !hook.permit) {
    const Admission admission = hook.bucket->try_acquire(0, 1, now);
    if (!admission) return wake_at(hook.timer, saturating_add(now, admission.retry_after));
    hook.permit = true;
  }
  hook.waiting = true;
  outside_.reserve(hook.tube);
}

/// It may not post at present: others may have what it would have got.
void WebhookPump::withdraw(Hook& hook) {
  wheel_.cancel(hook.timer);
  if (std::exchange(hook.waiting, false)) outside_.cancel_reserve(hook.tube);
  if (hook.held != nullptr) give_back(*hook.held);
}

void WebhookPump::give_back(Carried& carried) {
  Hook& hook = carried.hook;
  hook.held = nullptr;
  if (std::exchange(hook.starved, false)) starved_.remove(&hook);
  const PostId id = carried.id;
  outside_.give_back(id);
  carried_.erase(id);
}

void WebhookPump::on_job(const std::string& tube, PostId id, WebhookJob job, Instant now) {
  const auto found = hooks_.find(tube);
  if (found == hooks_.end() || !found->second->waiting) {
    outside_.give_back(id);  // It was withdrawn, and the job on its way already.
    return;
  }
  Hook& hook = *found->second;
  hook.waiting = false;
  auto carried = std::make_unique<Carried>(id, hook, std::move(job));
  hook.held = carried.get();
  wake_at(carried->timer, saturating_add(now, carried->touch_after()));
  const bool fresh = carried_.emplace(id, std::move(carried)).second;
  CARILLON_CHECK(fresh, "reservation ", id);
  dispatch(hook, now);
}

void WebhookPump::on_reserve_failed(const std::string& tube, Instant now) {
  const auto found = hooks_.find(tube);
  if (found == hooks_.end() || !found->second->waiting) return;
  found->second->waiting = false;
  wake_at(found->second->timer, saturating_add(now, kAgain));
}

// Posting.

bool WebhookPump::may_connect(const Hook& hook) const noexcept {
  if (posting_ >= max_connections_) return false;
  // (posting_ is not above it here.)
  return hook.posting == 0 || hook.posting < max_connections_ - posting_;
}

void WebhookPump::dispatch(Hook& hook, Instant now) {
  if (!may_connect(hook)) {
    if (!std::exchange(hook.starved, true)) starved_.push_back(&hook);
    return;
  }
  Carried& carried = *std::exchange(hook.held, nullptr);
  carried.phase = Carried::Phase::kPosting;
  carried.begun_at = now;
  hook.permit = false;
  ++hook.posting;
  ++posting_;
  Post post;
  post.id = carried.id;
  post.target = hook.target;
  post.tube = hook.tube;
  post.job = carried.job.id;
  post.attempt = carried.job.attempt;
  post.due_at_ms = carried.job.due_at_ms;
  post.key = std::move(carried.job.key);
  post.content_type = std::move(carried.job.content_type);
  post.body = std::move(carried.job.body);
  outside_.post(std::move(post));
  refill(hook, now);
}

void WebhookPump::feed_starved(Instant now) {
  for (auto each = starved_.begin(); each != starved_.end() && posting_ < max_connections_;) {
    Hook& hook = **each;
    if (!may_connect(hook)) {
      ++each;
      continue;
    }
    hook.starved = false;
    each = starved_.erase(each);
    dispatch(hook, now);
  }
}

// Outcomes.

void WebhookPump::on_outcome(PostId id, const PostOutcome& outcome, Instant now) {
  const auto found = carried_.find(id);
  if (found == carried_.end()) return;
  Carried& carried = *found->second;
  Hook& hook = carried.hook;
  CARILLON_CHECK(carried.phase == Carried::Phase::kPosting, "post ", id);
  --hook.posting;
  --posting_;
  count(hook, outcome, now);
  if (outcome.end == End::kCancelled) {
    outside_.give_back(id);
    erase(carried, now);
  } else {
    learn(hook, carried, outcome, now);
    carried.phase = Carried::Phase::kFinishing;
    carried.finish = decide(hook, carried, outcome);
    ++hook.finishing;
    wheel_.cancel(carried.timer);
    outside_.finish(id, carried.finish);
    refill(hook, now);
  }
  feed_starved(now);
}

void WebhookPump::count(Hook& hook, const PostOutcome& outcome, Instant now) {
  ++totals_.by_end[static_cast<std::size_t>(outcome.end)];
  if (outcome.end == End::kCancelled) return;
  if (outcome.end == End::kAnswered) {
    ++totals_.by_class[static_cast<std::size_t>(std::clamp(outcome.status / 100, 0, 5))];
  }
  const std::int64_t took_ms = std::chrono::ceil<std::chrono::milliseconds>(outcome.took).count();
  const auto& bounds = WebhookTotals::kBoundsMs;
  ++totals_.durations[static_cast<std::size_t>(
      std::lower_bound(bounds.begin(), bounds.end(), took_ms) - bounds.begin())];
  totals_.seconds += std::chrono::duration<double>(outcome.took).count();
  if (!outcome.succeeded()) {
    ++hook.failed;
    hook.last_failed_end = outcome.end;
    hook.last_failed_status = outcome.status;
    hook.last_failed_error = outcome.detail;
  }
  hook.last_end = outcome.end;
  hook.last_status = outcome.status;
  hook.last_error = outcome.detail;
  hook.last_at = now;
}

/// What an outcome says of the endpoint.
void WebhookPump::learn(Hook& hook, const Carried& carried, const PostOutcome& outcome,
                        Instant now) {
  if (outcome.end == End::kAnswered && (outcome.succeeded() || is_client_error(outcome))) {
    if (std::exchange(hook.outage_told, false)) {
      tell(hook, WebhookNews::What::kRecovered, hook.failures);
    }
    hook.failures = hook.pauses = 0;
    hook.window = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::uint64_t{hook.window} * 2, WebhookSettings::kMaxConcurrency));
    return;
  }
  if (asks_for_pause(outcome)) {
    const Span pause = std::min(*outcome.retry_after, hook.settings.max_retry_after);
    hook.paused_until = std::max(hook.paused_until, saturating_add(now, pause));
  }
  if (hook.failures < UINT32_MAX) ++hook.failures;
  if (hook.failures == 1 && is_over(hook.told_failing_at, now)) {
    hook.told_failing_at = now;
    tell(hook, WebhookNews::What::kFailing, 1);
  }
  // What began before the last pause says nothing new.
  if (hook.failures < kCircuitFailures) return;
  if (hook.pauses > 0 && carried.begun_at <= hook.opened_at) return;
  const Span longest = doubled(kFirstPause, kLongestPause, hook.pauses);
  if (hook.pauses < UINT32_MAX) ++hook.pauses;
  if (hook.pauses == 1 && is_over(hook.told_paused_at, now)) {
    hook.told_paused_at = now;
    hook.outage_told = true;
    tell(hook, WebhookNews::What::kPaused, hook.failures);
  }
  hook.window = 1;
  hook.opened_at = now;
  // Half of it is left to chance, so that tubes with the same endpoint do not come back together.
  const Span pause = longest / 2 + jittered(longest / 2);
  hook.paused_until = std::max(hook.paused_until, saturating_add(now, pause));
}

WebhookFinish WebhookPump::decide(const Hook& hook, const Carried& carried,
                                  const PostOutcome& outcome) {
  using What = WebhookFinish::What;
  if (outcome.succeeded()) return {What::kDelete, {}};
  const WebhookSettings& settings = hook.settings;
  const std::uint32_t attempt = std::max<std::uint32_t>(carried.job.attempt, 1);
  if (outcome.status == kGone || (settings.bury_on_client_error && is_client_error(outcome)) ||
      (settings.max_attempts > 0 && attempt >= settings.max_attempts)) {
    return {What::kBury, {}};
  }
  const WebhookBackoff& backoff = carried.job.backoff ? *carried.job.backoff : settings.backoff;
  Span delay = doubled(backoff.base, backoff.cap, attempt - 1);
  if (backoff.jitter) delay = jittered(delay);
  if (outcome.retry_after) {
    delay = std::max(delay, std::min(*outcome.retry_after, settings.max_retry_after));
  }
  return {What::kRelease, delay};
}

void WebhookPump::on_finished(PostId id, WebhookFinished finished, Instant now) {
  const auto found = carried_.find(id);
  if (found == carried_.end()) return;
  Carried& carried = *found->second;
  Hook& hook = carried.hook;
  CARILLON_CHECK(carried.phase == Carried::Phase::kFinishing, "reservation ", id);
  if (finished == WebhookFinished::kFailed) {
    return wake_at(carried.timer, saturating_add(now, kAgain));
  }
  using What = WebhookFinish::What;
  if (carried.finish.what == What::kDelete) {
    ++hook.delivered;
    ++totals_.delivered;
  } else if (finished == WebhookFinished::kBuried ||
             (carried.finish.what == What::kBury && finished == WebhookFinished::kDone)) {
    ++hook.buried;
    ++totals_.buried;
    if (++hook.buried_untold == 1) {
      if (is_over(hook.told_buried_at, now)) {
        tell_of_buried(hook, now);
      } else {
        wake_at(hook.buried_timer, saturating_add(*hook.told_buried_at, kNewsInterval));
      }
    }
  }
  --hook.finishing;
  erase(carried, now);
}

void WebhookPump::tell(Hook& hook, WebhookNews::What what, std::uint64_t count) {
  outside_.tell(hook.tube, {what, count, hook.last_failed_end, hook.last_failed_status,
                            hook.last_failed_error});
}

void WebhookPump::tell_of_buried(Hook& hook, Instant now) {
  hook.told_buried_at = now;
  tell(hook, WebhookNews::What::kBuried, std::exchange(hook.buried_untold, 0));
}

void WebhookPump::erase(Carried& carried, Instant now) {
  Hook& hook = carried.hook;
  const PostId id = carried.id;
  carried_.erase(id);
  refill(hook, now);
  forget_if_over(hook);
}

// Time.

void WebhookPump::wake_at(Timer& timer, Instant at) {
  wheel_.cancel(timer);
  wheel_.schedule(timer, tick(ceil_ms(at)));
}

void WebhookPump::advance(Instant now) {
  wheel_.advance(tick(floor_ms(now)), [&](WheelHook& due) {
    auto& timer = static_cast<Timer&>(due);
    if (timer.hook != nullptr) return refill(*timer.hook, now);
    if (timer.buried_of != nullptr) return tell_of_buried(*timer.buried_of, now);
    Carried& carried = *timer.carried;
    if (carried.phase == Carried::Phase::kFinishing) {
      outside_.finish(carried.id, carried.finish);
    } else {
      outside_.touch(carried.id);
      wake_at(timer, saturating_add(now, carried.touch_after()));
    }
  });
}

std::optional<Instant> WebhookPump::next_wake() const {
  const std::optional<Tick> deadline = wheel_.next_deadline();
  if (!deadline) return std::nullopt;
  return saturating_add(
      Instant{}, saturating_span<std::chrono::milliseconds>(static_cast<std::int64_t>(*deadline)));
}

Span WebhookPump::jittered(Span longest) {
  return longest <= Span{} ? Span{} : Span(random_.between(0, longest.count()));
}

// The end.

void WebhookPump::stop(Instant now) {
  stopping_ = true;
  for (const auto& [tube, hook] : hooks_) refill(*hook, now);
}

void WebhookPump::cancel_posts() {
  for (const auto& [id, carried] : carried_) {
    if (carried->phase == Carried::Phase::kPosting) outside_.cancel_post(id);
  }
}

// To look at.

std::optional<WebhookState> WebhookPump::state_of(const std::string& tube, Instant now) const {
  const auto found = hooks_.find(tube);
  if (found == hooks_.end()) return std::nullopt;
  const Hook& hook = *found->second;
  WebhookState state;
  state.in_flight = hook.posting;
  state.concurrency = hook.allowed();
  state.starved = hook.starved;
  state.failures = hook.failures;
  if (hook.paused_until > now) state.paused_for = hook.paused_until - now;
  state.delivered = hook.delivered;
  state.failed = hook.failed;
  state.buried = hook.buried;
  state.last_end = hook.last_end;
  state.last_status = hook.last_status;
  state.last_error = hook.last_error;
  if (hook.last_at) state.last_ago = now - *hook.last_at;
  return state;
}

WebhookTotals WebhookPump::totals(Instant now) const {
  WebhookTotals totals = totals_;
  totals.hooks = hooks_.size();
  totals.in_flight = posting_;
  for (const auto& [tube, hook] : hooks_) {
    if (hook->paused_until > now) ++totals.paused;
  }
  return totals;
}

}  // namespace carillon::server
