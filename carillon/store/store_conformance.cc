// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/store_conformance.h"

#include <atomic>
#include <future>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/mutex.h"

namespace carillon::store::testing {
namespace {

using broker::Batch;
using broker::CommitSeq;
using broker::FarChunk;
using broker::FarCursor;
using broker::JobId;
using broker::JobRecord;
using broker::JobState;
using broker::PartitionRecord;
using broker::Place;
using broker::StoredJob;
using broker::TubeNumber;
using broker::TubeRecord;

constexpr std::int64_t kMinTime = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMaxTime = std::numeric_limits<std::int64_t>::max();

std::vector<JobId> ids_of(const FarChunk& chunk) {
  std::vector<JobId> ids;
  for (const StoredJob& job : chunk.jobs) ids.push_back(job.record.id);
  return ids;
}

using Ids = std::vector<JobId>;
using Fetched = Result<std::optional<StoredJob>>;

}  // namespace

void StoreConformance::SetUp() {
  Recovered recovered;
  ASSERT_TRUE(driver_.recover(recovered));
  EXPECT_FALSE(recovered.partition.has_value());
  EXPECT_TRUE(recovered.tubes.empty());
  EXPECT_TRUE(recovered.jobs.empty());
}

void StoreConformance::commit(std::unique_ptr<Batch> batch) {
  model_.apply(*batch);
  const Result<void> result = driver_.commit(std::move(batch));
  ASSERT_TRUE(result.has_value()) << result.error().message;
}

void StoreConformance::restart() {
  bench_->restart();
  driver_.use(bench_->store());
}

void StoreConformance::kill() {
  bench_->kill();
  driver_.use(bench_->store());
}

void StoreConformance::cut_power() {
  bench_->cut_power();
  driver_.use(bench_->store());
}

// What is stored.

TEST_P(StoreConformance, KeepsFarJobsAndBodies) {
  EXPECT_TRUE(bench_->store().keeps_far_jobs());
  EXPECT_TRUE(bench_->store().keeps_bodies());
  EXPECT_TRUE(bench_->store().accepts_puts());
}

TEST_P(StoreConformance, ANearJobIsFoundUpdatedAndErased) {
  JobRecord record = make_record(7);
  commit(make_batch({put(record, Place::kNear, "hello")}));
  expect_holds(driver_, model_, "put");
  record.body_size = 5;
  record.state = JobState::kBuried;
  record.bury_order = 3;
  record.history = {1, 2, 3, 4, 5};
  commit(make_batch({update(record, Place::kNear)}));
  expect_holds(driver_, model_, "updated");
  record.priority = 0;
  record.state = JobState::kReady;
  record.history.kicks = std::numeric_limits<std::uint32_t>::max();
  commit(make_batch({update(record, Place::kNear)}));
  expect_holds(driver_, model_, "updated twice");
  commit(make_batch({erase_near(7, true)}));
  expect_holds(driver_, model_, "erased");
  EXPECT_FALSE(driver_.fetch(7)->has_value());
  restart();
  expect_holds(driver_, model_, "erased, restarted");
}

TEST_P(StoreConformance, AFarJobIsFoundSettledUpdatedAndErased) {
  JobRecord record = far_record(9, 2, 5'000);
  commit(make_batch({put(record, Place::kFar, "far away")}));
  expect_holds(driver_, model_, "put");
  record.body_size = 8;
  // Its record may change as it settles: a kick makes it ready.
  record.state = JobState::kReady;
  record.due_ms = 0;
  commit(make_batch({settle(record, 5'000)}));
  expect_holds(driver_, model_, "settled");
  EXPECT_TRUE(driver_.scan(2, {kMinTime, 0}, kMaxTime, 10)->jobs.empty());
  record.history.reserves = 1;
  commit(make_batch({update(record, Place::kSettled)}));
  expect_holds(driver_, model_, "updated");
  restart();
  expect_holds(driver_, model_, "restarted");
  commit(make_batch({erase_settled(9)}));
  expect_holds(driver_, model_, "erased");
  EXPECT_FALSE(driver_.fetch(9)->has_value());
}

TEST_P(StoreConformance, AFarJobIsErasedWithoutHavingBeenSettled) {
  commit(make_batch(
      {put(far_record(1, 1, 50), Place::kFar, "a"), put(far_record(2, 1, 50), Place::kFar, "b")}));
  commit(make_batch({erase_far(1, 1, 50)}));
  expect_holds(driver_, model_, "one erased");
  EXPECT_FALSE(driver_.fetch(1)->has_value());
  EXPECT_EQ(ids_of(*driver_.scan(1, {0, 0}, 100, 10)), Ids{2});
}

TEST_P(StoreConformance, OneBatchMayPutAndEraseTheSameJob) {
  JobRecord near = make_record(1);
  JobRecord far = far_record(2, 1, 10);
  std::vector<broker::Mutation> mutations;
  mutations.push_back(put(near, Place::kNear, "x"));
  near.body_size = 1;
  near.history.reserves = 1;
  mutations.push_back(update(near, Place::kNear));
  mutations.push_back(erase_near(1, true));
  mutations.push_back(put(far, Place::kFar, "y"));
  far.body_size = 1;
  mutations.push_back(settle(far, 10));
  mutations.push_back(erase_settled(2));
  mutations.push_back(put(make_record(3), Place::kNear, "z"));
  mutations.push_back(erase_near(3, false));
  commit(make_batch(std::move(mutations)));
  expect_holds(driver_, model_, "nothing left");
  EXPECT_TRUE(model_.jobs().empty());
  kill();
  expect_holds(driver_, model_, "nothing left after a kill");
}

TEST_P(StoreConformance, TubesAndThePartitionAreKept) {
  auto batch = make_batch();
  add_tube(*batch, {1, "orders", 12, 3'000, 0, 0});
  add_tube(*batch, {2, std::string("odd \0 name\xff", 11), 0, kMinTime, kMaxTime, 1});
  add_tube(*batch, {std::numeric_limits<TubeNumber>::max(), "last", 0, -1, 0, 0});
  PartitionRecord partition;
  partition.next_id = std::uint64_t{1} << 63;
  partition.latest_ms = 17;
  partition.anchor = {"b7f3", Span::min()};
  add_partition(*batch, partition);
  commit(std::move(batch));
  expect_holds(driver_, model_, "created");

  batch = make_batch();
  add_tube(*batch, {1, "orders", 11, 4'000, 5, 5});
  add_tube_erase(*batch, 2);
  partition.latest_ms = 18;
  add_partition(*batch, partition);
  partition.latest_ms = 19;
  add_partition(*batch, partition);  // The last of a batch stands.
  commit(std::move(batch));
  expect_holds(driver_, model_, "changed");
  restart();
  expect_holds(driver_, model_, "restarted");
  Recovered recovered;
  ASSERT_TRUE(driver_.recover(recovered));
  EXPECT_EQ(recovered.partition->latest_ms, 19);
  ASSERT_EQ(recovered.tubes.size(), 2U);
  EXPECT_EQ(recovered.tubes[0].far_count, 11U);
}

TEST_P(StoreConformance, BodiesOfEverySizeComeBackWhole) {
  std::vector<broker::Mutation> mutations;
  std::string big(3 << 20, '\0');
  for (std::size_t i = 0; i < big.size(); ++i) big[i] = static_cast<char>(i * 2'654'435'761U >> 13);
  mutations.push_back(put(make_record(1), Place::kNear, ""));
  mutations.push_back(put(make_record(2), Place::kNear, std::string(1, '\0')));
  mutations.push_back(put(make_record(3), Place::kNear, big));
  mutations.push_back(put(far_record(4, 1, 9), Place::kFar, ""));
  mutations.push_back(put(far_record(5, 1, 9), Place::kFar, big));
  mutations.push_back(put(make_record(6), Place::kNear, std::string(65'535, '\r')));
  commit(make_batch(std::move(mutations)));
  JobRecord settled = far_record(5, 1, 9);
  settled.body_size = static_cast<std::uint32_t>(big.size());
  commit(make_batch({settle(settled, 9)}));
  expect_holds(driver_, model_, "put");
  restart();
  expect_holds(driver_, model_, "restarted");
}

TEST_P(StoreConformance, ExtremeNumbersComeBackExactly) {
  constexpr JobId kNearTheTop = (std::uint64_t{1} << 63) - 1;
  JobRecord record;
  record.id = kNearTheTop;
  record.tube = std::numeric_limits<TubeNumber>::max();
  record.state = JobState::kDelayed;
  record.priority = std::numeric_limits<std::uint32_t>::max();
  record.due_ms = kMaxTime;
  record.ttr_ms = kMaxTime;
  record.delay_ms = kMinTime;
  record.created_ms = kMinTime;
  record.bury_order = std::numeric_limits<std::uint64_t>::max();
  record.history = {1, 2, 3, 4, std::numeric_limits<std::uint32_t>::max()};
  JobRecord after = record;
  after.id = kNearTheTop + 1;
  after.due_ms = -1;
  JobRecord before = record;
  before.id = std::numeric_limits<JobId>::max();
  before.due_ms = kMinTime;
  before.created_ms = kMaxTime;
  commit(make_batch({put(record, Place::kFar, "a"), put(after, Place::kFar, "b"),
                     put(before, Place::kFar, "c"), put(make_record(1), Place::kNear, "d")}));
  expect_holds(driver_, model_, "put");
  // Negative times come before positive ones.
  EXPECT_EQ(ids_of(*driver_.scan(record.tube, {kMinTime, 0}, kMaxTime, 10)),
            (Ids{before.id, after.id, record.id}));
  record.body_size = 1;
  commit(make_batch({settle(record, kMaxTime)}));
  restart();
  expect_holds(driver_, model_, "settled and restarted");
}

TEST_P(StoreConformance, ManyTubesAndJobsDoNotMix) {
  constexpr TubeNumber kTubes = 2'000;
  auto batch = make_batch();
  for (TubeNumber tube = 1; tube <= kTubes; ++tube) {
    add_tube(*batch, {tube, "tube-" + std::to_string(tube), 1, 0, 0, 0});
    batch->mutations.push_back(put(far_record(tube, tube, tube % 7), Place::kFar, "x"));
  }
  commit(std::move(batch));
  for (const TubeNumber tube : {TubeNumber{1}, TubeNumber{255}, TubeNumber{256}, kTubes}) {
    EXPECT_EQ(ids_of(*driver_.scan(tube, {kMinTime, 0}, kMaxTime, 10)), Ids{tube});
  }
  EXPECT_TRUE(driver_.scan(kTubes + 1, {kMinTime, 0}, kMaxTime, 10)->jobs.empty());
  Recovered recovered;
  ASSERT_TRUE(driver_.recover(recovered));
  EXPECT_EQ(recovered.tubes.size(), kTubes);
}

// Scans.

TEST_P(StoreConformance, AScanIsInOrderOfDueAndIdAndTellsWhatIsNext) {
  commit(make_batch(
      {put(far_record(4, 1, 10), Place::kFar, "a"), put(far_record(2, 1, 20), Place::kFar, "b"),
       put(far_record(3, 1, 10), Place::kFar, "c"), put(far_record(1, 1, 30), Place::kFar, "d"),
       put(far_record(5, 2, 1), Place::kFar, "other tube"),
       put(make_record(6), Place::kNear, "not far")}));
  Result<FarChunk> chunk = driver_.scan(1, {0, 0}, 20, 10);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(ids_of(*chunk), (Ids{3, 4, 2}));
  EXPECT_FALSE(chunk->more);
  EXPECT_EQ(chunk->next_due_ms, 30);
  for (const StoredJob& job : chunk->jobs) {
    EXPECT_FALSE(job.body);
    EXPECT_EQ(job.place, Place::kFar);
  }

  chunk = driver_.scan(1, {0, 0}, 20, 2);
  EXPECT_EQ(ids_of(*chunk), (Ids{3, 4}));
  EXPECT_TRUE(chunk->more);

  // Exactly the limit: nothing more that is due, but something later.
  chunk = driver_.scan(1, {0, 0}, 10, 2);
  EXPECT_EQ(ids_of(*chunk), (Ids{3, 4}));
  EXPECT_FALSE(chunk->more);
  EXPECT_EQ(chunk->next_due_ms, 20);

  // The cursor is a position: what is before it is consumed, what is at it is not.
  EXPECT_EQ(ids_of(*driver_.scan(1, {10, 4}, 20, 10)), (Ids{4, 2}));
  EXPECT_EQ(ids_of(*driver_.scan(1, {10, 5}, 20, 10)), Ids{2});
  EXPECT_EQ(ids_of(*driver_.scan(1, {11, 0}, 20, 10)), Ids{2});

  // Nothing due, something later; nothing at all.
  chunk = driver_.scan(1, {0, 0}, 9, 10);
  EXPECT_TRUE(chunk->jobs.empty());
  EXPECT_FALSE(chunk->more);
  EXPECT_EQ(chunk->next_due_ms, 10);
  chunk = driver_.scan(1, {31, 0}, 100, 10);
  EXPECT_TRUE(chunk->jobs.empty());
  EXPECT_FALSE(chunk->more);
  EXPECT_FALSE(chunk->next_due_ms.has_value());
}

TEST_P(StoreConformance, AScanInChunksSeesEveryJobOnceThoughTheyAreSettledMeanwhile) {
  constexpr JobId kJobs = 500;
  auto batch = make_batch();
  for (JobId id = 1; id <= kJobs; ++id) {
    // Several to a due time, so that chunks end inside one.
    batch->mutations.push_back(
        put(far_record(id, 1, static_cast<std::int64_t>(id * 7 % 90)), Place::kFar, "x"));
  }
  commit(std::move(batch));
  std::size_t seen = 0;
  FarCursor from{0, 0};
  for (bool more = true; more;) {
    Result<FarChunk> chunk = driver_.scan(1, from, 1'000, 33);
    ASSERT_TRUE(chunk);
    more = chunk->more;
    seen += chunk->jobs.size();
    auto settling = make_batch();
    for (const StoredJob& job : chunk->jobs) {
      settling->mutations.push_back(settle(job.record, job.record.due_ms));
      from = {job.record.due_ms, job.record.id + 1};
    }
    commit(std::move(settling));
  }
  EXPECT_EQ(seen, kJobs);
  expect_holds(driver_, model_, "all settled");
}

// Order.

TEST_P(StoreConformance, CommitsBecomeDurableInTheOrderSubmitted) {
  constexpr CommitSeq kCommits = 300;
  Mutex mutex;
  std::vector<CommitSeq> told;
  std::promise<void> last_told;
  for (JobId id = 1; id <= kCommits; ++id) {
    auto batch = make_batch({put(make_record(id), Place::kNear, "x")});
    batch->seq = driver_.next_seq();
    model_.apply(*batch);
    driver_.store().commit(std::move(batch), [&](CommitSeq seq, Result<void> result) {
      EXPECT_TRUE(result.has_value());
      const MutexLock lock(mutex);
      told.push_back(seq);
      if (seq == kCommits) last_told.set_value();
    });
  }
  last_told.get_future().get();
  const MutexLock lock(mutex);
  for (std::size_t i = 1; i < told.size(); ++i) EXPECT_LT(told[i - 1], told[i]);
}

TEST_P(StoreConformance, CallbacksHaveRunOrNeverWillOnceTheStoreIsGone) {
  auto counter = std::make_shared<std::atomic<int>>(0);
  for (JobId id = 1; id <= 50; ++id) {
    auto batch = make_batch({put(make_record(id), Place::kNear, "x")});
    batch->seq = driver_.next_seq();
    model_.apply(*batch);
    driver_.store().commit(std::move(batch), [counter](CommitSeq, Result<void>) { ++*counter; });
    driver_.store().fetch({{id, std::nullopt}}, [counter](const auto&) { ++*counter; });
  }
  restart();
  const int told = *counter;
  expect_holds(driver_, model_, "another store");
  EXPECT_EQ(*counter, told);
  EXPECT_EQ(counter.use_count(), 1) << "a callback of the old store lives on";
}

// Recovery.

TEST_P(StoreConformance, AnAcknowledgedJobSurvivesAKillAndAPowerCut) {
  JobId id = 0;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 10; ++i) {
      ++id;
      commit(make_batch({put(make_record(id), Place::kNear, "near"),
                         put(far_record(id + 1'000, 1, 7), Place::kFar, "far")}));
    }
    if (round % 2 == 0) {
      kill();
    } else {
      cut_power();
    }
    expect_holds(driver_, model_, "round " + std::to_string(round));
  }
}

TEST_P(StoreConformance, RecoveryMayBeRepeated) {
  commit(make_batch({put(make_record(1), Place::kNear, "x")}));
  expect_holds(driver_, model_, "first");
  expect_holds(driver_, model_, "second");
  commit(make_batch({erase_near(1, false)}));
  expect_holds(driver_, model_, "third");
}

TEST_P(StoreConformance, RandomProgramsAgreeWithTheModelAcrossRestarts) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const std::unique_ptr<StoreBench> bench = GetParam().make();
    StoreDriver driver(bench->store());
    Recovered empty;
    ASSERT_TRUE(driver.recover(empty));
    RandomProgram program(seed);
    for (int step = 0; step < 150; ++step) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", step " + std::to_string(step));
      const Result<void> result = driver.commit(program.next_batch());
      ASSERT_TRUE(result.has_value()) << result.error().message;
      const JobId id = program.any_id();
      const Result<std::optional<StoredJob>> job = driver.fetch(id);
      ASSERT_TRUE(job.has_value()) << job.error().message;
      const std::optional<StoredJob> expected = program.state().find(id);
      ASSERT_EQ(job->has_value(), expected.has_value()) << "job " << id;
      if (expected) {
        EXPECT_EQ((*job)->record, expected->record);
        EXPECT_EQ((*job)->place, expected->place);
        EXPECT_EQ((*job)->body.view(), expected->body.view());
      }
      Random& random = program.random();
      const auto tube = static_cast<TubeNumber>(random.below(RandomProgram::kTubes + 2));
      const FarCursor from{random.between(0, RandomProgram::kDueSpan), random.below(50)};
      const std::int64_t until = random.between(0, RandomProgram::kDueSpan);
      const std::size_t limit = 1 + random.below(20);
      const Result<FarChunk> chunk = driver.scan(tube, from, until, limit);
      ASSERT_TRUE(chunk.has_value()) << chunk.error().message;
      const FarChunk model_chunk = program.state().scan_far(tube, from, until, limit);
      EXPECT_EQ(ids_of(*chunk), ids_of(model_chunk));
      EXPECT_EQ(chunk->more, model_chunk.more);
      if (!chunk->more) {
        EXPECT_EQ(chunk->next_due_ms, model_chunk.next_due_ms);
      }
      if (random.one_in(25)) {
        switch (random.below(3)) {
          case 0: bench->restart(); break;
          case 1: bench->kill(); break;
          default: bench->cut_power(); break;
        }
        driver.use(bench->store());
        expect_holds(driver, program.state(), "reopened");
      }
      if (HasFailure()) return;
    }
    expect_holds(driver, program.state(), "seed " + std::to_string(seed) + ", at the end");
    if (HasFailure()) return;
  }
}

// Faults.

TEST_P(StoreFaults, AFailedCommitFailsEveryLaterOneUntilRecovered) {
  commit(make_batch({put(make_record(1), Place::kNear, "acknowledged")}));
  bench_->break_disk(ErrorCode::kIo);
  const Result<void> failed =
      driver_.commit(make_batch({put(make_record(2), Place::kNear, "lost or not")}));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kIo) << failed.error().message;
  bench_->repair_disk();
  EXPECT_FALSE(driver_.commit(make_batch({put(make_record(3), Place::kNear, "too early")})));

  Recovered recovered;
  ASSERT_TRUE(driver_.recover(recovered));
  // 1 is there; 2 may be; 3 is not, for it was never written.
  ASSERT_GE(recovered.jobs.size(), 1U);
  EXPECT_EQ(recovered.jobs[0].record.id, 1U);
  if (recovered.jobs.size() > 1) {
    EXPECT_EQ(recovered.jobs[1].record.id, 2U);
    model_.apply(*make_batch({put(make_record(2), Place::kNear, "lost or not")}));
  }
  commit(make_batch({put(make_record(4), Place::kNear, "again in service")}));
  expect_holds(driver_, model_, "recovered");
  cut_power();
  expect_holds(driver_, model_, "recovered, then the power failed");
}

TEST_P(StoreFaults, AFullDiskIsNamedAndLosesNothing) {
  commit(make_batch({put(make_record(1), Place::kNear, "acknowledged"),
                     put(far_record(2, 1, 5), Place::kFar, "far")}));
  bench_->break_disk(ErrorCode::kNoSpace);
  const Result<void> failed = driver_.commit(make_batch({put(make_record(3), Place::kNear, "x")}));
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, ErrorCode::kNoSpace) << failed.error().message;
  for (int attempt = 0; attempt < 3; ++attempt) {
    Recovered recovered;
    const Result<void> result = driver_.recover(recovered);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kNoSpace) << result.error().message;
    EXPECT_FALSE(driver_.commit(make_batch({erase_near(1, false)})));
  }
  bench_->repair_disk();
  Recovered recovered;
  const Result<void> result = driver_.recover(recovered);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  if (recovered.jobs.size() > 1) {
    model_.apply(*make_batch({put(make_record(3), Place::kNear, "x")}));
  }
  expect_holds(driver_, model_, "space is back");
  commit(make_batch({erase_near(1, false), erase_far(2, 1, 5)}));
  kill();
  expect_holds(driver_, model_, "in service, then killed");
}

TEST_P(StoreFaults, CommitsInFlightWhenOneFailsAllGetAnAnswer) {
  bench_->break_disk(ErrorCode::kIo);
  constexpr CommitSeq kCommits = 40;
  std::vector<std::promise<bool>> succeeded(kCommits + 1);
  for (CommitSeq i = 1; i <= kCommits; ++i) {
    auto batch = make_batch({put(make_record(i), Place::kNear, "x")});
    batch->seq = driver_.next_seq();
    driver_.store().commit(std::move(batch), [&succeeded](CommitSeq seq, Result<void> result) {
      succeeded[seq].set_value(result.has_value());
    });
  }
  for (CommitSeq i = 1; i <= kCommits; ++i) EXPECT_FALSE(succeeded[i].get_future().get());
  bench_->repair_disk();
  Recovered recovered;
  ASSERT_TRUE(driver_.recover(recovered));
  // A prefix of them, if any.
  for (std::size_t i = 0; i < recovered.jobs.size(); ++i) {
    EXPECT_EQ(recovered.jobs[i].record.id, i + 1);
  }
}

TEST_P(StoreFaults, AKillWhileTheDiskIsBrokenLosesNothingAcknowledged) {
  for (JobId id = 1; id <= 20; ++id) {
    commit(make_batch({put(make_record(id), Place::kNear, "acknowledged")}));
  }
  bench_->break_disk(ErrorCode::kNoSpace);
  EXPECT_FALSE(driver_.commit(make_batch({put(make_record(21), Place::kNear, "x")})));
  Recovered ignored;
  EXPECT_FALSE(driver_.recover(ignored));
  bench_->repair_disk();
  kill();
  Recovered recovered;
  ASSERT_TRUE(driver_.recover(recovered));
  ASSERT_GE(recovered.jobs.size(), 20U);
  if (recovered.jobs.size() > 20) {
    model_.apply(*make_batch({put(make_record(21), Place::kNear, "x")}));
  }
  expect_holds(driver_, model_, "killed");
}

}  // namespace carillon::store::testing
