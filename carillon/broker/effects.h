// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the broker asks of its host. The host carries it out after, or during, the call into the
/// broker that caused it, and never calls back into the broker from inside an effect.

#include <cstddef>
#include <cstdint>
#include <string>

#include "carillon/broker/command.h"
#include "carillon/broker/reply.h"
#include "carillon/broker/store.h"

namespace carillon::broker {

class Effects {
 public:
  virtual ~Effects() = default;

  /// Send `reply` to `ticket`, but not before batch `needs` is durable (0: at once). If that batch
  /// fails, the host sends kInternalError instead (kOutOfMemory for a put).
  virtual void reply(Ticket ticket, Reply reply, CommitSeq needs) = 0;

  /// Read a job (Store::fetch) and answer with Broker::on_fetched. At most one a job is in flight.
  /// Several may be asked for in one call of the broker: better read together.
  virtual void fetch(const WantedJob& wanted) = 0;

  /// Read far jobs (Store::scan_far) and answer with Broker::on_scanned. At most one a tube is in
  /// flight; its tube may be gone when the answer comes.
  virtual void scan_far(TubeNumber tube, FarCursor from, std::int64_t until_ms,
                        std::size_t limit) = 0;

  /// Read far jobs (Store::scan_far) for a scan over jobs and answer with Broker::on_far_read. At
  /// most one a scan is in flight; its session may be gone when the answer comes.
  virtual void read_far(std::uint64_t scan, TubeNumber tube, FarCursor from, std::int64_t until_ms,
                        std::size_t limit) = 0;

  /// Look for the far job with this key (Store::find_key) and answer with Broker::on_key_found. At
  /// most one a key of a tube is in flight.
  virtual void find_key(TubeNumber tube, const std::string& key) = 0;

  /// Why a batch with a put in it would not be taken now (Store::accepts_puts); kNone: it would.
  /// Asked before a schedule puts an instance.
  [[nodiscard]] virtual Shortage shortage_for_puts() { return Shortage::kNone; }

  /// A job that has used up its attempts is buried, which nobody asked for. `tube` is its tube's
  /// name, for the time of the call.
  virtual void on_used_up(JobId id, const std::string& tube, std::uint32_t attempts) {
    static_cast<void>(id), static_cast<void>(tube), static_cast<void>(attempts);
  }
};

}  // namespace carillon::broker
