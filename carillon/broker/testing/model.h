// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The broker as a user would describe it: maps and loops, no speed. The judge of the property
/// tests.
///
/// It knows nothing of wheels, of far jobs, of batches or of bodies that are not in memory: none of
/// them may show.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "carillon/base/time.h"
#include "carillon/broker/command.h"
#include "carillon/broker/reply.h"

namespace carillon::broker::testing {

class Model {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  /// What is expected of a reply.
  struct Expected {
    Expected(Answer what = Answer::kNotFound, JobId job_id = 0, std::uint64_t how_many = 0,
             std::string bytes = {})
        : answer(what), id(job_id), count(how_many), body(std::move(bytes)) {}

    Answer answer;
    JobId id;
    std::uint64_t count;
    std::string body;
    std::optional<JobStats> job;
    std::optional<TubeStats> tube;
    std::optional<JobView> info;
    std::optional<JobPage> page;
    TubeNames names;
  };

  struct Stored {
    JobState state = JobState::kReady;
    std::int64_t due_ms = 0;
    std::uint32_t priority = 0;
    std::int64_t delay_ms = 0;
    std::uint64_t bury_order = 0;
    JobHistory history;
    JobExtras extras;
  };
  struct ModelJob {
    JobId id = 0;
    std::string tube;
    std::string body;
    JobState state = JobState::kReady;
    std::uint32_t priority = 0;
    std::int64_t deadline_ms = 0;
    std::int64_t ttr_ms = 0;
    std::int64_t delay_ms = 0;
    std::int64_t created_ms = 0;
    std::uint64_t bury_order = 0;
    SessionId holder = 0;
    JobHistory history;
    JobExtras extras;
    Stored stored;

    [[nodiscard]] auto ready_key() const { return std::pair{priority, id}; }
  };

  explicit Model(WallTime now) : now_(now) { tubes_["default"].created = ++created_; }

  void open(SessionId session) { sessions_[session]; }

  void close(SessionId session) {
    for (auto& [id, job] : jobs_) {
      if (job.state == JobState::kReserved && job.holder == session) end_attempt(job);
    }
    sessions_.erase(session);
    drop_unused_tubes();
    serve();
  }

  void end_waiting(SessionId session) {
    if (sessions_.at(session).waiting_since == 0) return;
    sessions_.at(session).waiting_since = 0;
    answer(session, {Answer::kTimedOut});
  }

  /// Executes; the expected reply, if there is one now, is in answers().
  void run(SessionId session, const Command& command, JobId id_of_put) {
    execute(session, command, id_of_put);
    drop_unused_tubes();
    serve();
  }

  /// Moves to `to`, handling each moment of those on the way.
  void pass_until(WallTime to) {
    for (;;) {
      const std::int64_t next = next_event_ms();
      const std::int64_t next_tick = std::max(next, floor_ms(now_));
      if (next == kNever || next_tick > floor_ms(to)) break;
      now_ = std::max(now_, WallTime(std::chrono::milliseconds(next_tick)));
      handle_due();
    }
    now_ = to;
  }
  /// Moves to `to`, and then handles whatever has come due at once.
  void jump_to(WallTime to) {
    now_ = to;
    handle_due();
  }

  /// The calendar is set.
  void step_calendar(Span span) {
    calendar_ahead_ += span;
    handle_due();
  }

  /// The process is killed, all is durable, and started again.
  void restart(WallTime now) {
    sessions_.clear();
    now_ = now;
    for (auto& [id, job] : jobs_) {
      job.state = job.stored.state;
      job.deadline_ms = job.stored.due_ms;
      job.priority = job.stored.priority;
      job.delay_ms = job.stored.delay_ms;
      job.bury_order = job.stored.bury_order;
      job.history = job.stored.history;
      job.extras = job.stored.extras;
      job.holder = 0;
    }
    for (auto& [name, tube] : tubes_) {
      const auto [created, paused_until, pause] =
          std::tuple{tube.created, tube.paused_until_ms, tube.pause_ms};
      const TubeSettings settings = tube.settings;
      tube = {};
      tube.settings = settings;
      tube.created = created;
      tube.paused_until_ms = paused_until;
      tube.pause_ms = pause;
    }
    came_due_.clear();
    drop_unused_tubes();
    handle_due();
  }

