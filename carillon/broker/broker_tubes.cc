// SPDX-License-Identifier: Apache-2.0
// Sessions and tubes: who refers to what, and how long a tube lives.

#include <algorithm>
#include <memory>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kNil;

void Broker::State::open_session(SessionId id) {
  CARILLON_CHECK(id != 0, "session 0");
  const std::uint32_t index = sessions_.make();
  Session& s = sessions_[index];
  s.index = index;
  s.id = id;
  const bool added = session_by_id_.emplace(id, index).second;
  CARILLON_CHECK(added, "session ", id, " is open already");
}

void Broker::State::close_session(SessionId id, WallTime now) {
  enter(now);
  Session& s = session(id);
  cancel_blocked(s);
  while (s.reserved.count > 0) end_attempt(jobs_[s.reserved.first]);
  std::erase_if(saved_, [id](const SavedReservation& saved) { return saved.session == id; });
  stop_using(s);
  while (!s.watches.empty()) stop_watching(s, s.watches.size() - 1);
  session_by_id_.erase(id);
  sessions_.destroy(s.index);
  settle_waiters();
}

internal::Session& Broker::State::session(SessionId id) {
  const auto found = session_by_id_.find(id);
  CARILLON_CHECK(found != session_by_id_.end(), "session ", id, " is not open");
  return sessions_[found->second];
}

internal::Tube* Broker::State::find_tube(std::string_view name) {
  const auto found = tube_by_name_.find(name);
  return found == tube_by_name_.end() ? nullptr : &tubes_[found->second];
}

/// Null if there are too many tubes.
internal::Tube* Broker::State::find_or_make_tube(std::string_view name) {
  if (Tube* tube = find_tube(name)) return tube;
  if (tubes_.size() >= options_.max_tubes) return nullptr;
  return &make_tube(name);
}

internal::Tube& Broker::State::make_tube(std::string_view name) {
  const std::uint32_t index = tubes_.make();
  Tube& tube = tubes_[index];
  tube.name = name;
  tube.index = index;
  tube.pause.index = index;
  tube.prev = last_tube_;
  (last_tube_ == kNil ? first_tube_ : tubes_[last_tube_].next) = index;
  last_tube_ = index;
  tube_by_name_.emplace(tube.name, index);
  tube.number = unused_number();
  tube_by_number_.emplace(tube.number, index);
  return tube;
}

TubeNumber Broker::State::unused_number() {
  // After 2^32 tubes numbers come round again: those of tubes long gone.
  while (next_tube_number_ == 0 || tube_by_number_.contains(next_tube_number_)) {
    ++next_tube_number_;
  }
  return next_tube_number_++;
}

/// A tube lives while it holds a job, has settings, or a session refers to it.
void Broker::State::remove_if_unused(Tube& tube) {
  if (tube.using_count + tube.watching_count > 0 || tube.job_count() > 0) return;
  if (tube.pins > 0 || tube.settings) return;
  if (tube.far && !tube.far->questions.empty()) return;
  if (is_default(tube)) return;
  // During a recovery the tubes are not complete; finish_recovery() looks again.
  if (!available_) return;
  if (tube.stored) {
    Mutation& mutation = append(Mutation::Kind::kEraseTube, Place::kNear);
    mutation.detail = static_cast<std::uint32_t>(filling_->tubes.size());
    TubeRecord& record = filling_->tubes.emplace_back();
    record.number = tube.number;
    record.name = tube.name;
  }
  forget_tube(tube);
}

void Broker::State::forget_tube(Tube& tube) {
  (tube.prev == kNil ? first_tube_ : tubes_[tube.prev].next) = tube.next;
  (tube.next == kNil ? last_tube_ : tubes_[tube.next].prev) = tube.prev;
  tube_by_name_.erase(tube.name);
  tube_by_number_.erase(tube.number);
  tubes_.destroy(tube.index);
}

void Broker::State::use(const Command& command, Session& s) {
  // An empty name: the session uses a tube of another partition.
  Tube* tube = command.tube.empty() ? nullptr : find_or_make_tube(command.tube);
  if (tube == nullptr && !command.tube.empty()) {
    return refuse(command.ticket, Shortage::kTubes);
  }
  if (tube == nullptr || tube->index != s.used) {
    if (tube != nullptr) ++tube->using_count;
    stop_using(s);
    if (tube != nullptr) s.used = tube->index;
  }
  reply(command.ticket, Answer::kUsing, 0);
}

void Broker::State::stop_using(Session& s) {
  if (s.used == kNil) return;
  Tube& tube = tubes_[s.used];
  s.used = kNil;
  --tube.using_count;
  remove_if_unused(tube);
}

void Broker::State::watch(const Command& command, Session& s) {
  Tube* tube = find_or_make_tube(command.tube);
  if (tube == nullptr) return refuse(command.ticket, Shortage::kTubes);
  const bool watched = std::any_of(s.watches.begin(), s.watches.end(), [&](std::uint32_t w) {
    return watches_[w].tube == tube->index;
  });
  if (!watched) {
    const std::uint32_t index = watches_.make();
    watches_[index].session = s.index;
    watches_[index].tube = tube->index;
    s.watches.push_back(index);
    ++tube->watching_count;
  }
  reply_count(command.ticket, Answer::kWatching, s.watches.size(), 0);
}

void Broker::State::ignore(const Command& command, Session& s) {
  for (std::size_t i = 0; i < s.watches.size(); ++i) {
    if (tubes_[watches_[s.watches[i]].tube].name == command.tube) {
      stop_watching(s, i);
      break;
    }
  }
  reply_count(command.ticket, Answer::kWatching, s.watches.size(), 0);
}

/// Pre: the session does not wait.
void Broker::State::stop_watching(Session& s, std::size_t position) {
  const std::uint32_t index = s.watches[position];
  Tube& tube = tubes_[watches_[index].tube];
  s.watches.erase(s.watches.begin() + static_cast<std::ptrdiff_t>(position));
  watches_.destroy(index);
  --tube.watching_count;
  remove_if_unused(tube);
}

void Broker::State::pause_tube(const Command& command) {
  Tube* tube = find_tube(command.tube);
  if (tube == nullptr) return reply(command.ticket, Answer::kNotFound, needs_all());
  ++tube->pause_count;
  if (command.delay > Span::zero()) {
    tube->paused = true;
    tube->pause_ms = std::chrono::duration_cast<std::chrono::milliseconds>(command.delay).count();
    tube->paused_until_ms = due_after(command.delay);
    wheel_.reschedule(tube->pause, tick(tube->paused_until_ms));
  } else {
    unpause(*tube);
  }
  write_tube(*tube);
  reply(command.ticket, Answer::kPaused, needs_all());
}

void Broker::State::set_tube(const Command& command) {
  Tube* tube = find_or_make_tube(command.tube);
  if (tube == nullptr) return refuse(command.ticket, Shortage::kTubes);
  const bool any = command.options && !command.options->settings.empty();
  tube->settings = any ? std::make_unique<TubeSettings>(command.options->settings) : nullptr;
  write_tube(*tube);
  remove_if_unused(*tube);
  reply(command.ticket, Answer::kTubeSet, needs_all());
}

void Broker::State::unpause(Tube& tube) {
  wheel_.cancel(tube.pause);
  tube.paused = false;
  tube.pause_ms = 0;
  tube.paused_until_ms = 0;
  note_ready(tube);
}

}  // namespace carillon::broker
