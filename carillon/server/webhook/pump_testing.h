// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests of the pump: tubes full of jobs, endpoints that answer when told, and a clock that
/// moves when told.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "carillon/server/webhook/pump.h"

namespace carillon::server {

/// A pump with all that is around it. Every job has to be finished or given back exactly once.
class PumpWorld final : private WebhookPump::Outside {
 public:
  explicit PumpWorld(std::size_t max_connections = 100, std::uint64_t seed = 1)
      : pump_(max_connections, *this, seed, now_), max_connections_(max_connections) {}

  static WebhookSettings settings(std::uint32_t concurrency = 10) {
    WebhookSettings settings;
    settings.target.url = WebhookUrl::parse("http://hooks.example/").value();
    settings.concurrency = concurrency;
    settings.backoff.jitter = false;
    return settings;
  }

  WebhookPump* operator->() { return &pump_; }
  void set_max_connections(std::size_t most) {
    max_connections_ = std::max(most, posts_.size());  // Those that are open may end.
    pump_.set_max_connections(most, now_);
    deliver();
  }
  [[nodiscard]] Instant now() const { return now_; }
  void hook(const std::string& tube, WebhookSettings with = settings()) {
    pump_.set_hook(tube, std::move(with), now_);
    deliver();
  }

  void hold(bool held) {
    pump_.hold(held, now_);
    deliver();
  }
  /// What was told of a tube since the last call: what, and how many.
  std::vector<std::pair<WebhookNews::What, std::uint64_t>> take_news(const std::string& tube) {
    std::vector<std::pair<WebhookNews::What, std::uint64_t>> news;
    for (const auto& [name, told] : told_) {
      if (name == tube) news.emplace_back(told.what, told.count);
    }
    told_.clear();
    return news;
  }

  /// Puts ready jobs into a tube.
  void put(const std::string& tube, int count = 1, WebhookJob like = {}) {
    for (int i = 0; i < count; ++i) {
      like.id = ++last_job_;
      ready_[tube].push_back(like);
    }
    deliver();
  }
  [[nodiscard]] std::size_t ready(const std::string& tube) { return ready_[tube].size(); }
  /// The reserve of a tube has ended without a job.
  void drop_reserve(const std::string& tube) { EXPECT_EQ(reserving_.erase(tube), 1U); }
  [[nodiscard]] bool asking(const std::string& tube) const { return reserving_.contains(tube); }

  // Posts.

  [[nodiscard]] const std::map<PostId, Post>& posts() const { return posts_; }
  [[nodiscard]] std::size_t posting(const std::string& tube) const {
    std::size_t count = 0;
    for (const auto& [id, post] : posts_) count += post.tube == tube ? 1 : 0;
    return count;
  }
  /// The one that began first, of a tube.
  [[nodiscard]] PostId first(const std::string& tube) const {
    for (const auto& [id, post] : posts_) {
      if (post.tube == tube) return id;
    }
    ADD_FAILURE() << "nothing of " << tube << " is being posted";
    return 0;
  }
  void end(PostId id, const PostOutcome& outcome) {
    ASSERT_EQ(posts_.erase(id), 1U) << id;
    pump_.on_outcome(id, outcome, now_);
    deliver();
  }
  void answer(const std::string& tube, int status, std::optional<Span> retry_after = {}) {
    end(first(tube), answered(status, retry_after));
  }
  static PostOutcome answered(int status, std::optional<Span> retry_after = {}) {
    PostOutcome outcome;
    outcome.end = PostOutcome::End::kAnswered;
    outcome.status = status;
    outcome.retry_after = retry_after;
    return outcome;
  }
  static PostOutcome ended(PostOutcome::End end) {
    PostOutcome outcome;
    outcome.end = end;
    outcome.detail = to_string(end);
    return outcome;
  }

  // What became of jobs, since the last call.

  struct Finished {
    broker::JobId job = 0;
    WebhookFinish finish;
  };
  std::vector<Finished> finished() { return std::exchange(finished_, {}); }
  WebhookFinish only_finished() {
    const std::vector<Finished> all = finished();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? WebhookFinish{} : all.front().finish;
  }
  int touches() { return std::exchange(touches_, 0); }
  [[nodiscard]] int cancelled_posts() const { return cancelled_posts_; }