  [[nodiscard]] std::map<SessionId, Expected>& answers() { return answers_; }
  [[nodiscard]] const std::map<JobId, ModelJob>& jobs() const { return jobs_; }
  [[nodiscard]] bool waits(SessionId session) const {
    return sessions_.at(session).waiting_since != 0;
  }

 private:
  struct ModelTube {
    std::uint64_t created = 0;
    std::int64_t paused_until_ms = 0;
    std::int64_t pause_ms = 0;
    std::uint64_t total = 0;
    std::uint64_t deletes = 0;
    std::uint64_t pauses = 0;
    std::uint64_t reserves = 0;
    std::uint64_t last_grant = 0;
    TubeSettings settings;
  };
  struct ModelSession {
    std::string used;
    std::set<std::string> watched;
    std::uint64_t waiting_since = 0;  // A count; 0: it does not wait.
    std::int64_t give_up_ms = kNever;
    bool with_view = false;
    Span ttr{};  // Of the reserve; 0: the job's.
  };

  [[nodiscard]] std::int64_t now_ms() const { return floor_ms(now_); }
  [[nodiscard]] std::int64_t after(Span span) const { return ceil_ms(saturating_add(now_, span)); }
  static std::int64_t whole_ms(Span span) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
  }
  [[nodiscard]] bool paused(const std::string& tube) const {
    return tubes_.at(tube).paused_until_ms > 0;
  }

  void answer(SessionId session, Expected expected) {
    answers_.insert_or_assign(session, std::move(expected));
  }
  ModelTube& tube_of(const std::string& name) {
    const auto [it, added] = tubes_.try_emplace(name);
    if (added) it->second.created = ++created_;
    return it->second;
  }
  ModelJob* find(JobId id) {
    const auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : &found->second;
  }
  ModelJob* held(JobId id, SessionId session) {
    ModelJob* job = find(id);
    return job && job->state == JobState::kReserved && job->holder == session ? job : nullptr;
  }

  void drop_unused_tubes() {
    std::erase_if(tubes_, [this](const auto& item) {
      const std::string& name = item.first;
      if (name == "default" || !item.second.settings.empty()) return false;
      for (const auto& [id, session] : sessions_) {
        if (session.used == name || session.watched.contains(name)) return false;
      }
      return std::none_of(jobs_.begin(), jobs_.end(),
                          [&](const auto& job) { return job.second.tube == name; });
    });
  }

