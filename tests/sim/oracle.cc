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

void Oracle::put_acked(OpNumber op, broker::JobId id, Span now) {
  KnownJob& job = jobs_.at(op);
  if (job.id != 0 && job.id != id) throw Violation{fmt::format("op {} has two ids", op)};
  const auto [known, added] = op_of_.try_emplace(id, op);
  if (!added && known->second != op) {
    throw Violation{fmt::format("id {} was given to op {} and to op {}", id, known->second, op)};
  }
  job.id = id;
  if (job.presence == Presence::kMaybe) {
    job.presence = job.may_be_gone ? Presence::kGoing : Presence::kPresent;
    job.acked_at = now;
  }
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
  if (job.date && !job.date->has_come) {
    throw Violation{
        fmt::format("job {} was delivered before the calendar read {}", id, job.date->due_at_ms)};
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

void Oracle::deleted(broker::JobId id, Span now) {
  KnownJob* job = by_id(id);
  if (job == nullptr || job->presence == Presence::kGone) return;
  job->presence = Presence::kGone;
  job->gone_at = now;
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

void Oracle::released(broker::JobId id, Span sent, Span delay, std::uint64_t by_hand, Span now) {
  if (by_hand != by_hand_) return;
  if (KnownJob* job = by_id(id)) {
    job->earliest = sent + delay;
    job->earliest_since = now;
    // It waits for a span from now on.
    if (delay > Span::zero()) job->date.reset();
  }
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
    job.date.reset();
    job.earliest = std::min(job.earliest, now);
  }
}

void Oracle::kicked(broker::JobId id, Span now) {
  ++by_hand_;
  if (KnownJob* job = by_id(id)) {
    job->buried = false;
    job->date.reset();
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

void Oracle::put_has(OpNumber op, std::string tube, std::string key,
                     std::shared_ptr<const DateWatch> date) {
  KnownJob& job = jobs_.at(op);
  job.tube = std::move(tube);
  job.key = std::move(key);
  job.date = std::move(date);
}

void Oracle::put_refused(OpNumber op, Span now) {
  KnownJob& job = jobs_.at(op);
  if (job.id != 0) throw Violation{fmt::format("op {} was refused, and is job {}", op, job.id)};
  job.presence = Presence::kGone;
  job.gone_at = now;
}

void Oracle::key_taken(OpNumber op, std::uint64_t replaced, Span now) {
  const KnownJob& taker = jobs_.at(op);
  if (taker.key.empty()) return;
  std::uint64_t present = 0;
  for (auto& [other, job] : jobs_) {
    // Ids ascend: whoever had the key before has a smaller one.
    if (job.id == 0 || job.id >= taker.id || job.key != taker.key || job.tube != taker.tube)
      continue;
    if (job.presence == Presence::kPresent && ++present > replaced) {
      throw Violation{
          fmt::format("jobs {} and {} both have the key {}", job.id, taker.id, job.key)};
    }
    if (job.presence == Presence::kGone) continue;
    job.presence = Presence::kGone;
    job.gone_at = now;
    job.holder = 0;
  }
}

void Oracle::may_go(const std::string& tube, const std::string& key) {
  for (auto& [op, job] : jobs_) {
    if (job.tube != tube || (!key.empty() && job.key != key)) continue;
    if (job.presence == Presence::kPresent) job.presence = Presence::kGoing;
    if (job.presence == Presence::kMaybe) job.may_be_gone = true;
  }
}

void Oracle::change_sent(broker::JobId id, Span earliest) {
  ++by_hand_;
  if (KnownJob* job = by_id(id)) {
    job->buried = false;
    job->date.reset();
    job->earliest = std::min(job->earliest, earliest);
  }
}

void Oracle::changed(broker::JobId id, Span earliest, std::shared_ptr<const DateWatch> date,
                     std::uint64_t by_hand, Span now) {
  KnownJob* job = by_id(id);
  if (job == nullptr) return;
  job->buried = false;
  if (by_hand == by_hand_) {
    job->earliest = earliest;
    job->earliest_since = now;
    job->date = std::move(date);
  } else {
    job->earliest = std::min(job->earliest, earliest);
    job->date.reset();
  }
  // A release that was asked for before and is answered later was carried out before this.
  ++by_hand_;
}

std::shared_ptr<const DateWatch> Oracle::watch(std::int64_t due_at_ms) {
  auto date = std::make_shared<DateWatch>(DateWatch{due_at_ms, due_at_ms <= calendar_ms_});
  watches_.push_back(date);
  return date;
}

void Oracle::calendar_reads(std::int64_t calendar_ms) {
  calendar_ms_ = calendar_ms;
  std::erase_if(watches_, [calendar_ms](const std::weak_ptr<DateWatch>& watched) {
    const std::shared_ptr<DateWatch> date = watched.lock();
    if (!date) return true;
    if (date->due_at_ms > calendar_ms) return false;
    date->has_come = true;
    return true;
  });
}

void Oracle::shown(broker::JobId id, Span sent) {
  const KnownJob* job = by_id(id);
  if (job != nullptr && job->presence == Presence::kGone && job->gone_at < sent) {
    throw Violation{fmt::format("job {} was shown after it was gone", id)};
  }
}

void Oracle::listed_delayed(const std::string& tube, const std::vector<broker::JobId>& ids,
                            Span sent, Span now, std::uint64_t by_hand) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    shown(ids[i], sent);
    for (std::size_t j = 0; j < i; ++j) {
      if (ids[i] == ids[j]) throw Violation{fmt::format("job {} is listed twice", ids[i])};
    }
  }
  if (by_hand != by_hand_) return;
  for (const auto& [op, job] : jobs_) {
    if (job.tube != tube || job.presence != Presence::kPresent || job.acked_at >= sent) continue;
    if (job.earliest <= now || job.buried || job.earliest_since >= sent) continue;
    if (std::find(ids.begin(), ids.end(), job.id) == ids.end()) {
      throw Violation{fmt::format("job {} is delayed and not on the list of '{}'", job.id, tube)};
    }
  }
}

void Oracle::judge_end() const {
  for (const auto& [op, job] : jobs_) {
    if (job.presence == Presence::kPresent) {
      throw Violation{fmt::format("job {} (op {}) was acknowledged and is lost", job.id, op)};
    }
  }
}

}  // namespace carillon::sim