  /// The store answers finishes with this.
  WebhookFinished store = WebhookFinished::kDone;
  /// Released jobs come back when they are due; else they are forgotten.
  bool released_come_back = false;

  // Time.

  /// Lets time go by, stopping wherever something is due.
  void advance(Span span) {
    const Instant to = now_ + span;
    while (true) {
      std::optional<Instant> next = pump_.next_wake();
      if (!released_.empty() && (!next || released_.begin()->first < *next)) {
        next = released_.begin()->first;
      }
      if (!next || *next > to) break;
      now_ = std::max(now_, *next);
      while (!released_.empty() && released_.begin()->first <= now_) {
        auto& [tube, job] = released_.begin()->second;
        ready_[tube].push_back(std::move(job));
        released_.erase(released_.begin());
      }
      pump_.advance(now_);
      deliver();
    }
    now_ = to;
  }
  /// Hands over what the pump asked for.
  void deliver() {
    bool more = true;
    while (std::exchange(more, false)) {
      for (const std::string& tube : std::set<std::string>(reserving_)) {
        std::deque<WebhookJob>& jobs = ready_[tube];
        if (jobs.empty() || !reserving_.contains(tube)) continue;
        WebhookJob job = std::move(jobs.front());
        jobs.pop_front();
        reserving_.erase(tube);
        const PostId id = ++last_post_;
        held_.emplace(id, std::make_pair(tube, job));
        pump_.on_job(tube, id, std::move(job), now_);
        more = true;
      }
      for (const PostId id : std::exchange(finishing_, {})) {
        pump_.on_finished(id, store, now_);
        more = true;
      }
    }
    EXPECT_LE(posts_.size(), max_connections_);
  }

 private:
  void reserve(const std::string& tube) override {
    EXPECT_TRUE(reserving_.insert(tube).second) << tube;
  }
  void cancel_reserve(const std::string& tube) override {
    EXPECT_EQ(reserving_.erase(tube), 1U) << tube;
  }
  void post(Post post) override {
    EXPECT_TRUE(held_.contains(post.id));
    const PostId id = post.id;
    EXPECT_TRUE(posts_.emplace(id, std::move(post)).second);
  }
  void cancel_post(PostId id) override {
    EXPECT_TRUE(posts_.contains(id));
    ++cancelled_posts_;
  }
  void finish(PostId id, const WebhookFinish& finish) override {
    ASSERT_TRUE(held_.contains(id));
    if (store != WebhookFinished::kFailed) {
      auto [tube, job] = std::move(held_.at(id));
      held_.erase(id);
      finished_.push_back({job.id, finish});
      if (released_come_back && finish.what == WebhookFinish::What::kRelease) {
        ++job.attempt;
        released_.emplace(now_ + finish.delay, std::make_pair(tube, std::move(job)));
      }
    }
    finishing_.push_back(id);
  }
  void give_back(PostId id) override {
    ASSERT_TRUE(held_.contains(id));
    auto& [tube, job] = held_.at(id);
    ready_[tube].push_front(std::move(job));
    held_.erase(id);
  }
  void tell(const std::string& tube, const WebhookNews& news) override {
    told_.emplace_back(tube, news);
  }
  void touch(PostId id) override {
    EXPECT_TRUE(held_.contains(id));
    ++touches_;
  }

  Instant now_{std::chrono::hours(1)};
  WebhookPump pump_;
  std::size_t max_connections_;
  broker::JobId last_job_ = 0;
  PostId last_post_ = 0;
  std::map<std::string, std::deque<WebhookJob>> ready_;
  std::set<std::string> reserving_;
  std::map<PostId, std::pair<std::string, WebhookJob>> held_;
  std::map<PostId, Post> posts_;
  std::vector<PostId> finishing_;
  std::vector<Finished> finished_;
  std::multimap<Instant, std::pair<std::string, WebhookJob>> released_;
  std::vector<std::pair<std::string, WebhookNews>> told_;
  int touches_ = 0;
  int cancelled_posts_ = 0;
};

}  // namespace carillon::server