  void write(ModelJob& job) {
    job.stored = {job.state,      job.state == JobState::kDelayed ? job.deadline_ms : 0,
                  job.priority,   job.delay_ms,
                  job.bury_order, job.history,
                  job.extras};
  }
  void give_back(ModelJob& job) {
    const bool stored_waits =
        job.stored.state == JobState::kBuried ||
        (job.stored.state == JobState::kDelayed && !job_left_delay_by_time(job));
    job.state = JobState::kReady;
    job.holder = 0;
    if (stored_waits) write(job);
  }
  [[nodiscard]] bool used_up(const ModelJob& job) const {
    return job.extras.max_attempts > 0 && job.history.reserves >= job.extras.max_attempts;
  }
  static std::int64_t backoff_ms(const ModelJob& job) {
    std::int64_t delay = job.extras.backoff_base_ms;
    const std::int64_t cap = std::max(delay, job.extras.backoff_cap_ms);
    for (std::uint32_t i = 1; i < job.history.reserves && delay < cap; ++i) delay *= 2;
    return std::min(delay, cap);
  }
  void bury(ModelJob& job) {
    job.state = JobState::kBuried;
    job.holder = 0;
    ++job.history.buries;
    job.bury_order = ++buries_;
    write(job);
  }
  void delay(ModelJob& job, std::int64_t due_ms) {
    job.state = JobState::kDelayed;
    job.holder = 0;
    job.deadline_ms = due_ms;
    job.extras.due_at_ms.reset();
    came_due_.erase(job.id);
  }
  void end_attempt(ModelJob& job) {
    if (job.extras.max_attempts == 0 && job.extras.backoff_base_ms == 0) return give_back(job);
    if (used_up(job)) return bury(job);
    job.state = JobState::kReady;
    job.holder = 0;
    if (backoff_ms(job) > 0) {
      delay(job, after(std::chrono::milliseconds(backoff_ms(job))));
    }
    write(job);
  }
  [[nodiscard]] WallTime calendar() const { return now_ + calendar_ahead_; }
  [[nodiscard]] bool dated(const ModelJob& job) const {
    return job.state == JobState::kDelayed && job.extras.due_at_ms;
  }
  [[nodiscard]] std::int64_t on_timeline(std::int64_t due_at_ms) const {
    return ceil_ms(WallTime(std::chrono::milliseconds(due_at_ms)) - calendar_ahead_);
  }
  [[nodiscard]] bool has_come(std::int64_t due_at_ms) const {
    return calendar() >= WallTime(std::chrono::milliseconds(due_at_ms));
  }
  /// When a job that is delayed or reserved leaves that state.
  [[nodiscard]] std::int64_t deadline(const ModelJob& job) const {
    return dated(job) ? on_timeline(*job.extras.due_at_ms) : job.deadline_ms;
  }
  [[nodiscard]] std::uint64_t count_in(const std::string& tube) const {
    return static_cast<std::uint64_t>(std::count_if(
        jobs_.begin(), jobs_.end(), [&](const auto& job) { return job.second.tube == tube; }));
  }
  ModelJob* find_key(const std::string& tube, const std::string& key) {
    for (auto& [id, job] : jobs_) {
      if (!key.empty() && job.tube == tube && job.extras.key == key) return &job;
    }
    return nullptr;
  }
  // Whether the stored due time was reached while the job was delayed.
  [[nodiscard]] bool job_left_delay_by_time(const ModelJob& job) const {
    return came_due_.contains(job.id);
  }

  ModelJob* first_ready(const std::string& tube) {
    ModelJob* best = nullptr;
    for (auto& [id, job] : jobs_) {
      if (job.tube == tube && job.state == JobState::kReady &&
          (!best || job.ready_key() < best->ready_key())) {
        best = &job;
      }
    }
    return best;
  }
  ModelJob* best_for(const ModelSession& session, bool in_turn = false) {
    const auto key = [&](const ModelJob& job) {
      return std::tuple(job.priority, in_turn ? tubes_.at(job.tube).last_grant : 0, job.id);
    };
    ModelJob* best = nullptr;
    for (const std::string& tube : session.watched) {
      if (paused(tube)) continue;
      ModelJob* job = first_ready(tube);
      if (job && (!best || key(*job) < key(*best))) best = job;
    }
    return best;
  }
  ModelJob* first_buried(const std::string& tube) {
    ModelJob* best = nullptr;
    for (auto& [id, job] : jobs_) {
      if (job.tube == tube && job.state == JobState::kBuried &&
          (!best || job.bury_order < best->bury_order)) {
        best = &job;
      }
    }
    return best;
  }
  ModelJob* first_delayed(const std::string& tube) {
    ModelJob* best = nullptr;
    for (auto& [id, job] : jobs_) {
      if (job.tube == tube && job.state == JobState::kDelayed &&
          (!best || std::pair{deadline(job), id} < std::pair{deadline(*best), best->id})) {
        best = &job;
      }
    }
    return best;
  }

