// SPDX-License-Identifier: Apache-2.0
// Webhooks over real partitions and stores, with a poster that is told what to report and a clock
// that moves when told.

#include "carillon/server/webhook/webhooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "carillon/server/partition_host.h"
#include "carillon/server/webhook/settings_document.h"
#include "carillon/store/memory/memory_store.h"

namespace carillon::server {
namespace {

using namespace std::chrono_literals;
using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Verb;
using testing::ElementsAre;
using testing::IsEmpty;
using End = PostOutcome::End;

/// What was posted and has no outcome yet.
struct Endpoint {
  std::map<PostId, Post> posts;
  std::vector<PostId> cancelled;
  HttpPoster::OnOutcome report;
};

class RecordingPoster final : public WebhookPoster {
 public:
  RecordingPoster(Endpoint& endpoint, HttpPoster::OnOutcome on_outcome) : endpoint_(endpoint) {
    endpoint_.report = std::move(on_outcome);
  }
  ~RecordingPoster() override { endpoint_.report = nullptr; }
  void post(Post post) override {
    const PostId id = post.id;
    EXPECT_TRUE(endpoint_.posts.emplace(id, std::move(post)).second);
  }
  void cancel(PostId id) override { endpoint_.cancelled.push_back(id); }

 private:
  Endpoint& endpoint_;
};

/// A server without sockets: partitions on disks that outlive it.
class Process final : private Partitions {
 public:
  using Disks = std::vector<std::shared_ptr<store::MemoryDisk>>;

  Process(Disks disks, ManualClock& clock, ManualCalendar& calendar, Endpoint& endpoint)
      : clock_(clock), calendar_(calendar), endpoint_(endpoint) {
    for (std::size_t i = 0; i < disks.size(); ++i) {
      auto store = std::make_unique<store::MemoryStore>(disks[i]);
      stores_.push_back(store.get());
      PartitionHostOptions options;
      options.broker.first_id = i + 1;
      options.broker.id_step = disks.size();
      options.broker.owns_default_tube = partition_of_tube("default", disks.size()) == i;
      PartitionHost::Outside outside;
      outside.deliver = [this, i](broker::Ticket ticket, Reply reply) {
        if (Webhooks::owns(ticket.session)) {
          webhooks_->on_reply(i, ticket, std::move(reply));
        } else {
          replies_[ticket.slot] = std::move(reply);
        }
      };
      outside.post = [this](std::function<void()> call) { posted_.push_back(std::move(call)); };
      hosts_.push_back(std::make_unique<PartitionHost>(options, std::move(store), clock, calendar,
                                                       "boot", std::move(outside)));
      EXPECT_TRUE(hosts_.back()->open());
    }
    Webhooks::Surroundings surroundings{*this, clock};
    surroundings.request_turn = [this] { turn_wanted_ = true; };
    surroundings.log = [this](LogLevel, std::string_view line) { log_.emplace_back(line); };
    surroundings.make_poster =
        [this](HttpPoster::OnOutcome on_outcome) -> Result<std::unique_ptr<WebhookPoster>> {
      return std::unique_ptr<WebhookPoster>(
          std::make_unique<RecordingPoster>(endpoint_, std::move(on_outcome)));
    };
    webhooks_ = std::make_unique<Webhooks>(std::move(surroundings));
    open_session(kClient);
    webhooks_->load();
    settle();
  }
  ~Process() override {
    webhooks_->close();  // What is answered meanwhile still finds it.
    webhooks_.reset();
  }

  Webhooks* operator->() { return webhooks_.get(); }
  [[nodiscard]] store::MemoryStore& store_of(std::string_view tube) {
    return *stores_[partition_of_tube(tube, stores_.size())];
  }
  [[nodiscard]] const std::vector<std::string>& log() const { return log_; }

