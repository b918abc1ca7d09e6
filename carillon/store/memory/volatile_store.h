// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A store that keeps nothing, for those who want speed without a disk (`carillon serve --memory`).

#include <memory>
#include <string>

#include "carillon/broker/store.h"

namespace carillon::store {

/// Forgets every batch at once: all jobs live in the broker's memory and end with the process.
///
/// Threads: one thread calls; every callback runs inside its call.
/// Errors:  none.
/// Cost:    freeing the batch.
class VolatileStore final : public broker::Store {
 public:
  [[nodiscard]] bool keeps_far_jobs() const noexcept override { return false; }
  [[nodiscard]] bool keeps_bodies() const noexcept override { return false; }
  Result<void> recover(broker::RecoverySink& sink) override;
  void commit(std::unique_ptr<broker::Batch> batch, Committed done) override;
  /// Answers that there is no such job.
  void fetch(std::vector<broker::WantedJob> wanted, Fetched done) override;
  /// Answers that there are no far jobs.
  void scan_far(broker::TubeNumber tube, broker::FarCursor from, std::int64_t until_ms,
                std::size_t limit, Scanned done) override;
  /// Answers that there is none.
  void find_key(broker::TubeNumber tube, std::string key, KeyFound done) override;
};

}  // namespace carillon::store