  [[nodiscard]] std::int64_t margin_ms(SessionId session) const {
    std::int64_t soonest = kNever;
    for (const auto& [id, job] : jobs_) {
      if (job.state == JobState::kReserved && job.holder == session) {
        soonest = std::min(soonest, job.deadline_ms - 1'001);
      }
    }
    return soonest;
  }

  void grant(SessionId session, ModelJob& job) {
    job.state = JobState::kReserved;
    job.holder = session;
    const Span ttr = sessions_.at(session).ttr;
    job.deadline_ms = after(ttr > Span::zero() ? ttr : std::chrono::milliseconds(job.ttr_ms));
    ++job.history.reserves;
    ++tubes_.at(job.tube).reserves;
    tubes_.at(job.tube).last_grant = ++grants_;
    Expected expected{Answer::kReserved, job.id, 0, job.body};
    if (sessions_.at(session).with_view) expected.info = info(job);
    answer(session, expected);
  }

  void serve() {
    for (;;) {
      ModelJob* best = nullptr;
      for (const auto& [id, session] : sessions_) {
        if (session.waiting_since == 0) continue;
        ModelJob* job = best_for(session);
        if (job && (!best || job->ready_key() < best->ready_key())) best = job;
      }
      if (!best) return;
      SessionId first = 0;
      for (const auto& [id, session] : sessions_) {
        if (session.waiting_since == 0 || !session.watched.contains(best->tube)) continue;
        if (first == 0 || session.waiting_since < sessions_.at(first).waiting_since) first = id;
      }
      sessions_.at(first).waiting_since = 0;
      grant(first, *best);
    }
  }

  [[nodiscard]] std::int64_t next_event_ms() const {
    std::int64_t next = kNever;
    for (const auto& [id, job] : jobs_) {
      if (job.state == JobState::kDelayed || job.state == JobState::kReserved) {
        next = std::min(next, deadline(job));
      }
    }
    for (const auto& [name, tube] : tubes_) {
      if (tube.paused_until_ms > 0) next = std::min(next, tube.paused_until_ms);
    }
    for (const auto& [id, session] : sessions_) {
      if (session.waiting_since == 0) continue;
      next = std::min({next, session.give_up_ms, margin_ms(id)});
    }
    return next;
  }

  void handle_due() {
    for (auto& [id, job] : jobs_) {
      if (dated(job) ? !has_come(*job.extras.due_at_ms) : job.deadline_ms > now_ms()) continue;
      if (job.state == JobState::kDelayed) {
        job.state = JobState::kReady;
        came_due_.insert(id);
      } else if (job.state == JobState::kReserved) {
        ++job.history.timeouts;
        end_attempt(job);
      }
    }
    for (auto& [name, tube] : tubes_) {
      if (tube.paused_until_ms > 0 && tube.paused_until_ms <= now_ms()) {
        tube.paused_until_ms = tube.pause_ms = 0;
      }
    }
    serve();
    for (auto& [id, session] : sessions_) {
      if (session.waiting_since == 0) continue;
      const bool margin = margin_ms(id) <= now_ms();
      if (!margin && session.give_up_ms > now_ms()) continue;
      session.waiting_since = 0;
      answer(id, {margin ? Answer::kDeadlineSoon : Answer::kTimedOut});
    }
  }

  void execute(SessionId session, const Command& c, JobId id_of_put);
  void execute_on_job(SessionId session, const Command& c);
  void execute_on_tube(SessionId session, const Command& c);
  void put(SessionId session, const Command& c, JobId id_of_put);
  void change(SessionId session, const Command& c, ModelJob& job);
  void release(SessionId session, const Command& c, ModelJob& job);
  void list(SessionId session, const Command& c);
  [[nodiscard]] JobView info(const ModelJob& job) const;
  [[nodiscard]] JobStats stats(const ModelJob& job) const;
  [[nodiscard]] TubeStats stats(const std::string& name) const;

  WallTime now_;
  Span calendar_ahead_{};
  std::map<JobId, ModelJob> jobs_;
  std::map<std::string, ModelTube> tubes_;
  std::map<SessionId, ModelSession> sessions_;
  std::map<SessionId, Expected> answers_;
  // Jobs whose stored due time has passed while they were delayed.
  std::set<JobId> came_due_;
  std::uint64_t created_ = 0;
  std::uint64_t waits_ = 0;
  std::uint64_t grants_ = 0;
  std::uint64_t buries_ = 0;
};

}  // namespace carillon::broker::testing