  /// Runs everything that can run now.
  void settle() {
    do {
      turn_wanted_ = false;
      webhooks_->turn();
      for (const auto& host : hosts_) {
        while (host->turn()) {
        }
      }
      while (!posted_.empty()) {
        const auto call = std::move(posted_.front());
        posted_.pop_front();
        call();
      }
    } while (turn_wanted_);
  }
  /// Lets time go by, a step wherever something is due.
  void advance(Span span) {
    const Instant to = clock_.now() + span;
    while (true) {
      std::optional<Instant> next = webhooks_->next_wake();
      for (const auto& host : hosts_) {
        const std::optional<Instant> wake = host->next_wake();
        if (wake && (!next || *wake < *next)) next = wake;
      }
      if (!next || *next > to) break;
      go_to(std::max(*next, clock_.now()));
      settle();
    }
    go_to(to);
    settle();
  }

  Reply ask(Command command) {
    command.ticket = {kClient, ++slot_};
    const std::size_t partition = command.tube.empty()
                                      ? partition_of_job(command.id, hosts_.size())
                                      : partition_of_tube(command.tube, hosts_.size());
    hosts_[partition]->submit(std::move(command));
    settle();
    EXPECT_TRUE(replies_.contains(slot_));
    return std::move(replies_[slot_]);
  }
  void set_hook(const std::string& tube, const WebhookSettings& settings) {
    set_document(tube, webhook_document(settings));
  }
  void set_document(const std::string& tube, const std::string& document) {
    auto options = std::make_shared<broker::CommandOptions>();
    options->settings.document = document;
    Command command;
    command.verb = Verb::kSetTube;
    command.tube = tube;
    command.options = std::move(options);
    EXPECT_EQ(ask(std::move(command)).answer, Answer::kTubeSet);
    webhooks_->look_again(tube);
    settle();
  }
  broker::JobId put(const std::string& tube, Span delay = {}, std::string_view body = "body",
                    broker::SharedExtras extras = nullptr, Span ttr = 60s) {
    Command command;
    command.verb = Verb::kPut;
    command.tube = tube;
    command.delay = delay;
    command.ttr = ttr;
    command.priority = 7;
    command.body = broker::Body(body);
    command.extras = std::move(extras);
    const Reply reply = ask(std::move(command));
    EXPECT_EQ(reply.answer, Answer::kInserted);
    return reply.id;
  }
  std::optional<broker::JobView> job(broker::JobId id) {
    Command command;
    command.verb = Verb::kGet;
    command.id = id;
    const Reply reply = ask(std::move(command));
    if (reply.answer != Answer::kFound) return std::nullopt;
    return std::get<broker::JobView>(*reply.detail);
  }
  void report(PostId id, const PostOutcome& outcome) {
    endpoint_.posts.erase(id);
    endpoint_.report(id, outcome);
    settle();
  }
  /// The outcome of the post that began first.
  void answer(int status) {
    ASSERT_FALSE(endpoint_.posts.empty());
    PostOutcome outcome;
    outcome.end = End::kAnswered;
    outcome.status = status;
    report(endpoint_.posts.begin()->first, outcome);
  }

 private:
  static constexpr broker::SessionId kClient = 1;

  // Partitions.
  [[nodiscard]] std::size_t count() const noexcept override { return hosts_.size(); }
  void open_session(broker::SessionId session) override {
    for (const auto& host : hosts_) host->open_session(session);
  }
  void close_session(broker::SessionId session) override {
    for (const auto& host : hosts_) host->close_session(session);
  }
  void end_waiting(std::size_t partition, broker::SessionId session) override {
    hosts_[partition]->end_waiting(session);
  }
  void submit(std::size_t partition, Command command) override {
    hosts_[partition]->submit(std::move(command));
  }
  [[nodiscard]] bool may_wait(broker::SessionId) const override { return true; }

  void go_to(Instant to) {
    calendar_.set(calendar_.now() + (to - clock_.now()));
    clock_.advance_to(to);
  }

