// SPDX-License-Identifier: Apache-2.0
#include "bench/server/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "bench/common/interrupt.h"
#include "bench/server/dialect.h"
#include "bench/server/peers.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

constexpr std::size_t kSequenceDigits = 12;
// What one worker claims at once, where claims are of several: as many as come up in a few ms.
constexpr int kClaim = 64;

// The common part: what is sent when, and what is acknowledged.
class PacedPutter : public Conversation {
 public:
  PacedPutter(Schedule& schedule, std::uint64_t first)
      : schedule_(schedule), next_(first), unanswered_(first) {}

  void start(std::string& out) override { static_cast<void>(out); }

  std::size_t consume(std::string_view in, Instant read_at, std::string& out) override {
    static_cast<void>(out);
    std::size_t taken = 0;
    std::uint64_t acknowledged = 0;
    for (std::size_t n = 0; (n = cut(in.substr(taken), acknowledged)) > 0;) taken += n;
    for (; acknowledged > 0; --acknowledged, unanswered_ += kSchedulePutters) {
      schedule_.on_acknowledged(unanswered_, read_at);
    }
    return taken;
  }

  [[nodiscard]] bool done() const override { return unanswered_ >= schedule_.jobs(); }

  [[nodiscard]] Instant speaks_at() const override {
    return next_ < schedule_.jobs() ? schedule_.put_at(next_) : Instant::max();
  }

 protected:
  virtual std::size_t cut(std::string_view in, std::uint64_t& acknowledged) = 0;

  // The body of the next job, which is sent now.
  std::string next_body(Instant now) {
    static const Bodies kBodies(kBodyBytes);
    std::string body(kBodies.at(next_));
    stamp_body(body, next_);
    schedule_.on_sent(next_, now);
    next_ += kSchedulePutters;
    return body;
  }
  [[nodiscard]] bool is_next_due(Instant now) const {
    return next_ < schedule_.jobs() && schedule_.put_at(next_) <= now;
  }
  [[nodiscard]] bool all_answered() const { return unanswered_ == next_; }

  Schedule& schedule_;
  std::uint64_t next_;

 private:
  std::uint64_t unanswered_;
};

class CommandPutter final : public PacedPutter {
 public:
  using PacedPutter::PacedPutter;

  void speak(Instant now, std::string& out) override {
    while (is_next_due(now)) append_put(out, schedule_.delay_s(), next_body(now));
  }

 protected:
  std::size_t cut(std::string_view in, std::uint64_t& acknowledged) override {
    Reply reply;
    const std::size_t taken = cut_reply(in, reply);
    if (taken == 0) return 0;
    if (reply.kind != ReplyKind::kInserted) refuse_reply("put", reply);
    ++acknowledged;
    return taken;
  }
};

class DialectPutter final : public PacedPutter {
 public:
  DialectPutter(Schedule& schedule, std::uint64_t first, std::unique_ptr<Dialect> dialect)
      : PacedPutter(schedule, first), dialect_(std::move(dialect)) {}

  void greet(int fd) override { dialect_->greet(fd); }

  [[nodiscard]] Instant speaks_at() const override {
    return dialect_->groups() && !all_answered() ? Instant::max() : PacedPutter::speaks_at();
  }

  void speak(Instant now, std::string& out) override {
    constexpr std::size_t kMostJobs = 1'000;
    std::vector<JobToPut> jobs;
    bodies_.clear();
    while (is_next_due(now) && bodies_.size() < kMostJobs) {
      const std::uint64_t id = next_;
      bodies_.push_back(next_body(now));
      jobs.push_back({id, {}});
    }
    for (std::size_t i = 0; i < jobs.size(); ++i) jobs[i].body = bodies_[i];
    dialect_->append_put(out, {schedule_.delay(), SystemCalendar().now() + schedule_.delay()},
                         jobs);
  }

 protected:
  std::size_t cut(std::string_view in, std::uint64_t& acknowledged) override {
    return dialect_->cut_put(in, acknowledged);
  }

 private:
  std::unique_ptr<Dialect> dialect_;
  std::vector<std::string> bodies_;
};

}  // namespace

void stamp_body(std::string& body, std::uint64_t sequence) {
  body.replace(0, kSequenceDigits, fmt::format("{:0{}}", sequence, kSequenceDigits));
}

std::uint64_t sequence_of(std::string_view body, std::uint64_t jobs) {
  std::uint64_t sequence = jobs;
  if (body.size() == kBodyBytes) {
    const std::string_view digits = body.substr(0, kSequenceDigits);
    std::from_chars(digits.data(), digits.data() + digits.size(), sequence);
  }
  if (sequence >= jobs) throw BenchError("a body came back that was never put");
  return sequence;
}

Schedule::Schedule(std::uint64_t jobs, Span spread, std::uint32_t delay_s)
    : jobs_(jobs),
      interval_(spread / static_cast<Span::rep>(jobs)),
      delay_s_(delay_s),
      sent_at_(jobs),
      acknowledged_at_(jobs),
      reserved_at_(jobs) {}

void Schedule::on_reserved(std::string_view body, Instant read_at) {
  const std::uint64_t sequence = sequence_of(body, jobs_);
  if (reserved_at_[sequence] != Instant{}) ++duplicates_;
  reserved_at_[sequence] = read_at;
}

std::vector<std::int64_t> Schedule::lateness_from(const std::vector<Instant>& since) const {
  std::vector<std::int64_t> lateness(jobs_);
  for (std::size_t i = 0; i < jobs_; ++i) {
    lateness[i] = (reserved_at_[i] - since[i] - delay()).count();
  }
  std::sort(lateness.begin(), lateness.end());
  return lateness;
}

Instant Schedule::first_due() const {
  return *std::min_element(sent_at_.begin(), sent_at_.end()) + delay();
}

Instant Schedule::last_reserved() const {
  return *std::max_element(reserved_at_.begin(), reserved_at_.end());
}

std::unique_ptr<Conversation> make_paced_putter(std::string_view peer, Schedule& schedule,
                                                std::uint64_t first) {
  if (auto dialect = make_dialect(peer)) {
    return std::make_unique<DialectPutter>(schedule, first, std::move(dialect));
  }
  return std::make_unique<CommandPutter>(schedule, first);
}

LoadOutcome run_schedule(Schedule& schedule, int workers, std::string_view peer,
                         const ServerProcess& server) {
  WorkState state{schedule.jobs(), &schedule};
  std::vector<std::unique_ptr<Conversation>> conversations;
  const int depth = make_dialect(peer) == nullptr ? 1 : kClaim;
  Engine engine(server.address());
  for (int i = 0; i < kSchedulePutters; ++i) {
    conversations.push_back(make_paced_putter(peer, schedule, static_cast<std::uint64_t>(i)));
  }
  for (int i = 0; i < workers; ++i) conversations.push_back(make_worker(peer, depth, state));
  for (const auto& conversation : conversations) engine.add(*conversation);
  schedule.begin_at(SteadyClock().now() + std::chrono::milliseconds(20));
  LoadOutcome outcome = run_timed(engine, server);
  outcome.jobs = schedule.jobs();
  return outcome;
}

}  // namespace carillon::bench
