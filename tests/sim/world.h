// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The simulated world: one server process at a time over one disk, some clients, and a hand that
/// moves time, steps calendars, breaks the disk and kills the process; all from one seed, in one
/// thread, so that a seed replays to the last bit.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/base/random.h"
#include "carillon/server/partition_host.h"
#include "tests/sim/oracle.h"
#include "tests/sim/sim_store.h"

namespace carillon::sim {

struct RunResult {
  std::uint64_t trace_hash = 0;
  std::uint64_t puts = 0;
  std::uint64_t deliveries = 0;
  std::uint64_t crashes = 0;
  std::uint64_t failures = 0;  ///< Failed commits.
};

/// Whether the verb makes jobs ready before their time.
[[nodiscard]] bool makes_ready_by_hand(broker::Verb verb);

class World {
 public:
  World(std::uint64_t seed, bool verbose, Lie lie = Lie::kNone);

  /// Runs `steps` random steps, drains everything and judges. Throws Violation.
  RunResult run(std::uint64_t steps);

 private:
  struct Asked {
    broker::Verb verb{};
    broker::JobId id = 0;
    OpNumber op = 0;
    Span sent{};
    Span delay{};
    std::string tube;
    std::uint64_t deliveries_before = 0;
    std::uint64_t by_hand_before = 0;
    std::string key;
    bool deletes = false;  ///< Jobs of the tube, those with the key if there is one.
    std::shared_ptr<const DateWatch> date;
    bool whole_list = false;  ///< A list of delayed jobs from the beginning, without a filter.
    std::size_t to = 0;       ///< Of a handing over: the client.
  };
  struct Client {
    broker::SessionId session = 0;
    std::uint64_t next_slot = 1;
    std::map<std::uint64_t, Asked> asked;  ///< By slot.
    std::vector<broker::JobId> held;
    bool waiting = false;  ///< A reserve without an answer: a real session reads nothing more.
  };

  void start_process();
  void kill_process();
  void reboot();
  [[nodiscard]] bool anchor_is_durable() const;
  void step();
  void client_step(Client& client);
  void step_beyond(Client& client);
  void add_extras(broker::Command& put, Asked& asked);
  void judge_beyond(Client& client, const Asked& asked, const broker::Reply& reply);
  [[nodiscard]] bool open_by_hand() const;
  void note_may_go(const Asked& asked);
  void note_all_that_may_go();
  void note_unanswered(const Asked& asked);
  void calendar_set(WallTime to);
  void settle_posted();
  void advance(Span span);
  void connect(Client& client);
  void disconnect(Client& client);
  void ask(Client& client, broker::Command command, Asked asked);
  void deliver(broker::Ticket ticket, broker::Reply reply);
  void judge(Client& client, const Asked& asked, const broker::Reply& reply);
  void drain_all();
  void trace(std::uint64_t value);
  void say(const std::string& line) const;
  [[nodiscard]] broker::JobId any_id(const Client& client);
  [[nodiscard]] std::string any_tube();

  Random random_;
  const bool verbose_;
  const bool keeps_far_;
  const bool kicks_;
  const bool clears_;
  server::PartitionHostOptions options_;

  Span true_time_{};
  ManualCalendar calendar_;
  std::unique_ptr<ManualClock> clock_;
  std::uint64_t boot_ = 0;
  WallTime reached_{};  ///< The server's time when it was last seen alive.
  Span reached_at_{};   ///< And the true time then.

  SimDisk disk_;
  SimStore::Faults faults_;
  SimStore* store_ = nullptr;  ///< Owned by host_.
  std::deque<std::function<void()>> posted_;
  std::unique_ptr<server::PartitionHost> host_;

  Oracle oracle_;
  std::vector<Client> clients_;
  std::vector<broker::JobId> ids_seen_;
  broker::SessionId next_session_ = 1;
  OpNumber next_op_ = 1;
  std::int64_t last_date_ms_ = 0;  ///< The latest date that any job was given.
  RunResult result_;
};

}  // namespace carillon::sim