  ManualClock& clock_;
  ManualCalendar& calendar_;
  Endpoint& endpoint_;
  std::vector<store::MemoryStore*> stores_;
  std::vector<std::unique_ptr<PartitionHost>> hosts_;
  std::deque<std::function<void()>> posted_;
  std::map<std::uint64_t, Reply> replies_;
  std::vector<std::string> log_;
  std::uint64_t slot_ = 0;
  bool turn_wanted_ = false;
  std::unique_ptr<Webhooks> webhooks_;
};

class WebhooksTest : public testing::TestWithParam<int> {
 protected:
  WebhooksTest() {
    for (int i = 0; i < GetParam(); ++i) disks_.push_back(std::make_shared<store::MemoryDisk>());
    start();
  }
  void start() { process_ = std::make_unique<Process>(disks_, clock_, calendar_, endpoint_); }
  /// As kill -9: what was not synced is lost, and what was being posted has no outcome.
  void kill_and_restart() {
    process_.reset();
    endpoint_.posts.clear();
    start();
  }
  static WebhookSettings settings() {
    WebhookSettings settings;
    settings.target.url = WebhookUrl::parse("https://hooks.example/in").value();
    settings.backoff.jitter = false;
    return settings;
  }
  Process& process() { return *process_; }
  const Post& first() { return endpoint_.posts.begin()->second; }

