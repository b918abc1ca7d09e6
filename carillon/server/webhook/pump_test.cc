// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/pump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/server/webhook/pump_testing.h"

namespace carillon::server {
namespace {

using namespace std::chrono_literals;
using End = PostOutcome::End;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using What = WebhookFinish::What;

WebhookJob job_of_attempt(std::uint32_t attempt) {
  WebhookJob job;
  job.attempt = attempt;
  return job;
}

TEST(WebhookPump, PostsAJobAndDeletesItWhenItWasTaken) {
  PumpWorld world;
  world.hook("t");
  EXPECT_TRUE(world.asking("t"));
  WebhookJob job;
  job.attempt = 3;
  job.key = "k";
  job.content_type = "text/plain";
  job.due_at_ms = 77;
  job.body = broker::Body("bytes");
  world.put("t", 1, job);
  ASSERT_EQ(world.posts().size(), 1U);
  const Post post = world.posts().begin()->second;
  EXPECT_EQ(post.job, 1U);
  EXPECT_EQ(post.attempt, 3U);
  EXPECT_EQ(post.key, "k");
  EXPECT_EQ(post.content_type, "text/plain");
  EXPECT_EQ(post.due_at_ms, 77);
  EXPECT_EQ(post.body.view(), "bytes");
  EXPECT_EQ(post.target->url.host, "hooks.example");
  world.answer("t", 204);
  EXPECT_EQ(world.only_finished(), (WebhookFinish{What::kDelete, {}}));
  EXPECT_TRUE(world->idle());
  EXPECT_EQ(world->state_of("t", world.now())->delivered, 1U);
}

TEST(WebhookPump, NeverHasMorePostsThanItsConcurrency) {
  PumpWorld world;
  world.hook("t", PumpWorld::settings(3));
  world.put("t", 10);
  EXPECT_EQ(world.posting("t"), 3U);
  EXPECT_EQ(world.ready("t"), 7U);  // In the tube, for whoever comes.
  EXPECT_FALSE(world.asking("t"));
  world.answer("t", 200);
  EXPECT_EQ(world.posting("t"), 3U);
  EXPECT_EQ(world.ready("t"), 6U);
}

TEST(WebhookPump, NeverBeginsMorePostsThanItsRate) {
  PumpWorld world;
  WebhookSettings settings = PumpWorld::settings(1'000);
  settings.rate = WebhookRate{10, 1s, 5};
  world.hook("t", settings);
  world.put("t", 1'000);
  EXPECT_EQ(world.posting("t"), 5U);
  world.advance(99ms);
  EXPECT_EQ(world.posting("t"), 5U);
  world.advance(1ms);
  EXPECT_EQ(world.posting("t"), 6U);
  world.advance(2s);
  EXPECT_EQ(world.posting("t"), 26U);
  EXPECT_EQ(world.ready("t"), 974U);
}

TEST(WebhookPump, AFailedJobWaitsTwiceAsLongEachTime) {
  PumpWorld world;
  world.hook("t");
  for (const auto& [attempt, delay] : std::vector<std::pair<std::uint32_t, Span>>{
           {1, 1s}, {2, 2s}, {3, 4s}, {12, 2'048s}, {13, 1h}}) {
    world.put("t", 1, job_of_attempt(attempt));
    world.answer("t", 404);
    EXPECT_EQ(world.only_finished(), (WebhookFinish{What::kRelease, delay})) << attempt;
  }
}

TEST(WebhookPump, JitterIsAnythingUpToTheBackoff) {
  PumpWorld world;
  WebhookSettings settings = PumpWorld::settings();
  settings.backoff.jitter = true;
  world.hook("t", settings);
  Span least = kForever;
  Span most{};
  for (int i = 0; i < 500; ++i) {
    world.put("t", 1, job_of_attempt(4));
    world.answer("t", 404);
    const Span delay = world.only_finished().delay;
    least = std::min(least, delay);
    most = std::max(most, delay);
  }
  EXPECT_LT(least, 800ms);
  EXPECT_GT(most, 7'200ms);
  EXPECT_LE(most, 8s);
}

TEST(WebhookPump, AJobsOwnBackoffIsUsed) {
  PumpWorld world;
  world.hook("t");
  WebhookJob job = job_of_attempt(3);
  job.backoff = WebhookBackoff{100ms, 300ms, false};
  world.put("t", 1, job);
  world.answer("t", 404);
  EXPECT_EQ(world.only_finished().delay, 300ms);
}

TEST(WebhookPump, AJobIsBuriedWhenItsAttemptsAreUsedUp) {
  PumpWorld world;
  WebhookSettings settings = PumpWorld::settings();
  settings.max_attempts = 3;
  world.hook("t", settings);
  world.put("t", 1, job_of_attempt(2));
  world.answer("t", 500);
  EXPECT_EQ(world.only_finished().what, What::kRelease);
  world.put("t", 1, job_of_attempt(3));
  world.answer("t", 500);
  EXPECT_EQ(world.only_finished().what, What::kBury);
  EXPECT_EQ(world->state_of("t", world.now())->buried, 1U);
}

TEST(WebhookPump, WithoutALimitOfAttemptsNothingIsBuried) {
  PumpWorld world;
  WebhookSettings settings = PumpWorld::settings();
  settings.max_attempts = 0;
  world.hook("t", settings);
  world.put("t", 1, job_of_attempt(4'000'000'000));
  world.answer("t", 500);
  EXPECT_EQ(world.only_finished(), (WebhookFinish{What::kRelease, 1h}));
}

TEST(WebhookPump, GoneBuriesAtOnce) {
  PumpWorld world;
  world.hook("t");
  world.put("t");
  world.answer("t", 410);
  EXPECT_EQ(world.only_finished().what, What::kBury);
}

TEST(WebhookPump, AClientErrorBuriesAtOnceIfThatIsAskedFor) {
  for (const int status : {400, 401, 404, 422, 499}) {
    PumpWorld retrying;
    retrying.hook("t");
    retrying.put("t");
    retrying.answer("t", status);
    EXPECT_EQ(retrying.only_finished().what, What::kRelease) << status;

    PumpWorld burying;
    WebhookSettings settings = PumpWorld::settings();
    settings.bury_on_client_error = true;
    burying.hook("t", settings);
    burying.put("t");
    burying.answer("t", status);
    EXPECT_EQ(burying.only_finished().what, What::kBury) << status;
  }
  for (const int status : {301, 307, 408, 425, 429, 500, 503}) {
    PumpWorld world;
    WebhookSettings settings = PumpWorld::settings();
    settings.bury_on_client_error = true;
    world.hook("t", settings);
    world.put("t");
    world.answer("t", status);
    EXPECT_EQ(world.only_finished().what, What::kRelease) << status;
  }
}

TEST(WebhookPump, EveryWayToFailReleasesTheJob) {
  for (const End end : {End::kRefused, End::kUnresolved, End::kUnreachable, End::kTls,
                        End::kTimedOut, End::kClosed, End::kGarbage}) {
    PumpWorld world;
    world.hook("t");
    world.put("t");
    world.end(world.first("t"), PumpWorld::ended(end));
    EXPECT_EQ(world.only_finished(), (WebhookFinish{What::kRelease, 1s}));
    EXPECT_EQ(world->state_of("t", world.now())->last_error, to_string(end));
  }
}

TEST(WebhookPump, RetryAfterIsRespectedAndCapped) {
  PumpWorld world;
  world.hook("t");
  world.put("t");
  world.answer("t", 500, 90s);
  EXPECT_EQ(world.only_finished().delay, 90s);
  world.put("t");
  world.answer("t", 500, 500ms);  // Less than the backoff.
  EXPECT_EQ(world.only_finished().delay, 1s);
  world.put("t");
  world.answer("t", 500, kForever);
  EXPECT_EQ(world.only_finished().delay, 1h);
}

TEST(WebhookPump, RetryAfterOf429And503HoldsBackTheWholeTube) {
  for (const int status : {429, 503}) {
    PumpWorld world;
    world.hook("t");
    world.put("t");
    world.answer("t", status, 30s);
    EXPECT_FALSE(world.asking("t"));
    world.put("t", 5);
    EXPECT_EQ(world->state_of("t", world.now())->paused_for, Span(30s));
    world.advance(29'999ms);
    EXPECT_EQ(world.posts().size(), 0U);
    world.advance(1ms);
    EXPECT_EQ(world.posts().size(), 5U);
  }
}

TEST(WebhookPump, AnEndpointThatIsDownIsTriedMoreAndMoreRarely) {
  PumpWorld world;
  world.released_come_back = true;
  world.hook("t", PumpWorld::settings(10));
  world.put("t", 1'000);
  std::vector<Instant> tries;
  std::size_t attempts = 0;
  for (int second = 0; second < 600; ++second) {
    while (!world.posts().empty()) {
      if (tries.empty() || tries.back() != world.now()) tries.push_back(world.now());
      ++attempts;
      world.end(world.first("t"), PumpWorld::ended(End::kUnreachable));
    }
    world.advance(100ms);
  }
  // A minute: some ten at first, then single ones after 1, 2, 4 s ..., half of it by chance.
  EXPECT_LE(attempts, 25U);
  EXPECT_GE(tries.size(), 5U);
  EXPECT_GT(world.ready("t"), 980U);

  // And when it is back all goes on, at twice the pace each time.
  world.advance(60s);
  for (int i = 0; i < 20'000 && world->state_of("t", world.now())->delivered < 900; ++i) {
    if (world.posts().empty()) {
      world.advance(100ms);
    } else {
      world.answer("t", 200);
    }
  }
  EXPECT_GE(world->state_of("t", world.now())->delivered, 900U);
  EXPECT_EQ(world->state_of("t", world.now())->failures, 0U);
}

TEST(WebhookPump, AfterAPauseOneIsTriedThenTwiceAsMany) {
  PumpWorld world;
  world.hook("t", PumpWorld::settings(5));
  world.put("t", 100);
  ASSERT_EQ(world.posting("t"), 5U);
  for (int i = 0; i < 5; ++i) world.answer("t", 500);
  EXPECT_EQ(world.posting("t"), 4U);  // Begun in the place of the first four.
  for (int i = 0; i < 4; ++i) world.answer("t", 500);
  EXPECT_EQ(world.posting("t"), 0U);
  EXPECT_TRUE(world->state_of("t", world.now())->paused_for);
  world.advance(1s);
  EXPECT_EQ(world.posting("t"), 1U);
  world.answer("t", 200);
  EXPECT_EQ(world.posting("t"), 2U);
  world.answer("t", 200);
  EXPECT_EQ(world.posting("t"), 4U);
  world.answer("t", 200);
  EXPECT_EQ(world.posting("t"), 5U);
}

TEST(WebhookPump, FailuresThatBeganBeforeThePauseDoNotLengthenIt) {
  PumpWorld world;
  world.hook("t", PumpWorld::settings(100));
  world.put("t", 60);
  ASSERT_EQ(world.posting("t"), 50U);  // Half of all there may be.
  world.advance(10ms);
  for (int i = 0; i < 50; ++i) world.answer("t", 500);
  EXPECT_LE(*world->state_of("t", world.now())->paused_for, Span(1s));
}

TEST(WebhookPump, AnAnswerToOneJobSaysNothingAgainstTheEndpoint) {
  PumpWorld world;
  world.hook("t", PumpWorld::settings(1));
  world.put("t", 50);
  for (int i = 0; i < 50; ++i) world.answer("t", 404);
  EXPECT_EQ(world.finished().size(), 50U);
  EXPECT_EQ(world->state_of("t", world.now())->failures, 0U);
}

TEST(WebhookPump, ASlowEndpointHoldsUpNobodyElse) {
  PumpWorld world(10);
  world.hook("slow", PumpWorld::settings(1'000));
  world.put("slow", 1'000);
  EXPECT_EQ(world.posting("slow"), 5U);  // As many as are free.
  world.hook("quick", PumpWorld::settings(1'000));
  world.put("quick", 1'000);
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_GE(world.posting("quick"), 1U) << i;
    world.answer("quick", 200);
  }
  EXPECT_EQ(world.ready("quick"), 0U);
  EXPECT_EQ(world.finished().size(), 1'000U);
}

TEST(WebhookPump, WhoHasNoConnectionGetsTheFirstThatIsFree) {
  PumpWorld world(4);
  for (const char* tube : {"a", "b", "c", "d", "e", "f"}) {
    world.hook(tube, PumpWorld::settings(100));
    world.put(tube, 10);
  }
  EXPECT_EQ(world.posts().size(), 4U);
  EXPECT_EQ(world.posting("e"), 0U);
  EXPECT_TRUE(world->state_of("e", world.now())->starved);
  std::map<std::string, int> served;
  for (int i = 0; i < 60; ++i) {
    const auto [id, post] = *world.posts().begin();
    ++served[post.tube];
    world.end(id, PumpWorld::answered(200));
    ASSERT_EQ(world.posts().size(), std::min<std::size_t>(4, 59 - static_cast<std::size_t>(i)));
    if (i == 29) {
      for (const auto& [tube, count] : served) EXPECT_NEAR(count, 5, 3) << tube;
    }
  }
  for (const auto& [tube, count] : served) EXPECT_EQ(count, 10) << tube;
}

TEST(WebhookPump, AnotherLimitOfConnectionsHoldsFromThenOn) {
  PumpWorld world(2);
  for (const char* tube : {"a", "b", "c"}) {
    world.hook(tube, PumpWorld::settings(100));
    world.put(tube, 10);
  }
  EXPECT_EQ(world.posts().size(), 2U);
  EXPECT_TRUE(world->state_of("c", world.now())->starved);
  world.set_max_connections(6);
  EXPECT_GE(world.posting("c"), 1U);
  EXPECT_GE(world.posts().size(), 3U);
  const std::size_t open = world.posts().size();
  world.set_max_connections(1);
  EXPECT_EQ(world.posts().size(), open) << "what has begun ends as it began";
  std::size_t done = 0;
  for (; !world.posts().empty(); ++done) {
    const std::size_t before = world.posts().size();
    world.end(world.posts().begin()->first, PumpWorld::answered(200));
    EXPECT_LE(world.posts().size(), std::max<std::size_t>(before - 1, 1));
  }
  EXPECT_EQ(done, 30U);
}

TEST(WebhookPump, AReservationIsRenewedWhileItsJobIsPosted) {
  PumpWorld world(1);
  world.hook("t", PumpWorld::settings(2));
  WebhookJob job;
  job.ttr = 10s;
  world.put("t", 2, job);
  EXPECT_EQ(world.posts().size(), 1U);  // The other waits for a connection.
  world.advance(4'999ms);
  EXPECT_EQ(world.touches(), 0);
  world.advance(1ms);
  EXPECT_EQ(world.touches(), 2);
  world.advance(20s);
  EXPECT_EQ(world.touches(), 8);
  world.answer("t", 200);
  world.answer("t", 200);
  world.advance(1min);
  EXPECT_EQ(world.touches(), 0);
}

TEST(WebhookPump, WhatTheStoreCannotDoIsTriedAgain) {
  PumpWorld world;
  world.hook("t");
  world.put("t");
  world.store = WebhookFinished::kFailed;
  world.answer("t", 200);
  world.advance(10s);
  EXPECT_EQ(world.finished().size(), 0U);
  EXPECT_FALSE(world->idle());
  world.store = WebhookFinished::kDone;
  world.advance(1s);
  EXPECT_EQ(world.only_finished().what, What::kDelete);
  EXPECT_TRUE(world->idle());
}

TEST(WebhookPump, AReserveThatFailedIsTriedAgain) {
  PumpWorld world;
  world.hook("t");
  EXPECT_TRUE(world.asking("t"));
  // As if the partition had said no: the reserve has ended.
  world.drop_reserve("t");
  world->on_reserve_failed("t", world.now());
  EXPECT_FALSE(world.asking("t"));
  world.advance(1s);
  EXPECT_TRUE(world.asking("t"));
}

TEST(WebhookPump, ARemovedHookAsksForNothingAndEndsWhatItBegan) {
  PumpWorld world;
  world.hook("t", PumpWorld::settings(1));
  world.put("t", 2);
  world->remove_hook("t", world.now());
  EXPECT_TRUE(world->state_of("t", world.now()));
  world.answer("t", 200);
  EXPECT_EQ(world.only_finished().what, What::kDelete);
  EXPECT_EQ(world.ready("t"), 1U);
  EXPECT_FALSE(world.asking("t"));
  EXPECT_FALSE(world->state_of("t", world.now()));
  world.hook("t");
  EXPECT_EQ(world.posting("t"), 1U);
}

TEST(WebhookPump, NewSettingsHoldFromTheNextPostOn) {
  PumpWorld world;
  world.hook("t", PumpWorld::settings(1));
  world.put("t", 3);
  WebhookSettings settings = PumpWorld::settings(2);
  settings.target.secrets = {"new"};
  world.hook("t", settings);
  ASSERT_EQ(world.posting("t"), 2U);
  EXPECT_TRUE(world.posts().begin()->second.target->secrets.empty());
  EXPECT_EQ(world.posts().rbegin()->second.target->secrets, std::vector<std::string>{"new"});
}

TEST(WebhookPump, StopEndsTheAskingAndCancelGivesBack) {
  PumpWorld world(2);
  world.hook("t", PumpWorld::settings(10));
  world.hook("u", PumpWorld::settings(10));
  world.hook("v", PumpWorld::settings(10));
  for (const char* tube : {"t", "u", "v"}) world.put(tube, 2);
  EXPECT_EQ(world.posts().size(), 2U);
  world->stop(world.now());
  EXPECT_EQ(world.ready("v"), 2U);  // What had no connection is given back at once.
  EXPECT_FALSE(world->idle());
  world.answer(world.posts().begin()->second.tube, 200);
  EXPECT_EQ(world.posts().size(), 1U);
  world->cancel_posts();
  EXPECT_EQ(world.cancelled_posts(), 1);
  world.end(world.posts().begin()->first, PumpWorld::ended(End::kCancelled));
  EXPECT_TRUE(world->idle());
  EXPECT_EQ(world.finished().size(), 1U);
  EXPECT_EQ(world.ready("t") + world.ready("u") + world.ready("v"), 5U);
}

TEST(WebhookPump, EveryJobIsDeliveredInTheEndWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    PumpWorld world(1 + random.below(20), seed);
    world.released_come_back = true;
    const std::vector<std::string> tubes{"a", "b", "c", "d", "e"};
    std::map<std::string, std::uint32_t> concurrency;
    for (const std::string& tube : tubes) {
      WebhookSettings settings =
          PumpWorld::settings(1 + static_cast<std::uint32_t>(random.below(8)));
      settings.max_attempts = 0;
      settings.backoff = {100ms, 5s, true};
      if (random.one_in(2)) settings.rate = WebhookRate{20, 1s, 3};
      concurrency[tube] = settings.concurrency;
      world.hook(tube, settings);
    }
    std::size_t put = 0;
    std::size_t deleted = 0;
    for (int step = 0; step < 40'000 && (step < 2'000 || deleted < put); ++step) {
      if (step < 2'000 && random.one_in(4)) {
        world.put(tubes[random.below(tubes.size())]);
        ++put;
      }
      if (!world.posts().empty() && !random.one_in(4)) {
        auto post = world.posts().begin();
        std::advance(post, random.below(world.posts().size()));
        const std::uint64_t fate = random.below(step < 2'000 ? 8 : 2);
        world.store = random.one_in(50) ? WebhookFinished::kFailed : WebhookFinished::kDone;
        world.end(post->first,
                  fate < 3    ? PumpWorld::answered(200)
                  : fate == 3 ? PumpWorld::answered(503, Span(random.below(2'000) * 1ms))
                  : fate == 4 ? PumpWorld::answered(404)
                              : PumpWorld::ended(static_cast<End>(1 + random.below(8))));
      } else {
        world.store = WebhookFinished::kDone;
        world.advance(random.below(500) * 1ms);
      }
      for (const std::string& tube : tubes) ASSERT_LE(world.posting(tube), concurrency[tube]);
      for (const auto& [job, finish] : world.finished()) {
        ASSERT_NE(finish.what, What::kBury);
        if (finish.what == What::kDelete) ++deleted;
      }
    }
    EXPECT_EQ(deleted, put);
    EXPECT_TRUE(world->idle());
  }
}

TEST(WebhookPump, AsksForNothingWhileHeld) {
  PumpWorld world;
  world.hook("t", PumpWorld::settings(2));
  world.put("t", 4);
  ASSERT_EQ(world.posting("t"), 2U);
  world.hold(true);
  world.answer("t", 200);  // What was under way ends as it began.
  world.answer("t", 500);
  world.hook("u");
  world.put("u");
  world.advance(10min);
  EXPECT_TRUE(world.posts().empty());
  EXPECT_FALSE(world.asking("t"));
  EXPECT_EQ(world.ready("u"), 1U);
  world.hold(false);
  EXPECT_EQ(world.posting("t"), 2U);
  EXPECT_EQ(world.posting("u"), 1U);
}

TEST(WebhookPump, TellsOfAnOutageWhenItBeginsPausesAndEnds) {
  using News = WebhookNews::What;
  PumpWorld world;
  world.hook("t", PumpWorld::settings(1));
  world.put("t", 100);
  world.answer("t", 503);
  EXPECT_THAT(world.take_news("t"), ElementsAre(Pair(News::kFailing, 1)));
  for (std::uint32_t i = 1; i < WebhookPump::kCircuitFailures; ++i) world.answer("t", 503);
  EXPECT_THAT(world.take_news("t"), ElementsAre(Pair(News::kPaused, 5)));
  for (int i = 0; i < 3; ++i) {
    world.advance(1min);
    world.answer("t", 503);
  }
  EXPECT_THAT(world.take_news("t"), IsEmpty());  // It is known.
  world.advance(1min);
  world.answer("t", 200);
  EXPECT_THAT(world.take_news("t"), ElementsAre(Pair(News::kRecovered, 8)));
  world.answer("t", 200);
  EXPECT_THAT(world.take_news("t"), IsEmpty());
}

TEST(WebhookPump, TellsOfAnEndpointThatComesAndGoesOnceAMinute) {
  PumpWorld world;
  world.hook("t", PumpWorld::settings(1));
  world.put("t", 1'000);
  for (int i = 0; i < 100; ++i) {
    world.answer("t", 503);
    world.answer("t", 200);
  }
  EXPECT_THAT(world.take_news("t"), SizeIs(1));
}

TEST(WebhookPump, TellsOfBuriedJobsOnceAMinuteWithTheirNumber) {
  using News = WebhookNews::What;
  PumpWorld world;
  WebhookSettings settings = PumpWorld::settings(1);
  settings.bury_on_client_error = true;
  world.hook("t", settings);
  world.put("t", 8);
  for (int i = 0; i < 7; ++i) world.answer("t", 404);
  EXPECT_THAT(world.take_news("t"), ElementsAre(Pair(News::kBuried, 1)));
  world.advance(59s);
  EXPECT_THAT(world.take_news("t"), IsEmpty());
  world.advance(1s);
  EXPECT_THAT(world.take_news("t"), ElementsAre(Pair(News::kBuried, 6)));
  // Nothing is told of a webhook that is gone.
  world.answer("t", 404);
  world->remove_hook("t", world.now());
  world.advance(2min);
  EXPECT_THAT(world.take_news("t"), IsEmpty());
}

}  // namespace
}  // namespace carillon::server
