// SPDX-License-Identifier: Apache-2.0
// What the simulated clients do that beanstalk does not have.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/world.h"

namespace carillon::sim {

using broker::Answer;
using broker::Command;
using broker::CommandOptions;
using broker::JobExtras;
using broker::JobState;
using broker::Reply;
using broker::Verb;
using std::chrono::milliseconds;
using std::chrono::seconds;

void World::add_extras(Command& put, Asked& asked) {
  JobExtras extras;
  if (random_.one_in(2)) extras.key = std::string(1, static_cast<char>('a' + random_.below(8)));
  if (random_.one_in(3)) extras.max_attempts = static_cast<std::uint32_t>(1 + random_.below(4));
  if (random_.one_in(3)) extras.backoff_base_ms = static_cast<std::int64_t>(random_.below(3'000));
  if (random_.one_in(2)) extras.backoff_cap_ms = static_cast<std::int64_t>(random_.below(60'000));
  extras.backoff_jitter = random_.one_in(2);
  if (random_.one_in(3)) {
    const Span ahead = random_.one_in(3) ? Span(seconds(random_.between(-60, 7'200)))
                                         : Span(milliseconds(random_.between(-100, 20'000)));
    extras.due_at_ms = floor_ms(calendar_.now() + ahead);
    last_date_ms_ = std::max(last_date_ms_, *extras.due_at_ms);
    asked.date = oracle_.watch(*extras.due_at_ms);
  }
  asked.key = extras.key;
  put.on_conflict = static_cast<broker::OnConflict>(random_.below(3));
  if (extras.key.empty()) put.on_conflict = broker::OnConflict::kReturn;
  put.extras = std::make_shared<const JobExtras>(std::move(extras));
}

void World::step_beyond(Client& client) {
  Command command;
  Asked asked;
  CommandOptions options;
  const std::string tube = any_tube();
  command.tube = tube;
  if (const std::uint64_t dice = random_.below(100); dice < 15) {
    command.verb = Verb::kGet;
    command.with_body = random_.one_in(2);
    command.id = any_id(client);
  } else if (dice < 30) {
    command.verb = Verb::kCancel;
    if (random_.one_in(3)) {
      options.key = std::string(1, static_cast<char>('a' + random_.below(8)));
      asked.key = options.key;
      asked.deletes = true;
    } else {
      command.id = any_id(client);
      oracle_.delete_sent(command.id);
    }
  } else if (dice < 55) {
    command.verb = Verb::kChange;
    command.id = any_id(client);
    command.sets_priority = random_.one_in(2);
    command.priority = static_cast<std::uint32_t>(random_.below(4));
    command.sets_delay = true;
    command.delay = milliseconds(random_.below(random_.one_in(2) ? 3'000 : 200'000));
    Span earliest = true_time_ + command.delay;
    if (random_.one_in(3)) {
      options.due_at_ms = floor_ms(calendar_.now() + seconds(random_.between(-10, 600)));
      last_date_ms_ = std::max(last_date_ms_, *options.due_at_ms);
      asked.date = oracle_.watch(*options.due_at_ms);
      command.delay = Span::zero();
      earliest = true_time_;
    }
    oracle_.change_sent(command.id, earliest);
  } else if (dice < 65) {
    command.verb = Verb::kHandOver;
    command.id = any_id(client);
    asked.to = random_.below(clients_.size());
    command.to = clients_[asked.to].session;
    oracle_.let_go(command.id);
  } else if (dice < 90) {
    command.verb = Verb::kList;
    options.list.state = static_cast<JobState>(random_.below(4));
    options.list.limit = 1 + random_.below(random_.one_in(2) ? 1'000 : 4);
    const bool whole = random_.one_in(2);
    if (!whole) {
      options.list.after = {floor_ms(host_->now()) + random_.between(-1'000, 90'000),
                            any_id(client)};
      if (random_.one_in(3)) options.list.key_prefix.push_back('b');
      if (random_.one_in(4)) command.tube = {};
    }
    asked.whole_list = whole && options.list.state == JobState::kDelayed;
  } else if (dice < 93) {
    command.verb = Verb::kWheel;
  } else if (dice < 97) {
    command.verb = Verb::kSetTube;
    if (random_.one_in(3)) options.settings.max_jobs = 20 + random_.below(100);
  } else if (clears_) {
    command.verb = Verb::kClear;
    command.states = static_cast<broker::JobStates>(random_.below(16));
    asked.deletes = true;
  } else {
    return;
  }
  command.options = std::make_shared<const CommandOptions>(std::move(options));
  asked.tube = tube;
  note_may_go(asked);
  ask(client, std::move(command), std::move(asked));
}

/// What was asked may delete jobs, at any time until its answer.
void World::note_may_go(const Asked& asked) {
  if (asked.deletes) oracle_.may_go(asked.tube, asked.key);
}

/// What was asked may have been done, and nobody will be told.
void World::note_unanswered(const Asked& asked) {
  note_may_go(asked);
  if (asked.verb == Verb::kChange) oracle_.change_sent(asked.id, asked.sent);
}

void World::note_all_that_may_go() {
  for (const Client& client : clients_) {
    for (const auto& [slot, open] : client.asked) note_may_go(open);
  }
}

/// Whether something asked for may have made jobs ready that nobody has been told of.
bool World::open_by_hand() const {
  return std::any_of(clients_.begin(), clients_.end(), [](const Client& client) {
    return std::any_of(client.asked.begin(), client.asked.end(),
                       [](const auto& open) { return makes_ready_by_hand(open.second.verb); });
  });
}

void World::judge_beyond(Client& client, const Asked& asked, const Reply& reply) {
  switch (asked.verb) {
    case Verb::kGet:
      if (reply.answer == Answer::kFound) oracle_.shown(reply.id, asked.sent);
      break;
    case Verb::kCancel:
      if (reply.answer == Answer::kDeleted && asked.id != 0) oracle_.deleted(asked.id, true_time_);
      break;
    case Verb::kChange:
      if (reply.answer == Answer::kChanged) {
        oracle_.changed(asked.id, asked.sent + asked.delay, asked.date, asked.by_hand_before,
                        true_time_);
      }
      break;
    case Verb::kHandOver:
      if (reply.answer != Answer::kHandedOver) break;
      std::erase(client.held, asked.id);
      clients_[asked.to].held.push_back(asked.id);
      break;
    case Verb::kList: {
      if (reply.answer == Answer::kNotFound) break;
      if (reply.answer != Answer::kListed) throw Violation{"a list was answered by nonsense"};
      const auto& page = std::get<broker::JobPage>(*reply.detail);
      std::vector<broker::JobId> ids;
      for (const broker::JobView& info : page.jobs) {
        ids.push_back(info.stats.id);
        oracle_.shown(info.stats.id, asked.sent);
      }
      if (asked.whole_list && !page.next && !open_by_hand()) {
        oracle_.listed_delayed(asked.tube, ids, asked.sent, true_time_, asked.by_hand_before);
      }
      break;
    }
    case Verb::kClear:
      if (reply.answer != Answer::kCleared && reply.answer != Answer::kNotFound) {
        throw Violation{"a clear was answered by nonsense"};
      }
      break;
    case Verb::kSetTube:
      if (reply.answer != Answer::kTubeSet) throw Violation{"a tube was not set"};
      break;
    case Verb::kWheel:
      if (reply.answer != Answer::kStats) throw Violation{"the wheel is not shown"};
      break;
    default: break;
  }
}

}  // namespace carillon::sim
