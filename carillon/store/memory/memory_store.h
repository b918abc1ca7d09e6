// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A store in memory for tests and for simulation: everything happens when told, and fails when
/// told.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "carillon/broker/store.h"
#include "carillon/store/memory/memory_disk.h"

namespace carillon::store {

/// When a MemoryStore completes what it was asked.
enum class Completion : std::uint8_t {
  kInline,  ///< Inside the call.
  kManual,  ///< When complete_commits(), complete_read() say so.
};

/// A retaining store on a MemoryDisk.
///
/// Threads:   one thread; callbacks run inside the call, or inside complete_*().
/// Lifetime:  the disk outlives it. Destroying it drops what is pending without a callback, and
///            leaves the unsynced batches on the disk: that is a crash.
/// Callbacks: may call commit, fetch and scan_far, not complete_*().
/// Errors:    only those asked for; a batch that makes no sense stops the program (MemoryState).
class MemoryStore final : public broker::Store {
 public:
  /// A disk of its own, completing inline.
  MemoryStore();
  /// The next process on `disk`: what was unsynced there is lost now (MemoryDisk::crash).
  explicit MemoryStore(std::shared_ptr<MemoryDisk> disk,
                       Completion completion = Completion::kInline);

  [[nodiscard]] bool keeps_far_jobs() const noexcept override { return true; }
  [[nodiscard]] bool keeps_bodies() const noexcept override { return true; }
  [[nodiscard]] bool accepts_puts() const noexcept override { return accepts_puts_; }
  Result<void> recover(broker::RecoverySink& sink) override;
  void commit(std::unique_ptr<broker::Batch> batch, Committed done) override;
  void fetch(std::vector<broker::WantedJob> wanted, Fetched done) override;
  void scan_far(broker::TubeNumber tube, broker::FarCursor from, std::int64_t until_ms,
                std::size_t limit, Scanned done) override;
  void find_key(broker::TubeNumber tube, std::string key, KeyFound done) override;

  // Completion (kManual). Commits complete in order; reads complete in order among themselves and
  // see everything submitted until then, which a real store may do as well.

  [[nodiscard]] std::size_t pending_commits() const noexcept { return commits_.size(); }
  [[nodiscard]] std::size_t pending_reads() const noexcept { return reads_.size(); }
  /// One sync: the oldest `count` commits become durable, or fail, and are told so by one callback
  /// for all that succeeded. Returns how many there were.
  std::size_t complete_commits(std::size_t count);
  /// Answers the oldest read; returns whether there was one.
  bool complete_read();
  /// Completes everything, and what it leads to.
  void complete_all();

  // Faults. The N-th is counted from now, from 1.

  /// The N-th commit from now fails with `error`, and so do those after it, until recover().
  void fail_commit(std::uint64_t nth, Error error);
  /// The next sync fails with `error`: every commit pending then, and those after it, until
  /// recover().
  void fail_sync(Error error) { sync_error_ = std::move(error); }
  /// The N-th read from now fails with `error`; the others do not.
  void fail_read(std::uint64_t nth, Error error);
  /// Every recover() fails with `error` until called with nullopt.
  void fail_recover(std::optional<Error> error) { recover_error_ = std::move(error); }
  /// What accepts_puts() says.
  void set_accepts_puts(bool accepts) noexcept { accepts_puts_ = accepts; }

  [[nodiscard]] bool failed() const noexcept { return failure_.has_value(); }
  [[nodiscard]] MemoryDisk& disk() noexcept { return *disk_; }
  [[nodiscard]] std::uint64_t commits_submitted() const noexcept { return commits_submitted_; }

 private:
  struct PendingCommit {
    broker::CommitSeq seq = 0;
    std::optional<Error> error;
    Committed done;
  };
  struct PendingFetch {
    std::vector<broker::WantedJob> wanted;
    Fetched done;
  };
  struct PendingScan {
    broker::TubeNumber tube = 0;
    broker::FarCursor from;
    std::int64_t until_ms = 0;
    std::size_t limit = 0;
    Scanned done;
  };
  struct PendingKey {
    broker::TubeNumber tube = 0;
    std::string key;
    KeyFound done;
  };
  struct PendingRead {
    std::optional<Error> error;
    std::variant<PendingFetch, PendingScan, PendingKey> what;
  };
  struct Fault {
    std::uint64_t countdown = 0;
    Error error;
  };

  void add_read(PendingRead read);
  static bool strike(std::optional<Fault>& fault);

  const std::shared_ptr<MemoryDisk> disk_;
  const Completion completion_;
  std::deque<PendingCommit> commits_;
  std::deque<PendingRead> reads_;
  std::optional<Error> failure_;
  std::optional<Fault> commit_fault_;
  std::optional<Fault> read_fault_;
  std::optional<Error> sync_error_;
  std::optional<Error> recover_error_;
  bool accepts_puts_ = true;
  std::uint64_t commits_submitted_ = 0;
};

}  // namespace carillon::store
