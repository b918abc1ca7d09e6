// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/log_pace.h"

#include <gtest/gtest.h>

namespace carillon::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LogPace, OneLineInAnIntervalAndNothingIsForgotten) {
  LogPace pace{seconds(10)};
  const Instant start{seconds(5)};
  EXPECT_EQ(pace.count(), 0);
  EXPECT_EQ(pace.note(start), 1) << "the first is told at once";
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(pace.note(start + seconds(9)), std::nullopt);
  EXPECT_EQ(pace.note(start + seconds(10) - milliseconds(1)), std::nullopt);
  EXPECT_EQ(pace.note(start + seconds(10)), 1'002);
  EXPECT_EQ(pace.note(start + seconds(11)), std::nullopt);
  EXPECT_EQ(pace.note(start + seconds(60)), 2);
  EXPECT_EQ(pace.count(), 1'005);
}

}  // namespace
}  // namespace carillon::server
