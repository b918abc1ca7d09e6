// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What tests of stores share: building batches, waiting for callbacks, random programs, comparing
/// what a store holds with a model of it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/base/result.h"
#include "carillon/broker/store.h"
#include "carillon/store/memory/memory_disk.h"  // lint-allow(layer): the model to compare with

namespace carillon::store::testing {

// Mutations. Records are made with a `body_size` of 0; put fills it in.

[[nodiscard]] broker::JobRecord make_record(broker::JobId id, broker::TubeNumber tube = 1);
/// Delayed until `due_ms`.
[[nodiscard]] broker::JobRecord far_record(broker::JobId id, broker::TubeNumber tube,
                                           std::int64_t due_ms);
[[nodiscard]] broker::Mutation put(broker::JobRecord record, broker::Place place,
                                   std::string_view body);
[[nodiscard]] broker::Mutation update(const broker::JobRecord& record, broker::Place place);
[[nodiscard]] broker::Mutation settle(const broker::JobRecord& record, std::int64_t far_due_ms);
/// `record` says where the far job is found from now on.
[[nodiscard]] broker::Mutation move(const broker::JobRecord& record, std::int64_t far_due_ms);
[[nodiscard]] broker::Mutation erase_near(broker::JobId id, bool updated);
[[nodiscard]] broker::Mutation erase_settled(broker::JobId id);
[[nodiscard]] broker::Mutation erase_far(broker::JobId id, broker::TubeNumber tube,
                                         std::int64_t far_due_ms);
/// As a broker erases the far job that `stored` is.
[[nodiscard]] broker::Mutation erase_far(const broker::StoredJob& stored);
/// Extras that are nothing but a key.
[[nodiscard]] broker::SharedExtras with_key(std::string key);

[[nodiscard]] std::unique_ptr<broker::Batch> make_batch(
    std::vector<broker::Mutation> mutations = {});
void add_tube(broker::Batch& batch, broker::TubeRecord tube);
void add_tube_erase(broker::Batch& batch, broker::TubeNumber number);
void add_partition(broker::Batch& batch, broker::PartitionRecord partition);
void add_schedule(broker::Batch& batch, broker::Mutation::Kind kind, broker::ScheduleRecord record);
/// The same batch again: bodies are shared.
[[nodiscard]] std::unique_ptr<broker::Batch> copy(const broker::Batch& batch);

/// All that recover() reports; checks the order in which it does.
class Recovered final : public broker::RecoverySink {
 public:
  void on_partition(const broker::PartitionRecord& record) override;
  void on_tube(const broker::TubeRecord& record) override;
  void on_schedule(const broker::ScheduleRecord& record) override;
  void on_job(broker::StoredJob job) override;

  std::optional<broker::PartitionRecord> partition;
  std::vector<broker::TubeRecord> tubes;
  std::map<std::string, broker::ScheduleRecord> schedules;
  std::vector<broker::StoredJob> jobs;
};

/// Calls a store and waits for the answer, on whichever thread it comes.
class StoreDriver {
 public:
  StoreDriver() = default;
  explicit StoreDriver(broker::Store& store) : store_(&store) {}
  /// The store was opened anew.
  void use(broker::Store& store) { store_ = &store; }

  Result<void> commit(std::unique_ptr<broker::Batch> batch);
  Result<std::optional<broker::StoredJob>> fetch(broker::JobId id);
  std::vector<Result<std::optional<broker::StoredJob>>> fetch(
      std::vector<broker::WantedJob> wanted);
  Result<broker::FarChunk> scan(broker::TubeNumber tube, broker::FarCursor from,
                                std::int64_t until_ms, std::size_t limit);
  /// The whole of a tube's far jobs, read in chunks of `chunk`.
  Result<std::vector<broker::StoredJob>> scan_all(broker::TubeNumber tube, std::size_t chunk);
  Result<std::optional<broker::FarPlace>> find_key(broker::TubeNumber tube, std::string key);
  Result<void> recover(Recovered& recovered);

  [[nodiscard]] broker::Store& store() noexcept { return *store_; }
  /// The number of the next batch.
  broker::CommitSeq next_seq() noexcept { return ++seq_; }

 private:
  broker::Store* store_ = nullptr;
  broker::CommitSeq seq_ = 0;
};

/// What a program of batches amounts to, asked of the store in every way there is. Fails the
/// running test where they differ; `what` says when.
void expect_holds(StoreDriver& driver, const MemoryState& model, const std::string& what);
/// Whether recover(), which reported `recovered`, and scans find exactly what `model` has.
[[nodiscard]] bool same_state(StoreDriver& driver, const Recovered& recovered,
                              const MemoryState& model);

/// Makes batches that a broker could have made: valid one after the other, all kinds of mutations.
class RandomProgram {
 public:
  static constexpr broker::TubeNumber kTubes = 5;
  static constexpr std::int64_t kDueSpan = 1'000;

  explicit RandomProgram(std::uint64_t seed) : random_(seed) {}

  /// The next batch; the program assumes from then on that it took place.
  std::unique_ptr<broker::Batch> next_batch();
  /// Goes on from `state` (after a failure, when later batches did not take place).
  void continue_from(const MemoryState& state) { state_ = state; }

  [[nodiscard]] const MemoryState& state() const noexcept { return state_; }
  /// An id that is, was, or was never used.
  broker::JobId any_id() { return 1 + random_.below(next_id_ + 2); }
  Random& random() noexcept { return random_; }

 private:
  void add_mutation(broker::Batch& batch);
  void add_schedule_mutation(broker::Batch& batch);
  broker::Mutation make_put();
  [[nodiscard]] broker::SharedExtras some_extras(broker::TubeNumber tube);
  std::optional<broker::JobId> pick(broker::Place place);
  broker::JobRecord randomised(broker::JobRecord record);

  Random random_;
  MemoryState state_;
  broker::JobId next_id_ = 1;
};

}  // namespace carillon::store::testing
