// SPDX-License-Identifier: Apache-2.0
// What a store keeps of schedules: the rest of StoreConformance.
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "carillon/store/store_conformance.h"

namespace carillon::store::testing {
namespace {

using Kind = broker::Mutation::Kind;

broker::ScheduleRecord make_schedule(std::string name) {
  broker::ScheduleRecord record;
  record.settings.name = std::move(name);
  record.settings.tube = "reports";
  record.settings.spec = "CRON_TZ=Europe/Amsterdam 30 2 * * *";
  record.settings.body = broker::Body(std::string("b\0dy\xff", 5));
  record.settings.priority = std::numeric_limits<std::uint32_t>::max();
  record.settings.missed = broker::Missed::kSkip;
  record.settings.overlap = broker::Overlap::kQueue;
  record.settings.jitter_ms = 86'400'000;
  broker::JobExtras extras;
  extras.content_type = "text/plain";
  extras.max_attempts = 3;
  extras.backoff_base_ms = 1'000;
  extras.backoff_cap_ms = 60'000;
  extras.backoff_jitter = true;
  record.settings.extras = std::make_shared<const broker::JobExtras>(std::move(extras));
  record.progress.due_ms = 1'774'744'200'000;
  record.progress.as_of_ms = -1;
  return record;
}

}  // namespace

TEST_P(StoreConformance, SchedulesAreKeptWithTheirProgress) {
  auto batch = make_batch();
  add_schedule(*batch, Kind::kSchedule, make_schedule("daily"));
  add_schedule(*batch, Kind::kSchedule, make_schedule(std::string("odd \0 name\xff", 11)));
  broker::ScheduleRecord plain;
  plain.settings.name = "plain";
  plain.settings.tube = "t";
  add_schedule(*batch, Kind::kSchedule, plain);
  commit(std::move(batch));
  expect_holds(driver_, model_, "set");
  kill();
  expect_holds(driver_, model_, "set, and killed");

  broker::ScheduleRecord progress;
  progress.settings.name = "daily";
  progress.progress.queued_ms = 5;
  progress.progress.last_ms = 4;
  progress.progress.last_job = std::uint64_t{1} << 63;
  progress.progress.runs = 1;
  progress.progress.missed = 2;
  progress.progress.skipped = 3;
  batch = make_batch({put(make_record(1), broker::Place::kNear, "instance")});
  add_schedule(*batch, Kind::kScheduleProgress, progress);
  add_schedule(*batch, Kind::kEraseSchedule, plain);
  commit(std::move(batch));
  expect_holds(driver_, model_, "gone on");
  restart();
  expect_holds(driver_, model_, "gone on, and restarted");
  Recovered recovered;
  ASSERT_TRUE(driver_.recover(recovered));
  EXPECT_EQ(recovered.schedules.size(), 2U);
  EXPECT_EQ(recovered.schedules.at("daily").progress, progress.progress);
  EXPECT_EQ(recovered.schedules.at("daily").settings, make_schedule("daily").settings);

  // Erased and set again in one batch: the last stands.
  batch = make_batch();
  add_schedule(*batch, Kind::kEraseSchedule, make_schedule("daily"));
  add_schedule(*batch, Kind::kSchedule, make_schedule("daily"));
  commit(std::move(batch));
  restart();
  expect_holds(driver_, model_, "set again");
}

}  // namespace carillon::store::testing
