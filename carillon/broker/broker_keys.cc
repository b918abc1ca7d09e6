// SPDX-License-Identifier: Apache-2.0
// Keys: which job of a tube has one, in memory or in the store.
//
//     near                          extras_
//     far, put or moved in the      far_keys_: such a job is made near, which nobody can tell
//       batch being filled
//     far                           the store is asked, once a key at a time; all commands that
//                                   name the key queue behind the answer and are executed in order
//
// While a lookup is under way its answer may go out of date: the job comes near or is erased by
// another way. Then the lookup is marked known, and memory has the truth, since no other job can
// have got the key meanwhile.

#include <algorithm>
#include <string>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/internal/state.h"

namespace carillon::broker {

using internal::kNil;

/// The job with `key` if memory, or the batch being filled, has it.
internal::Job* Broker::State::near_by_key(Tube& tube, std::string_view key) {
  const std::uint32_t index = extras_.find(tube.index, key);
  if (index != kNil) return &jobs_[index];
  if (far_keys_.empty()) return nullptr;
  const auto put = far_keys_.find(TubeKey(tube.number, key));
  if (put == far_keys_.end()) return nullptr;
  const JobId id = put->second;
  far_keys_.erase(put);
  // It may have been made near, and erased then.
  return erased_from_afar_.contains(id) ? nullptr : find_or_near(id);
}

/// Whether a far job may have `key`. Pre: memory does not know of one.
bool Broker::State::must_look_up(const Tube& tube, std::string_view key) const {
  if (tube.far_count() == 0) return false;
  return gone_keys_.empty() || !gone_keys_.contains(TubeKey(tube.number, key));
}

/// Sets the id of a command that names its job by key. False: the command is answered, or waits.
bool Broker::State::find_by_key(Command& command, Session& s) {
  const std::string& key = command.options->key;
  Tube* tube = find_tube(command.tube);
  if (tube != nullptr) {
    if (lookups_.contains(TubeKey(tube->number, key))) {
      look_up(*tube, key, std::move(command), s);
      return false;
    }
    if (const Job* job = near_by_key(*tube, key)) {
      command.id = job->id;
      return true;
    }
    if (must_look_up(*tube, key)) {
      look_up(*tube, key, std::move(command), s);
      return false;
    }
  }
  reply(command.ticket, Answer::kNotFound, needs_all());
  return false;
}

void Broker::State::put_with_key(Command& command, Session& s) {
  const std::string& key = command.extras->key;
  Tube* tube = find_tube(command.tube);
  if (tube != nullptr) {
    if (lookups_.contains(TubeKey(tube->number, key))) {
      return look_up(*tube, key, std::move(command), s);
    }
    if (Job* job = near_by_key(*tube, key)) return put_on_near(command, *job);
    if (must_look_up(*tube, key)) return look_up(*tube, key, std::move(command), s);
  }
  if (const auto refused = refusal(command, tube)) return refuse(command.ticket, *refused);
  insert(command, 0);
}

/// A put whose key `job` has.
void Broker::State::put_on_near(Command& command, Job& job) {
  if (command.on_conflict == OnConflict::kReturn) {
    return reply_id(command.ticket, Answer::kExists, job.id, needs_all());
  }
  if (command.on_conflict == OnConflict::kRefuse || job.state == JobState::kReserved) {
    return reply_id(command.ticket, Answer::kConflict, job.id, needs_all());
  }
  // One goes, one comes: no limit is passed by that.
  Tube& tube = tubes_[job.tube];
  ++tube.pins;
  erase(job);
  insert(command, 1);
  --tube.pins;
}

/// A put whose key the far job at `place` has.
void Broker::State::put_on_far(Command& command, Tube& tube, const FarPlace& place) {
  if (command.on_conflict != OnConflict::kReplace) {
    const bool returns = command.on_conflict == OnConflict::kReturn;
    return reply_id(command.ticket, returns ? Answer::kExists : Answer::kConflict, place.id,
                    needs_all());
  }
  // The tube has one job more and one less; memory perhaps only one more.
  const auto refused = refusal(command, &tube);
  if (refused && refused->answer != Answer::kTubeFull) return refuse(command.ticket, *refused);
  JobRecord gone;
  gone.id = place.id;
  gone.due_ms = place.due_ms;
  gone.extras = command.extras;
  ++tube.pins;
  erase_far(tube, gone, place.moved);
  insert(command, 1);
  --tube.pins;
}

/// Lets the command wait for whoever has `key` in the store.
void Broker::State::look_up(Tube& tube, std::string_view key, Command&& command, Session& s) {
  s.blocked = Blocked::kKey;
  s.blocked_tube = tube.index;
  s.ticket = command.ticket;
  const auto [lookup, asked] = lookups_.try_emplace(TubeKey(tube.number, key));
  KeyWaiter& waiter = lookup->second.waiters.emplace_back();
  waiter.session = s.index;
  waiter.tube = command.tube;
  waiter.command = std::move(command);
  if (!asked) return;
  ++tube.pins;
  effects_.find_key(tube.number, lookup->first.second);
}

/// The far job with these extras has come near or is gone.
void Broker::State::note_key_known(const Tube& tube, const SharedExtras& extras) {
  const std::string_view key = key_of(extras);
  if (key.empty()) return;
  gone_keys_.emplace(tube.number, key);
  const auto lookup = lookups_.find(TubeKey(tube.number, key));
  if (lookup != lookups_.end()) lookup->second.known = true;
}

void Broker::State::on_key_found(TubeNumber number, std::string_view key,
                                 std::optional<FarPlace> found, WallTime now) {
  enter(now);
  const auto lookup = lookups_.find(TubeKey(number, key));
  CARILLON_CHECK(lookup != lookups_.end(), "key ", key, " was not looked up");
  KeyLookup done = std::move(lookup->second);
  lookups_.erase(lookup);
  Tube& tube = tubes_[tube_by_number_.at(number)];
  if (done.known) found.reset();
  for (KeyWaiter& waiter : done.waiters) {
    Session& s = sessions_[waiter.session];
    Command& command = waiter.command;
    command.tube = waiter.tube;
    s.blocked = Blocked::kNo;
    // An earlier waiter may have changed who has the key, all in this batch.
    Job* near = near_by_key(tube, key);
    const bool far = found && jobs_.find(found->id) == nullptr &&
                     !erased_from_afar_.contains(found->id) && near == nullptr;
    if (command.verb == Verb::kPut) {
      if (near != nullptr) {
        put_on_near(command, *near);
      } else if (far) {
        put_on_far(command, tube, *found);
      } else if (const auto refused = refusal(command, &tube)) {
        refuse(command.ticket, *refused);
      } else {
        insert(command, 0);
      }
    } else if (near != nullptr || far) {
      command.id = near != nullptr ? near->id : found->id;
      dispatch(command, s);
    } else {
      reply(command.ticket, Answer::kNotFound, needs_all());
    }
  }
  --tube.pins;
  remove_if_unused(tube);
  settle_waiters();
}

void Broker::State::on_find_key_failed(TubeNumber number, std::string_view key, WallTime now) {
  enter(now);
  const auto lookup = lookups_.find(TubeKey(number, key));
  CARILLON_CHECK(lookup != lookups_.end(), "key ", key, " was not looked up");
  const KeyLookup failed = std::move(lookup->second);
  lookups_.erase(lookup);
  for (const KeyWaiter& waiter : failed.waiters) {
    sessions_[waiter.session].blocked = Blocked::kNo;
    reply(waiter.command.ticket, Answer::kInternalError, 0);
  }
  Tube& tube = tubes_[tube_by_number_.at(number)];
  --tube.pins;
  remove_if_unused(tube);
  settle_waiters();
}

void Broker::State::drop_key_waiter(const Session& s) {
  for (auto& [key, lookup] : lookups_) {
    std::erase_if(lookup.waiters,
                  [&](const KeyWaiter& waiter) { return waiter.session == s.index; });
  }
}

}  // namespace carillon::broker
