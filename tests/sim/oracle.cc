// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/oracle.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

namespace carillon::sim {

using Presence = KnownJob::Presence;

std::string body_of(OpNumber op) {
  return fmt::format("{} {}", op, std::string(op * 37 % 90, static_cast<char>('a' + op % 26)));
}

KnownJob& Oracle::put_sent(OpNumber op, Span now, Span delay, Span ttr) {
  KnownJob& job = jobs_[op];
  job.put_sent = now;
  job.earliest = now + delay;
  job.ttr = ttr;
  return job;
}

void Oracle::put_acked(OpNumber op, broker::JobId id) {
  KnownJob& job = jobs_.at(op);
  if (job.id != 0 && job.id != id) throw Violation{fmt::format("op {} has two ids", op)};
  const auto [known, added] = op_of_.try_emplace(id, op);
  if (!added && known->second != op) {
    throw Violation{fmt::format("id {} was given to op {} and to op {}", id, known->second, op)};
  }
  job.id = id;
  if (job.presence == Presence::kMaybe) job.presence = Presence::kPresent;
  ++puts_acked_;
}

KnownJob* Oracle::by_id(broker::JobId id) {
  const auto found = op_of_.find(id);
  return found == op_of_.end() ? nullptr : &jobs_.at(found->second);
}

KnownJob& Oracle::reserved(std::uint64_t session, broker::JobId id, std::string_view body, Span now,
                           Span grant_from) {
  OpNumber op = 0;
  std::from_chars(body.data(), body.data() + body.size(), op);
  const auto found = jobs_.find(op);
  if (found == jobs_.end() || body != body_of(op)) {
    throw Violation{fmt::format("job {} came with a body nobody put: {}", id, body)};
  }
  KnownJob& job = found->second;
  if (job.id == 0) {
    job.id = id;
    op_of_[id] = op;
  }
  if (job.id != id) throw Violation{fmt::format("op {} came as job {} and {}", op, job.id, id)};
  if (job.presence == Presence::kGone) {
    throw Violation{fmt::format("job {} was delivered after its delete was acknowledged", id)};
  }
  if (now < job.earliest) {
    throw Violation{
        fmt::format("job {} was delivered {} ns early", id, (job.earliest - now).count())};
  }
  if (job.buried) throw Violation{fmt::format("job {} is buried and was delivered", id)};
  if (job.holder != 0 && job.holder != session && now < job.held_until) {
    throw Violation{fmt::format("job {} is held by session {} and was delivered to session {}", id,
                                job.holder, session)};
  }
  job.holder = session;
  job.held_until = grant_from + job.ttr;
  job.delivered = true;
  job.held_since = ++deliveries_;
  return job;
}

void Oracle::delete_sent(broker::JobId id) {
  if (KnownJob* job = by_id(id); job != nullptr && job->presence != Presence::kGone) {
    job->presence = Presence::kGoing;
    job->holder = 0;
  }
}

void Oracle::deleted(broker::JobId id) {
  if (KnownJob* job = by_id(id)) job->presence = Presence::kGone;
}

void Oracle::refused(std::uint64_t session, broker::JobId id, Span now, std::uint64_t asked_at,
                     std::string_view verb) {
  const KnownJob* job = by_id(id);
  if (job != nullptr && job->presence == Presence::kPresent && job->holder == session &&
      now < job->held_until && asked_at >= job->held_since) {
    throw Violation{fmt::format("{} of job {} was refused to its holder {}", verb, id, session)};
  }
}

void Oracle::let_go(broker::JobId id) {
  if (KnownJob* job = by_id(id)) job->holder = 0;
}

void Oracle::released(broker::JobId id, Span sent, Span delay, std::uint64_t by_hand) {
  if (by_hand != by_hand_) return;
  if (KnownJob* job = by_id(id)) job->earliest = sent + delay;
}

void Oracle::buried(broker::JobId id, std::uint64_t by_hand) {
  if (by_hand != by_hand_) return;
  if (KnownJob* job = by_id(id)) job->buried = true;
}

void Oracle::touched(std::uint64_t session, broker::JobId id, Span sent) {
  KnownJob* job = by_id(id);
  if (job != nullptr && job->holder == session)
    job->held_until = std::max(job->held_until, sent + job->ttr);
}

void Oracle::kicked_any(Span now) {
  ++by_hand_;
  for (auto& [op, job] : jobs_) {
    job.buried = false;
    job.earliest = std::min(job.earliest, now);
  }
}

void Oracle::kicked(broker::JobId id, Span now) {
  ++by_hand_;
  if (KnownJob* job = by_id(id)) {
    job->buried = false;
    job->earliest = std::min(job->earliest, now);
  }
}

void Oracle::session_closed(std::uint64_t session) {
  for (auto& [op, job] : jobs_) {
    if (job.holder == session) job.holder = 0;
  }
}

void Oracle::crashed() {
  for (auto& [op, job] : jobs_) job.holder = 0;
}

void Oracle::judge_end() const {
  for (const auto& [op, job] : jobs_) {
    if (job.presence == Presence::kPresent) {
      throw Violation{fmt::format("job {} (op {}) was acknowledged and is lost", job.id, op)};
    }
  }
}

}  // namespace carillon::sim
