// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "carillon/base/check.h"

namespace carillon::sim {

using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Verb;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr const char* kTubes[] = {"default", "orders", "mail"};

}  // namespace

bool makes_ready_by_hand(Verb verb) {
  return verb == Verb::kKick || verb == Verb::kKickJob || verb == Verb::kReserveJob;
}

World::World(std::uint64_t seed, bool verbose, Lie lie)
    : random_(seed),
      verbose_(verbose),
      keeps_far_(!random_.one_in(5)),
      kicks_(random_.one_in(2)),
      clears_(random_.one_in(4)),
      calendar_(WallTime(seconds(1'700'000'000))) {
  constexpr Span kHorizons[] = {seconds(1), seconds(10), seconds(60)};
  options_.broker.horizon = kHorizons[random_.below(3)];
  options_.broker.load_chunk = 1 + random_.below(8);
  options_.broker.body_budget_bytes = random_.below(600);
  options_.broker.read_ahead_jobs = random_.below(8);
  options_.broker.read_ahead_bytes = random_.below(200);
  options_.broker.read_ahead_budget_bytes = random_.below(400);
  options_.max_batches_in_flight = 1 + random_.below(3);
  options_.advance_budget = 1 + random_.below(10);
  clock_ = std::make_unique<ManualClock>(Instant(seconds(random_.below(1'000'000))));
  clients_.resize(1 + random_.below(5));
  faults_.lie = lie;
  start_process();
}

void World::say(const std::string& line) const {
  if (verbose_) {
    std::printf("%12.6f  %s\n", static_cast<double>(true_time_.count()) / 1e9, line.c_str());
    std::fflush(stdout);
  }
}

void World::trace(std::uint64_t value) {
  result_.trace_hash = (result_.trace_hash ^ value) * 0x100000001b3U;
}

void World::advance(Span span) {
  true_time_ += span;
  clock_->advance(span);
  calendar_set(calendar_.now() + span);
}

void World::calendar_set(WallTime to) {
  calendar_.set(to);
  oracle_.calendar_reads(floor_ms(to));
}

void World::start_process() {
  auto store = std::make_unique<SimStore>(disk_, random_, faults_, keeps_far_);
  store_ = store.get();
  server::PartitionHost::Outside outside;
  outside.deliver = [this](broker::Ticket ticket, Reply reply) {
    deliver(ticket, std::move(reply));
  };
  outside.post = [this](std::function<void()> call) { posted_.push_back(std::move(call)); };
  outside.log = [this](server::LogLevel, std::string_view line) { say(std::string(line)); };
  host_ = std::make_unique<server::PartitionHost>(options_, std::move(store), *clock_, calendar_,
                                                  fmt::format("boot-{}", boot_), outside);
  faults_.failing = false;
  if (Result<void> opened = host_->open(); !opened) throw Violation{opened.error().message};
  say(fmt::format("starts in boot {}: calendar {} ms, timeline {} ms", boot_,
                  floor_ms(calendar_.now()), floor_ms(host_->now())));
}

void World::kill_process() {
  say(fmt::format("kill -9 at timeline {} ms", floor_ms(host_->now())));
  ++result_.crashes;
  reached_ = host_->now();
  reached_at_ = true_time_;
  host_.reset();
  store_ = nullptr;
  posted_.clear();
  disk_.lose_unsynced(random_);
  for (Client& client : clients_) {
    for (const auto& [slot, asked] : client.asked) {
      note_unanswered(asked);
      if (makes_ready_by_hand(asked.verb)) oracle_.kicked_any(asked.sent);
    }
    client = Client{};
  }
  oracle_.crashed();
}

void World::reboot() {
  say("reboot");
  const Span down = milliseconds(random_.below(60'000));
  true_time_ += down;
  ++boot_;
  clock_ = std::make_unique<ManualClock>(Instant(seconds(random_.below(100))));
  // After a reboot there is nothing but the calendar to go by. One that runs ahead of what the
  // server had reached makes jobs early, and nothing can be done about it; one behind must do no
  // harm.
  const Span behind = random_.one_in(3) ? Span(hours(random_.below(3))) : Span::zero();
  calendar_set(reached_ + (true_time_ - reached_at_) - behind);
}

// Until the first commit of a boot is durable, the calendar is all that the next start has.
bool World::anchor_is_durable() const {
  return disk_.durable.partition &&
         disk_.durable.partition->anchor.boot_id == fmt::format("boot-{}", boot_);
}

void World::connect(Client& client) {
  client.session = next_session_++;
  host_->open_session(client.session);
  Command use;
  use.verb = Verb::kUse;
  use.tube = "default";
  ask(client, std::move(use), {});
  for (const char* tube : kTubes) {
    if (tube != kTubes[0] && random_.one_in(3)) continue;
    Command watch;
    watch.verb = Verb::kWatch;
    watch.tube = tube;
    ask(client, std::move(watch), {});
  }
}

void World::disconnect(Client& client) {
  say(fmt::format("session {} closes", client.session));
  for (const auto& [slot, asked] : client.asked) {
    note_unanswered(asked);
    if (makes_ready_by_hand(asked.verb)) oracle_.kicked_any(asked.sent);
  }
  oracle_.session_closed(client.session);
  const broker::SessionId session = client.session;
  client = Client{};
  host_->close_session(session);
}

void World::ask(Client& client, Command command, Asked asked) {
  asked.verb = command.verb;
  asked.id = command.id;
  asked.sent = true_time_;
  asked.deliveries_before = oracle_.deliveries();
  asked.by_hand_before = oracle_.by_hand();
  asked.delay = command.delay;
  command.ticket = {client.session, client.next_slot};
  if (asked.tube.empty()) asked.tube = std::string(command.tube);
  client.asked.emplace(client.next_slot++, asked);
  say(fmt::format("session {} slot {} asks {} id {} tube '{}' delay {} ms", client.session,
                  command.ticket.slot, static_cast<int>(command.verb), command.id, command.tube,
                  command.delay.count() / 1'000'000));
  host_->submit(std::move(command));
}

broker::JobId World::any_id(const Client& client) {
  if (!client.held.empty() && !random_.one_in(3)) {
    return client.held[random_.below(client.held.size())];
  }
  if (ids_seen_.empty() || random_.one_in(20)) return 1'000'000'000'000;
  return ids_seen_[random_.below(ids_seen_.size())];
}

std::string World::any_tube() { return kTubes[random_.below(std::size(kTubes))]; }

void World::client_step(Client& client) {
  if (client.session == 0) {
    connect(client);
    return;
  }
  if (random_.one_in(60)) {
    disconnect(client);
    return;
  }
  if (client.waiting) {
    if (random_.one_in(40)) host_->end_waiting(client.session);
    return;
  }
  if (random_.one_in(5)) return step_beyond(client);
  Command command;
  Asked asked;
  const auto random_delay = [this]() -> Span {
    switch (random_.below(6)) {
      case 0:
      case 1: return Span::zero();
      case 2: return milliseconds(random_.below(50));
      case 3: return milliseconds(random_.below(5'000));
      case 4: return milliseconds(random_.below(100'000));
      default: return milliseconds(random_.below(2'000'000));
    }
  };
  const std::string tube = any_tube();
  command.tube = tube;
  command.priority = static_cast<std::uint32_t>(random_.below(4));
  const auto forget = [&](broker::JobId id) { std::erase(client.held, id); };
  if (const std::uint64_t dice = random_.below(100); dice < 34) {
    command.verb = Verb::kPut;
    command.delay = random_delay();
    command.ttr = milliseconds(1 + random_.below(random_.one_in(2) ? 3'000 : 60'000));
    asked.op = next_op_++;
    command.body = broker::Body(body_of(asked.op));
    if (random_.one_in(3)) add_extras(command, asked);
    asked.deletes = command.on_conflict == broker::OnConflict::kReplace;
    asked.tube = tube;
    note_may_go(asked);
    oracle_.put_sent(asked.op, true_time_, asked.date ? Span::zero() : command.delay, command.ttr);
    oracle_.put_has(asked.op, tube, asked.key, asked.date);
  } else if (dice < 56) {
    command.verb = Verb::kReserve;
    if (!random_.one_in(4)) command.timeout = seconds(random_.below(4));
    client.waiting = true;
  } else if (dice < 74) {
    command.verb = Verb::kDelete;
    command.id = any_id(client);
    oracle_.delete_sent(command.id);
    forget(command.id);
  } else if (dice < 80) {
    command.verb = Verb::kRelease;
    command.id = any_id(client);
    command.delay = random_delay();
    // Then nobody outside knows for how long.
    command.use_backoff = random_.one_in(3);
    if (command.use_backoff) command.delay = Span::zero();
    oracle_.let_go(command.id);
    forget(command.id);
  } else if (dice < 83) {
    command.verb = Verb::kBury;
    command.id = any_id(client);
    oracle_.let_go(command.id);
    forget(command.id);
  } else if (dice < 86) {
    command.verb = Verb::kTouch;
    command.id = any_id(client);
  } else if (dice < 88) {
    command.verb = Verb::kPeek;
    command.id = any_id(client);
  } else if (dice < 90) {
    command.verb = Verb::kStatsJob;
    command.id = any_id(client);
  } else if (dice < 92) {
    constexpr Verb kReads[] = {Verb::kPeekReady, Verb::kPeekDelayed, Verb::kPeekBuried,
                               Verb::kStatsTube, Verb::kListTubes,   Verb::kStats};
    command.verb = kReads[random_.below(std::size(kReads))];
  } else if (dice < 94) {
    constexpr Verb kTubeVerbs[] = {Verb::kUse, Verb::kWatch, Verb::kIgnore};
    command.verb = kTubeVerbs[random_.below(std::size(kTubeVerbs))];
  } else if (dice < 95) {
    command.verb = Verb::kPauseTube;
    command.delay = seconds(random_.below(10));
  } else if (!kicks_) {
    return;
  } else if (dice < 96) {
    command.verb = Verb::kKick;
    command.count = random_.below(5);
  } else if (dice < 98) {
    command.verb = Verb::kKickJob;
    command.id = any_id(client);
  } else {
    command.verb = Verb::kReserveJob;
    command.id = any_id(client);
    client.waiting = true;
  }
  ask(client, std::move(command), std::move(asked));
}

void World::deliver(broker::Ticket ticket, Reply reply) {
  trace(ticket.session * 31 + ticket.slot);
  trace(reply.id * 64 + static_cast<std::uint64_t>(reply.answer));
  trace(reply.count);
  const auto client = std::find_if(clients_.begin(), clients_.end(),
                                   [&](const Client& c) { return c.session == ticket.session; });
  if (client == clients_.end()) throw Violation{"a reply to a session that is closed"};
  const auto found = client->asked.find(ticket.slot);
  if (found == client->asked.end()) {
    throw Violation{fmt::format("session {} got a second reply, {}, to {}", ticket.session,
                                static_cast<int>(reply.answer), ticket.slot)};
  }
  const Asked asked = found->second;
  client->asked.erase(found);
  say(fmt::format("session {} slot {} gets {} id {}", ticket.session, ticket.slot,
                  static_cast<int>(reply.answer), reply.id));
  judge(*client, asked, reply);
}

void World::judge(Client& client, const Asked& asked, const Reply& reply) {
  if (asked.verb == Verb::kReserve || asked.verb == Verb::kReserveJob) client.waiting = false;
  if (reply.answer == Answer::kOutOfMemory || reply.answer == Answer::kInternalError) {
    if (result_.failures + host_->stats().commit_failures == 0) {
      throw Violation{"an error although no commit has failed"};
    }
    // It may have happened all the same.
    note_unanswered(asked);
    if (makes_ready_by_hand(asked.verb)) oracle_.kicked_any(true_time_);
    return;
  }
  switch (asked.verb) {
    case Verb::kPut:
      if (reply.answer == Answer::kExists || reply.answer == Answer::kConflict ||
          reply.answer == Answer::kTubeFull) {
        if (reply.answer != Answer::kTubeFull) oracle_.shown(reply.id, asked.sent);
        oracle_.put_refused(asked.op, true_time_);
        break;
      }
      if (reply.answer != Answer::kInserted) throw Violation{"a put was answered by nonsense"};
      oracle_.put_acked(asked.op, reply.id, true_time_);
      oracle_.key_taken(asked.op, reply.count, true_time_);
      note_all_that_may_go();
      ids_seen_.push_back(reply.id);
      ++result_.puts;
      break;
    case Verb::kReserve:
    case Verb::kReserveJob: {
      if (reply.answer != Answer::kReserved) break;
      bool by_hand = asked.verb == Verb::kReserveJob;
      for (const Client& other : clients_) {
        for (const auto& [slot, open] : other.asked) {
          by_hand |= makes_ready_by_hand(open.verb);
          by_hand |= open.verb == Verb::kChange && open.id == reply.id;
        }
      }
      if (by_hand) oracle_.kicked(reply.id, true_time_);
      oracle_.reserved(client.session, reply.id, reply.body.view(), true_time_, asked.sent);
      client.held.push_back(reply.id);
      ++result_.deliveries;
      break;
    }
    case Verb::kDelete:
      if (reply.answer == Answer::kDeleted) oracle_.deleted(asked.id, true_time_);
      break;
    case Verb::kRelease:
      if (reply.answer == Answer::kReleased)
        oracle_.released(asked.id, asked.sent, asked.delay, asked.by_hand_before, true_time_);
      if (reply.answer == Answer::kBuried) oracle_.buried(asked.id, asked.by_hand_before);
      break;
    case Verb::kBury:
      if (reply.answer == Answer::kBuried) oracle_.buried(asked.id, asked.by_hand_before);
      break;
    case Verb::kTouch:
      if (reply.answer == Answer::kTouched) {
        oracle_.touched(client.session, asked.id, asked.sent);
      } else {
        oracle_.refused(client.session, asked.id, true_time_, asked.deliveries_before, "touch");
      }
      break;
    case Verb::kKick: oracle_.kicked_any(true_time_); break;
    case Verb::kKickJob: oracle_.kicked(asked.id, true_time_); break;
    default: judge_beyond(client, asked, reply); break;
  }
}

void World::settle_posted() {
  std::size_t count = random_.below(posted_.size() + 1);
  for (; count > 0 && !posted_.empty(); --count) {
    auto call = std::move(posted_.front());
    posted_.pop_front();
    call();
  }
  host_->turn();
}

void World::step() {
  const std::uint64_t failures = host_->stats().commit_failures;
  if (const std::uint64_t dice = random_.below(1'000); dice < 500) {
    client_step(clients_[random_.below(clients_.size())]);
  } else if (dice < 700) {
    store_->step();
  } else if (dice < 800) {
    settle_posted();
  } else if (dice < 900) {
    const auto wake = host_->next_wake();
    if (wake && *wake > clock_->now() && *wake - clock_->now() < seconds(5)) {
      advance(*wake - clock_->now());
    } else {
      advance(Span(random_.below(3'000'000)));
    }
    settle_posted();
  } else if (dice < 970) {
    advance(milliseconds(random_.below(1'000)));
  } else if (dice < 976) {
    advance(milliseconds(random_.below(200'000)));
  } else if (dice < 984) {
    calendar_set(calendar_.now() + seconds(random_.between(-7'200, 7'200)));
  } else if (dice < 988) {
    faults_.failing = !faults_.failing;
    say(faults_.failing ? "the disk is full" : "the disk has room again");
  } else if (dice < 990) {
    const bool reboots = random_.one_in(2);
    const std::uint64_t failed = failures;
    kill_process();
    result_.failures += failed;
    if (reboots) {
      reboot();
    } else {
      advance(milliseconds(random_.below(30'000)));
      if (anchor_is_durable()) {
        calendar_set(calendar_.now() + seconds(random_.between(-3'600, 3'600)));
      } else {
        calendar_set(reached_ + (true_time_ - reached_at_));
      }
    }
    start_process();
  } else {
    if (faults_.failing && random_.one_in(3)) faults_.failing = false;
    while (store_->step()) {
    }
    settle_posted();
  }
}

void World::drain_all() {
  faults_.failing = false;
  const WallTime last_date{milliseconds(last_date_ms_)};
  if (calendar_.now() < last_date) calendar_set(last_date);
  const auto pump = [this] {
    for (bool busy = true; busy;) {
      busy = host_->turn();
      while (store_->step()) busy = true;
      while (!posted_.empty()) {
        auto call = std::move(posted_.front());
        posted_.pop_front();
        call();
        busy = true;
      }
    }
  };
  advance(seconds(2));
  pump();
  for (Client& client : clients_) {
    if (client.session != 0) disconnect(client);
  }
  clients_.resize(1);
  Client& worker = clients_.front();
  worker.session = next_session_++;
  host_->open_session(worker.session);
  for (const char* tube : kTubes) {
    for (const Verb verb : {Verb::kWatch, Verb::kPauseTube}) {
      Command command;
      command.verb = verb;
      command.tube = tube;
      ask(worker, std::move(command), {});
      pump();
    }
  }
  // First what comes by itself, in its own time; what was buried is kicked at the end.
  for (int round = 0;; ++round) {
    if (round > 200'000) throw Violation{"the world does not drain"};
    Command reserve;
    reserve.verb = Verb::kReserve;
    reserve.timeout = Span::zero();
    ask(worker, std::move(reserve), {});
    pump();
    if (!worker.held.empty()) {
      Command erase;
      erase.verb = Verb::kDelete;
      erase.id = worker.held.back();
      worker.held.pop_back();
      oracle_.delete_sent(erase.id);
      ask(worker, std::move(erase), {});
      pump();
      continue;
    }
    const broker::JobCounts jobs = host_->broker().stats().jobs;
    if (jobs.delayed > 0 || jobs.ready > 0) {
      const auto wake = host_->next_wake();
      if (!wake) throw Violation{"jobs are delayed and nothing will wake the host"};
      advance(std::max(*wake - clock_->now(), Span(1)));
      pump();
      continue;
    }
    if (jobs.buried == 0) break;
    for (const char* tube : kTubes) {
      Command kick;
      kick.verb = Verb::kKick;
      kick.tube = tube;
      kick.count = 1'000'000;
      ask(worker, std::move(kick), {});
      pump();
    }
  }
  pump();
  if (!disk_.durable.jobs.empty()) {
    throw Violation{fmt::format("{} jobs are left in the store and unknown to the broker",
                                disk_.durable.jobs.size())};
  }
}

RunResult World::run(std::uint64_t steps) {
  for (std::uint64_t i = 0; i < steps; ++i) {
    step();
    if (i % 64 == 0) host_->broker().check_invariants();
  }
  drain_all();
  host_->broker().check_invariants();
  oracle_.judge_end();
  result_.failures += host_->stats().commit_failures;
  return result_;
}

}  // namespace carillon::sim