  ManualClock clock_{Instant(100s)};
  ManualCalendar calendar_{WallTime(1'700'000'000s)};
  Endpoint endpoint_;
  Process::Disks disks_;
  std::unique_ptr<Process> process_;
};

INSTANTIATE_TEST_SUITE_P(Partitions, WebhooksTest, testing::Values(1, 3));

TEST_P(WebhooksTest, AJobIsPostedWhenItIsDueAndNotBefore) {
  process().set_hook("t", settings());
  const broker::JobId id = process().put("t", 1'500ms, "bytes");
  process().advance(1'499ms);
  EXPECT_THAT(endpoint_.posts, IsEmpty());
  process().advance(1ms);
  ASSERT_EQ(endpoint_.posts.size(), 1U);
  EXPECT_EQ(first().job, id);
  EXPECT_EQ(first().tube, "t");
  EXPECT_EQ(first().attempt, 1U);
  EXPECT_EQ(first().body.view(), "bytes");
  EXPECT_EQ(first().due_at_ms, 1'700'000'001'500);
  EXPECT_EQ(process().job(id)->stats.state, broker::JobState::kReserved);
  process().answer(200);
  EXPECT_EQ(process().job(id), std::nullopt);
  EXPECT_EQ(process()->state_of("t")->delivered, 1U);
}

/// What is shown as due is when it was due, however it came to be due then.
TEST_P(WebhooksTest, TheDueTimeOfAChangedJobIsThatOfTheChange) {
  struct Way {
    Span delay;                               // Of the put.
    std::optional<Span> new_delay;            // Set 4 s later ...
    std::optional<std::int64_t> new_date_ms;  // ... or this, after the put.
    bool kicked = false;                      // Or that.
    std::optional<std::int64_t> due_ms;       // After the put; nothing: nobody knows.
  };
  const Way ways[] = {
      {10s, 20s, {}, false, 24'000},    {10s, 1s, {}, false, 5'000},
      {10s, 0s, {}, false, 4'000},      {0s, 20s, {}, false, 24'000},
      {1h, 2h, {}, false, 7'204'000},   {1h, 3s, {}, false, 7'000},
      {1h, 0s, {}, false, 4'000},       {10s, 1h, {}, false, 3'604'000},
      {10s, {}, 30'000, false, 30'000}, {1h, {}, 1'000, false, 1'000},
      {10s, {}, {}, true, {}},          {1h, {}, {}, true, {}},
      {10s, {}, {}, false, 10'000},     {2h, {}, {}, false, 7'200'000},
  };
  int number = 0;
  for (const bool restarted : {false, true}) {
    for (const Way& way : ways) {
      const std::string tube = "t" + std::to_string(number++);
      const std::int64_t put_ms = floor_ms(calendar_.now());
      const broker::JobId id = process().put(tube, way.delay);
      process().advance(4s);
      Command change;
      change.verb = way.kicked ? Verb::kKickJob : Verb::kChange;
      change.id = id;
      change.sets_delay = way.new_delay.has_value();
      change.delay = way.new_delay.value_or(Span{});
      if (way.new_date_ms) {
        auto options = std::make_shared<broker::CommandOptions>();
        options->due_at_ms = put_ms + *way.new_date_ms;
        change.options = std::move(options);
      }
      if (way.kicked || way.new_delay || way.new_date_ms) {
        const Answer answer = process().ask(std::move(change)).answer;
        ASSERT_TRUE(answer == Answer::kChanged || answer == Answer::kJobKicked) << number;
      }
      if (restarted) kill_and_restart();
      process().set_hook(tube, settings());
      process().advance(way.due_ms ? std::chrono::milliseconds(*way.due_ms) : 0ms);
      ASSERT_EQ(endpoint_.posts.size(), 1U) << number;
      const std::optional<std::int64_t> due_ms = first().due_at_ms;
      EXPECT_EQ(due_ms ? std::optional(*due_ms - put_ms) : due_ms, way.due_ms) << number;
      process().answer(200);
    }
  }
}

TEST_P(WebhooksTest, WhatBelongsToAJobIsPostedWithIt) {
  process().set_hook("t", settings());
  auto extras = std::make_shared<broker::JobExtras>();
  extras->key = "order-7";
  extras->content_type = "application/json";
  extras->backoff_base_ms = 50;
  extras->backoff_cap_ms = 75;
  const broker::JobId id = process().put("t", 0s, "{}", extras);
  ASSERT_EQ(endpoint_.posts.size(), 1U);
  EXPECT_EQ(first().key, "order-7");
  EXPECT_EQ(first().content_type, "application/json");
  process().answer(500);
  EXPECT_EQ(process().job(id)->stats.delay_ms, 50);
  process().advance(50ms);
  EXPECT_EQ(first().attempt, 2U);
  process().answer(500);
  EXPECT_EQ(process().job(id)->stats.delay_ms, 75);
}

TEST_P(WebhooksTest, AFailedJobComesBackWithItsPriority) {
  process().set_hook("t", settings());
  const broker::JobId id = process().put("t");
  process().answer(503);
  EXPECT_THAT(endpoint_.posts, IsEmpty());
  EXPECT_EQ(process().job(id)->stats.state, broker::JobState::kDelayed);
  EXPECT_EQ(process().job(id)->stats.priority, 7U);
  process().advance(999ms);
  EXPECT_THAT(endpoint_.posts, IsEmpty());
  process().advance(1ms);
  ASSERT_EQ(endpoint_.posts.size(), 1U);
  EXPECT_EQ(first().attempt, 2U);
}

TEST_P(WebhooksTest, WhatCannotBeDeliveredIsBuried) {
  WebhookSettings two = settings();
  two.max_attempts = 2;
  process().set_hook("t", two);
  const broker::JobId id = process().put("t");
  process().answer(500);
  process().advance(1s);
  process().answer(500);
  EXPECT_EQ(process().job(id)->stats.state, broker::JobState::kBuried);
  EXPECT_EQ(process()->state_of("t")->buried, 1U);
}

TEST_P(WebhooksTest, AJobsOwnLimitOfAttemptsHolds) {
  process().set_hook("t", settings());
  auto extras = std::make_shared<broker::JobExtras>();
  extras->max_attempts = 1;
  const broker::JobId id = process().put("t", 0s, "x", extras);
  process().answer(500);
  EXPECT_EQ(process().job(id)->stats.state, broker::JobState::kBuried);
  EXPECT_EQ(process()->state_of("t")->buried, 1U);
}

TEST_P(WebhooksTest, AReservationLastsAsLongAsThePost) {
  process().set_hook("t", settings());
  const broker::JobId id = process().put("t", 0s, "x", nullptr, 1s);
  process().advance(25s);
  EXPECT_EQ(endpoint_.posts.size(), 1U);
  EXPECT_EQ(process().job(id)->stats.history.timeouts, 0U);
  process().answer(200);
  EXPECT_EQ(process().job(id), std::nullopt);
}

TEST_P(WebhooksTest, AfterAKillEveryJobIsPostedAgainAndNoneIsLost) {
  process().set_hook("t", settings());
  process().set_hook("u", settings());
  const broker::JobId posted = process().put("t");
  const broker::JobId delayed = process().put("u", 10s);
  const broker::JobId done = process().put("t");
  PostOutcome good;
  good.end = End::kAnswered;
  good.status = 204;
  process().report(endpoint_.posts.rbegin()->first, good);
  kill_and_restart();  // And finds its webhooks again.
  ASSERT_EQ(endpoint_.posts.size(), 1U);
  EXPECT_EQ(first().job, posted);
  process().answer(200);
  process().advance(9'999ms);
  EXPECT_THAT(endpoint_.posts, IsEmpty());
  process().advance(1ms);
  ASSERT_EQ(endpoint_.posts.size(), 1U);
  EXPECT_EQ(first().job, delayed);
  EXPECT_EQ(process().job(done), std::nullopt);
}

TEST_P(WebhooksTest, AWebhookThatIsTakenAwayLeavesItsJobsToWorkers) {
  process().set_hook("t", settings());
  const broker::JobId first_job = process().put("t");
  process().set_document("t", "");
  const broker::JobId second_job = process().put("t");
  EXPECT_EQ(endpoint_.posts.size(), 1U);
  EXPECT_EQ(process()->session_count(), 1U);
  process().answer(200);
  EXPECT_EQ(process()->session_count(), 0U);
  EXPECT_THAT(endpoint_.posts, IsEmpty());
  EXPECT_EQ(process().job(first_job), std::nullopt);
  EXPECT_EQ(process().job(second_job)->stats.state, broker::JobState::kReady);
  EXPECT_EQ(process()->settings_of("t"), nullptr);
}

TEST_P(WebhooksTest, StopGivesBackWhatIsNotPosted) {
  process().set_hook("t", settings());
  process().put("t");
  const broker::JobId waits = process().put("t");
  process()->stop();
  process().settle();
  const broker::JobId late = process().put("t");
  EXPECT_EQ(endpoint_.posts.size(), 2U);
  EXPECT_FALSE(process()->idle());
  process().answer(200);
  process()->cancel_posts();
  ASSERT_THAT(endpoint_.cancelled, ElementsAre(first().id));
  PostOutcome cancelled;
  process().report(endpoint_.cancelled.front(), cancelled);
  EXPECT_TRUE(process()->idle());
  EXPECT_EQ(process().job(waits)->stats.state, broker::JobState::kReady);
  EXPECT_EQ(process().job(late)->stats.state, broker::JobState::kReady);
  EXPECT_EQ(process().job(late)->stats.history.reserves, 0U);
}

TEST_P(WebhooksTest, ADocumentThatIsNoneOfOursIsSaidAndLeftAlone) {
  process().set_document("t", "{\"webhook\": {\"url\": \"gopher://x\"}}");
  ASSERT_EQ(process().log().size(), 1U);
  EXPECT_THAT(process().log().front(), testing::HasSubstr("webhook of tube t"));
  EXPECT_EQ(process()->settings_of("t"), nullptr);
}

TEST_P(WebhooksTest, AnAcknowledgementThatCannotBeStoredIsNotForgotten) {
  process().set_hook("t", settings());
  const broker::JobId id = process().put("t");
  process().store_of("t").fail_commit(1, {ErrorCode::kIo, "no disk"});
  process().answer(200);
  EXPECT_FALSE(process()->idle());
  process().advance(5s);
  EXPECT_TRUE(process()->idle());
  EXPECT_THAT(endpoint_.posts, IsEmpty());  // It is not posted again.
  EXPECT_EQ(process().job(id), std::nullopt);
}

}  // namespace
}  // namespace carillon::server
