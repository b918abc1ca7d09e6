// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/memory/volatile_store.h"

#include <gtest/gtest.h>

#include "carillon/store/store_testing.h"

namespace carillon::store {
namespace {

using testing::make_batch;
using testing::make_record;
using testing::put;

TEST(VolatileStore, AcknowledgesAtOnceAndKeepsNothing) {
  VolatileStore store;
  EXPECT_FALSE(store.keeps_far_jobs());
  EXPECT_FALSE(store.keeps_bodies());
  EXPECT_TRUE(store.accepts_puts());
  testing::StoreDriver driver(store);
  EXPECT_TRUE(driver.commit(make_batch({put(make_record(1), broker::Place::kNear, "x")})));
  EXPECT_FALSE(driver.fetch(1)->has_value());
  const auto chunk = driver.scan(1, {0, 0}, 100, 10);
  ASSERT_TRUE(chunk);
  EXPECT_TRUE(chunk->jobs.empty());
  EXPECT_FALSE(chunk->more);
  EXPECT_FALSE(chunk->next_due_ms.has_value());
  testing::Recovered recovered;
  ASSERT_TRUE(driver.recover(recovered));
  EXPECT_TRUE(recovered.jobs.empty());
}

TEST(VolatileStore, FreesTheBatchBeforeItAnswers) {
  VolatileStore store;
  auto batch = make_batch({put(make_record(1), broker::Place::kNear, "x")});
  batch->seq = 41;
  broker::CommitSeq told = 0;
  store.commit(std::move(batch), [&told](broker::CommitSeq seq, Result<void> result) {
    EXPECT_TRUE(result.has_value());
    told = seq;
  });
  EXPECT_EQ(told, 41U);
}

}  // namespace
}  // namespace carillon::store
