// SPDX-License-Identifier: Apache-2.0
// Random commands of several sessions, and time, against the model; in every configuration, since
// none may show: jobs near or far, bodies in memory or not, one restart after another.
//
// CARILLON_SEED=n repeats the run of seed n, CARILLON_RUNS=n makes n runs instead of the default.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "carillon/base/random.h"
#include "carillon/broker/testing/model.h"
#include "carillon/broker/testing/seeds.h"
#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {
namespace {

constexpr std::array<std::string_view, 4> kTubes{"default", "a", "b", "c"};

BrokerOptions random_options(Random& random) {
  BrokerOptions options;
  if (!random.one_in(3)) {
    options.store_keeps_far_jobs = true;
    options.store_keeps_bodies = true;
    options.horizon = milliseconds(random.between(1, 8'000));
    options.load_chunk = static_cast<std::size_t>(random.between(1, 4));
    options.body_budget_bytes = random.below(100);
    options.read_ahead_jobs = random.below(8);
    options.read_ahead_bytes = random.below(200);
    options.read_ahead_budget_bytes = random.below(400);
  }
  return options;
}

class Trial {
 public:
  explicit Trial(std::uint64_t seed)
      : random_(seed), options_(random_options(random_)), world_(options_), model_(world_.now()) {}

  [[nodiscard]] const std::string& trace() const { return trace_; }

  void run() {
    for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) step();
  }

 private:
  void step() {
    const std::uint64_t what = random_.below(100);
    if (sessions_.empty() || (what < 3 && sessions_.size() < 5)) {
      open();
    } else if (what < 5) {
      close();
    } else if (what < 6) {
      restart();
    } else if (what < 8) {
      step_calendar();
    } else if (what < 20) {
      pass();
    } else {
      command();
    }
    compare_answers();
  }

  void open() {
    const SessionId session = world_.connect_bare();
    model_.open(session);
    sessions_.push_back(session);
    log("open", session);
  }
  void close() {
    const std::size_t which = random_.below(sessions_.size());
    const SessionId session = sessions_[which];
    log("close", session);
    sessions_.erase(sessions_.begin() + static_cast<std::ptrdiff_t>(which));
    world_.close(session);
    model_.close(session);
    model_.answers().erase(session);
  }
  void restart() {
    const Span later = milliseconds(random_.one_in(2) ? 0 : random_.between(0, 20'000));
    log("restart", 0);
    sessions_.clear();
    world_.restart(later, !options_.store_keeps_bodies || random_.one_in(2));
    world_.advance();
    model_.restart(world_.now());
  }
  void pass() {
    const Span span = random_.one_in(3) ? Span(random_.between(0, 3'000'000))
                                        : Span(milliseconds(random_.between(0, 4'000)));
    // A host that is held up for longer than far jobs are loaded ahead is late.
    const Span lead = options_.horizon / 4 * 3;
    if (random_.one_in(4) && (!options_.store_keeps_far_jobs || span < lead - milliseconds(2))) {
      log("jump", static_cast<std::uint64_t>(span.count()));
      world_.jump(span);
      model_.jump_to(world_.now());
    } else {
      log("pass", static_cast<std::uint64_t>(span.count()));
      world_.pass(span);
      model_.pass_until(world_.now());
    }
  }

  void step_calendar() {
    // Who waits is served by near jobs before the far ones have been read, whatever their priority.
    for (const SessionId session : sessions_) {
      if (model_.waits(session)) return;
    }
    const Span span = milliseconds(random_.between(-30'000, 30'000) / 10 * 10);
    log("step calendar", static_cast<std::uint64_t>(span.count()));
    stepped_ = true;
    world_.step_calendar(span);
    model_.step_calendar(span);
  }
  JobExtras some_extras() {
    JobExtras extras;
    if (random_.one_in(2)) extras.key = some_key();
    if (random_.one_in(3)) extras.max_attempts = static_cast<std::uint32_t>(random_.between(1, 3));
    if (random_.one_in(3)) extras.backoff_base_ms = random_.between(1, 2'000);
    if (random_.one_in(2)) extras.backoff_cap_ms = random_.between(0, 6'000);
    if (random_.one_in(3)) extras.due_at_ms = some_date();
    return extras;
  }
  std::string some_key() { return std::string(1, static_cast<char>('p' + random_.below(4))); }
  std::int64_t some_date() { return world_.calendar_ms() + random_.between(-2'000, 20'000); }
  Span some_delay() {
    switch (random_.below(4)) {
      case 0: return Span::zero();
      case 1: return Span(random_.between(1, 3'000'000));
      default: return milliseconds(random_.between(1, 20'000));
    }
  }
  JobId some_job() {
    if (model_.jobs().empty() || random_.one_in(20)) return random_.below(last_job_ + 3);
    auto job = model_.jobs().begin();
    std::advance(job, static_cast<std::ptrdiff_t>(random_.below(model_.jobs().size())));
    return job->first;
  }
  JobId some_held(SessionId session) {
    for (const auto& [id, job] : model_.jobs()) {
      if (job.state == JobState::kReserved && job.holder == session && random_.one_in(2)) return id;
    }
    return some_job();
  }

  void command() {
    static constexpr std::array kVerbs{
        Verb::kPut,        Verb::kPut,      Verb::kPut,        Verb::kPut,       Verb::kReserve,
        Verb::kReserve,    Verb::kReserve,  Verb::kReserveJob, Verb::kDelete,    Verb::kRelease,
        Verb::kRelease,    Verb::kBury,     Verb::kBury,       Verb::kTouch,     Verb::kKick,
        Verb::kKick,       Verb::kKickJob,  Verb::kPeek,       Verb::kPeekReady, Verb::kPeekDelayed,
        Verb::kPeekBuried, Verb::kUse,      Verb::kWatch,      Verb::kWatch,     Verb::kIgnore,
        Verb::kPauseTube,  Verb::kStatsJob, Verb::kStatsTube,  Verb::kListTubes, Verb::kUnreserve,
        Verb::kGet,        Verb::kGet,      Verb::kCancel,     Verb::kChange,    Verb::kChange,
        Verb::kChange,     Verb::kHandOver, Verb::kList,       Verb::kList,      Verb::kClear,
        Verb::kSetTube};
    const SessionId session = sessions_[random_.below(sessions_.size())];
    Command c;
    c.verb = kVerbs[random_.below(kVerbs.size())];
    if (model_.waits(session)) {
      if (!random_.one_in(10)) return;
      if (random_.one_in(2)) {
        log("end_waiting", session);
        world_.end_waiting(session);
        model_.end_waiting(session);
        return;
      }
      c.verb = Verb::kCancelReserve;
    }
    const bool by_holder = c.verb == Verb::kRelease || c.verb == Verb::kBury ||
                           c.verb == Verb::kTouch || c.verb == Verb::kDelete ||
                           c.verb == Verb::kUnreserve || c.verb == Verb::kHandOver;
    c.id = by_holder ? some_held(session) : some_job();
    c.tube = kTubes[random_.below(kTubes.size())];
    c.priority = static_cast<std::uint32_t>(random_.one_in(3) ? random_.below(3) : 2'000);
    c.delay = some_delay();
    c.ttr = milliseconds(random_.one_in(3) ? random_.between(1, 1'500)
                                           : random_.between(1'000, 10'000));
    c.count = random_.below(4);
    c.tubes_in_turn = random_.one_in(2);
    if (!random_.one_in(5)) c.timeout = random_.one_in(2) ? Span::zero() : some_delay();
    if (c.verb == Verb::kPut) c.body = Body(std::string(random_.below(30), 'x'));
    add_more(c);
    log("verb " + std::to_string(static_cast<int>(c.verb)) + " of " + std::to_string(session) +
            " tube " + std::string(c.tube) + " delay " + std::to_string(c.delay.count()) +
            describe(c) + " id",
        c.id);
    run(session, c);
  }

  static std::string describe(const Command& c) {
    std::string text;
    if (c.extras) {
      text += " key '" + c.extras->key + "' attempts " + std::to_string(c.extras->max_attempts);
      if (c.extras->due_at_ms) text += " due at " + std::to_string(*c.extras->due_at_ms);
      text += " conflict " + std::to_string(static_cast<int>(c.on_conflict));
    }
    if (c.options && c.id == 0) text += " named '" + c.options->key + "'";
    return text;
  }

  /// What is beyond beanstalk.
  void add_more(Command& c) {
    CommandOptions options;
    c.with_view = random_.one_in(3);
    c.with_body = random_.one_in(2);
    c.use_backoff = random_.one_in(3);
    c.to = sessions_[random_.below(sessions_.size())];
    // It would be told of the margin of that job a tick later than by itself.
    if (model_.waits(c.to)) c.to = 0;
    if (random_.one_in(4)) c.attempt = static_cast<std::uint32_t>(random_.between(1, 2));
    if (c.verb == Verb::kUnreserve) c.attempt = 0;
    if (c.verb == Verb::kPut && random_.one_in(2)) {
      c.extras = std::make_shared<const JobExtras>(some_extras());
      c.on_conflict = static_cast<OnConflict>(random_.below(3));
    }
    if (c.verb == Verb::kChange) {
      c.sets_priority = random_.one_in(2);
      c.sets_delay = random_.one_in(2);
      if (random_.one_in(3)) options.due_at_ms = some_date();
    }
    c.states = static_cast<JobStates>(random_.below(16));
    if (random_.one_in(3)) options.settings.max_jobs = random_.below(8);
    ListQuery& list = options.list;
    list.state = static_cast<JobState>(random_.below(4));
    list.limit = static_cast<std::size_t>(random_.between(1, 6));
    if (random_.one_in(4)) list.key_prefix = some_key();
    if (random_.one_in(3)) list.due_from_ms = some_date();
    if (random_.one_in(3)) list.due_until_ms = some_date();
    if (random_.one_in(2)) list.after = {world_.now_ms() + random_.between(0, 20'000), some_job()};
    if (c.verb == Verb::kList && random_.one_in(2)) c.tube = {};
    // Far jobs with a date are listed where they were due when they were put.
    if (stepped_ && options_.store_keeps_far_jobs && list.state == JobState::kDelayed) {
      list.state = JobState::kReady;
    }
    if (by_key(c.verb) && random_.one_in(4)) {
      c.id = 0;
      options.key = some_key();
    }
    c.options = std::make_shared<const CommandOptions>(options);
  }
  static bool by_key(Verb verb) {
    return verb == Verb::kReserveJob || verb == Verb::kDelete || verb == Verb::kRelease ||
           verb == Verb::kBury || verb == Verb::kTouch || verb == Verb::kKickJob ||
           verb == Verb::kPeek || verb == Verb::kStatsJob || verb == Verb::kGet ||
           verb == Verb::kCancel || verb == Verb::kChange;
  }

  void run(SessionId session, const Command& c) {
    std::optional<Reply> reply = world_.run(session, c);
    if (c.verb == Verb::kPut) {
      ASSERT_TRUE(reply) << trace_;
      if (reply->answer == Answer::kInserted) {
        ASSERT_GT(reply->id, last_job_) << trace_;
        last_job_ = reply->id;
      }
    }
    model_.run(session, c, last_job_);
    if (reply) {
      compare(session, *reply);
    } else if (c.verb != Verb::kUnreserve && c.verb != Verb::kCancelReserve) {
      EXPECT_TRUE(model_.waits(session)) << "no answer to " << trace_;
    }
  }

  void compare_answers() {
    for (const SessionId session : sessions_) {
      if (std::optional<Reply> reply = world_.answer(session)) compare(session, *reply);
    }
    EXPECT_THAT(model_.answers(), ::testing::IsEmpty()) << "answers missing after " << trace_;
  }

  void compare(SessionId session, const Reply& reply) {
    const auto found = model_.answers().find(session);
    ASSERT_NE(found, model_.answers().end())
        << "session " << session << " was answered " << static_cast<int>(reply.answer) << trace_;
    const Model::Expected expected = std::move(found->second);
    model_.answers().erase(found);
    ASSERT_EQ(static_cast<int>(reply.answer), static_cast<int>(expected.answer)) << trace_;
    ASSERT_EQ(reply.id, expected.id) << trace_;
    ASSERT_EQ(reply.count, expected.count) << trace_;
    ASSERT_EQ(reply.body.view(), expected.body) << trace_;
    if (reply.answer == Answer::kReserved || (reply.answer == Answer::kFound && !expected.info)) {
      ASSERT_TRUE(reply.body) << trace_;
    }
    if (expected.info) compare(std::get<JobView>(*reply.detail), *expected.info);
    if (expected.page) compare(std::get<JobPage>(*reply.detail), *expected.page);
    if (expected.job) compare(std::get<JobStats>(*reply.detail), *expected.job);
    if (expected.tube) compare(std::get<TubeStats>(*reply.detail), *expected.tube);
    if (!expected.names.empty()) {
      ASSERT_EQ(std::get<TubeNames>(*reply.detail), expected.names) << trace_;
    }
  }
  void compare(const JobView& is, const JobView& should) {
    compare(is.stats, should.stats);
    ASSERT_TRUE(same_extras(is.extras, should.extras)) << trace_;
    ASSERT_EQ(is.body_size, should.body_size) << trace_;
    ASSERT_EQ(is.attempt, should.attempt) << trace_;
    ASSERT_EQ(is.created_at_ms, should.created_at_ms) << trace_;
    ASSERT_EQ(is.due_at_ms, should.due_at_ms) << trace_;
    ASSERT_EQ(is.reserved_until_ms, should.reserved_until_ms) << trace_;
  }
  void compare(const JobPage& is, const JobPage& should) {
    ASSERT_EQ(is.jobs.size(), should.jobs.size()) << trace_;
    for (std::size_t i = 0; i < is.jobs.size(); ++i) compare(is.jobs[i], should.jobs[i]);
    ASSERT_EQ(is.next, should.next) << trace_;
  }
  void compare(const JobStats& is, const JobStats& should) {
    ASSERT_EQ(is.id, should.id) << trace_;
    ASSERT_EQ(is.tube, should.tube) << trace_;
    ASSERT_EQ(is.state, should.state) << trace_;
    ASSERT_EQ(is.priority, should.priority) << trace_;
    ASSERT_EQ(is.age_ms, should.age_ms) << trace_;
    ASSERT_EQ(is.delay_ms, should.delay_ms) << trace_;
    ASSERT_EQ(is.ttr_ms, should.ttr_ms) << trace_;
    ASSERT_EQ(is.time_left_ms, should.time_left_ms) << trace_;
    ASSERT_EQ(is.history.reserves, should.history.reserves) << trace_;
    ASSERT_EQ(is.history.timeouts, should.history.timeouts) << trace_;
    ASSERT_EQ(is.history.releases, should.history.releases) << trace_;
    ASSERT_EQ(is.history.buries, should.history.buries) << trace_;
    ASSERT_EQ(is.history.kicks, should.history.kicks) << trace_;
  }
  void compare(const TubeStats& is, const TubeStats& should) {
    ASSERT_EQ(is.name, should.name) << trace_;
    ASSERT_EQ(is.jobs.urgent, should.jobs.urgent) << trace_;
    ASSERT_EQ(is.jobs.ready, should.jobs.ready) << trace_;
    ASSERT_EQ(is.jobs.reserved, should.jobs.reserved) << trace_;
    ASSERT_EQ(is.jobs.delayed, should.jobs.delayed) << trace_;
    ASSERT_EQ(is.jobs.buried, should.jobs.buried) << trace_;
    ASSERT_EQ(is.total_jobs, should.total_jobs) << trace_;
    ASSERT_EQ(is.using_count, should.using_count) << trace_;
    ASSERT_EQ(is.watching_count, should.watching_count) << trace_;
    ASSERT_EQ(is.waiting_count, should.waiting_count) << trace_;
    ASSERT_EQ(is.delete_count, should.delete_count) << trace_;
    ASSERT_EQ(is.pause_count, should.pause_count) << trace_;
    ASSERT_EQ(is.pause_ms, should.pause_ms) << trace_;
    ASSERT_EQ(is.pause_left_ms, should.pause_left_ms) << trace_;
    ASSERT_EQ(is.reserve_count, should.reserve_count) << trace_;
    ASSERT_EQ(is.settings, should.settings) << trace_;
  }

  void log(const std::string& what, std::uint64_t number) {
    trace_ +=
        "\n  at " + std::to_string(world_.now_ms()) + ": " + what + " " + std::to_string(number);
  }

  Random random_;
  BrokerOptions options_;
  World world_;
  Model model_;
  std::vector<SessionId> sessions_;
  JobId last_job_ = 0;
  bool stepped_ = false;
  std::string trace_;
};

TEST(BrokerProperty, AgreesWithTheModel) { run_seeds<Trial>(300); }

}  // namespace
}  // namespace carillon::broker::testing
