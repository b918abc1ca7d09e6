// SPDX-License-Identifier: Apache-2.0
// The judge must be able to fail: each thing a server may do wrong is done here, and found.
#include "order_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string>

#include "report.h"

namespace carillon::order_demo {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Instant at(Span since_start) { return Instant(seconds(1000)) + since_start; }

class OrderBookTest : public testing::Test {
 protected:
  // Orders lapse after exactly 2 s.
  OrderBook book{{.seed = 1, .min_delay_s = 2, .max_delay_s = 2}, 2};

  std::uint32_t put(std::uint32_t order, std::uint64_t job_id, Span when = {}) {
    const std::uint32_t copy = book.put_sent(order, at(when));
    book.put_acknowledged(copy, job_id, at(when + milliseconds(1)));
    return copy;
  }
  void deliver(std::uint32_t copy, Span when) {
    EXPECT_EQ(book.delivered(book.copy(copy).job_id, book.body(copy), at(when)), copy);
  }
  std::uint32_t total_violations() const {
    std::uint32_t sum = 0;
    for (std::size_t kind = 0; kind < kViolations; ++kind) {
      sum += book.violations(static_cast<Violation>(kind));
    }
    return sum;
  }
};

TEST_F(OrderBookTest, OneOrderPaidAndOneCancelledIsClean) {
  const auto paid = put(0, 10);
  const auto unpaid = put(1, 11);
  book.payment_deleted(paid);
  deliver(unpaid, seconds(2));
  book.finish_acknowledged(unpaid);
  EXPECT_TRUE(book.is_settled());
  book.close();
  EXPECT_TRUE(book.is_clean());
  EXPECT_EQ(book.paid(), 1U);
  EXPECT_EQ(book.cancelled(), 1U);
}

TEST_F(OrderBookTest, JobNeverDeliveredIsLost) {
  put(0, 10);
  book.payment_deleted(put(1, 11));
  EXPECT_FALSE(book.is_settled());
  book.close();
  EXPECT_EQ(book.violations(Violation::kLost), 1U);
  EXPECT_FALSE(book.is_clean());
}

TEST_F(OrderBookTest, NotFoundWithoutDeliveryIsLostUnlessADeleteWasCutOff) {
  book.payment_not_found(put(0, 10), /*retried=*/false);
  book.payment_not_found(put(1, 11), /*retried=*/true);
  book.close();
  EXPECT_EQ(book.violations(Violation::kLost), 1U);
  EXPECT_EQ(book.paid(), 1U);
}

TEST_F(OrderBookTest, OneNanosecondBeforeItsTimeIsEarly) {
  deliver(put(0, 10), seconds(2) - Span(1));
  EXPECT_EQ(book.violations(Violation::kEarly), 1U);
  deliver(put(1, 11), seconds(2));
  EXPECT_EQ(book.violations(Violation::kEarly), 1U);
}

TEST_F(OrderBookTest, SecondDeliveryNeedsACause) {
  const auto held_at_kill = put(0, 10);
  const auto not_held = put(1, 11);
  deliver(held_at_kill, seconds(3));
  book.finish_cut_off(held_at_kill);
  deliver(held_at_kill, seconds(4));
  EXPECT_EQ(book.redelivered(), 1U);
  EXPECT_EQ(total_violations(), 0U);
  deliver(held_at_kill, seconds(5));
  EXPECT_EQ(book.violations(Violation::kTwice), 1U);
  deliver(not_held, seconds(3));
  deliver(not_held, seconds(4));
  EXPECT_EQ(book.violations(Violation::kTwice), 2U);
}

TEST_F(OrderBookTest, DeliveryAfterAcknowledgedDeleteCameBack) {
  const auto paid = put(0, 10);
  const auto finished = put(1, 11);
  book.payment_deleted(paid);
  deliver(paid, seconds(3));
  EXPECT_EQ(book.violations(Violation::kCameBack), 1U);
  deliver(finished, seconds(3));
  book.finish_acknowledged(finished);
  deliver(finished, seconds(4));
  EXPECT_EQ(book.violations(Violation::kCameBack), 2U);
  EXPECT_EQ(book.paid(), 1U);
}

TEST_F(OrderBookTest, DeleteAcknowledgedForADeliveredJobIsAViolation) {
  const auto copy = put(0, 10);
  deliver(copy, seconds(2));
  book.payment_deleted(copy);
  EXPECT_EQ(book.violations(Violation::kCameBack), 1U);
}

TEST_F(OrderBookTest, PutCutOffMayBeThereOrNotButOnlyOnce) {
  const auto first = book.put_sent(0, at({}));
  book.put_cut_off(first);
  const auto second = put(0, 12, milliseconds(500));
  EXPECT_EQ(book.copy(second).attempt, 2U);
  book.payment_deleted(second);
  EXPECT_EQ(book.put(), 1U);
  // The first copy did survive: its job id is learnt from the delivery.
  EXPECT_EQ(book.delivered(9, book.body(first), at(seconds(2))), first);
  EXPECT_EQ(book.second_copies(), 1U);
  EXPECT_EQ(total_violations(), 0U);
  EXPECT_EQ(book.paid(), 1U);
  EXPECT_EQ(book.delivered(9, book.body(first), at(seconds(3))), first);
  EXPECT_EQ(book.violations(Violation::kTwice), 1U);
}

TEST_F(OrderBookTest, EachAcknowledgedCopyOfAnOrderMustEnd) {
  const auto first = book.put_sent(0, at({}));
  book.put_cut_off(first);
  put(0, 12);
  book.payment_deleted(put(1, 13));
  EXPECT_EQ(book.delivered(9, book.body(first), at(seconds(2))), first);
  EXPECT_FALSE(book.is_settled());
  book.close();
  EXPECT_EQ(book.violations(Violation::kLost), 1U);
}

TEST_F(OrderBookTest, PaymentRetriedWhileAWorkerHoldsTheJobDoesNotCount) {
  const auto copy = put(0, 10);
  book.payment_not_found(copy, /*retried=*/true);
  EXPECT_EQ(book.paid(), 1U);
  deliver(copy, seconds(2));
  EXPECT_EQ(book.paid(), 0U);
  EXPECT_EQ(book.cancelled(), 1U);
  EXPECT_EQ(total_violations(), 0U);
}

TEST_F(OrderBookTest, ForeignAndChangedBodiesAreNoticed) {
  const auto copy = put(0, 10);
  EXPECT_EQ(book.delivered(77, "hello", at(seconds(3))), OrderBook::kUnknown);
  EXPECT_EQ(book.violations(Violation::kBody), 1U);
  std::string changed = book.body(copy);
  changed.back() = '!';
  book.delivered(10, changed, at(seconds(3)));
  EXPECT_EQ(book.violations(Violation::kBody), 2U);
  book.delivered(99, book.body(put(1, 11)), at(seconds(3)));
  EXPECT_EQ(book.violations(Violation::kBody), 3U);
}

TEST_F(OrderBookTest, JobGoneFromUnderItsWorkerIsNoticed) {
  const auto copy = put(0, 10);
  deliver(copy, seconds(2));
  book.finish_not_found(copy);
  EXPECT_EQ(book.violations(Violation::kVanished), 1U);
}

TEST_F(OrderBookTest, OrderNeverPutDoesNotAddUp) {
  book.payment_deleted(put(0, 10));
  book.close();
  EXPECT_EQ(total_violations(), 0U);
  EXPECT_FALSE(book.is_clean());
}

TEST(OrderPlans, SameSeedSamePlanAndEverythingInRange) {
  const OrderPlans plans{.seed = 7, .min_delay_s = 2, .max_delay_s = 20};
  std::uint32_t paid = 0;
  for (std::uint32_t order = 0; order < 10'000; ++order) {
    const OrderPlan plan = plans.plan(order);
    const OrderPlan same = plans.plan(order);
    EXPECT_TRUE(plan.delay == same.delay && plan.pay_after == same.pay_after);
    EXPECT_THAT(plan.delay, testing::AllOf(testing::Ge(seconds(2)), testing::Le(seconds(20))));
    EXPECT_LT(plan.pay_after, plan.delay);
    paid += plan.is_paid ? 1 : 0;
  }
  EXPECT_NEAR(paid, 9'000, 200);
}

TEST_F(OrderBookTest, BodySizeIsAHundredToTwoHundredBytes) {
  for (std::uint32_t order = 0; order < 2; ++order) {
    EXPECT_THAT(book.body(put(order, order + 1)).size(),
                testing::AllOf(testing::Ge(100U), testing::Le(200U)));
  }
}

TEST(Percentiles, NearestRank) {
  EXPECT_EQ(percentiles({}).max, Span(0));
  std::vector<Span> spans;
  for (int i = 1000; i >= 1; --i) {
    spans.emplace_back(i);
  }
  const Percentiles p = percentiles(spans);
  EXPECT_EQ(p.p50, Span(500));
  EXPECT_EQ(p.p99, Span(990));
  EXPECT_EQ(p.p999, Span(999));
  EXPECT_EQ(p.max, Span(1000));
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
  return most;
}

TEST_F(OrderBookTest, WhatIsPrintedFitsEightyColumns) {
  Options options;
  options.server = "/usr/local/bin/carillon";
  options.orders = 10'000'000;
  options.seed = ~std::uint64_t{0};
  EXPECT_LE(widest(banner(options)), 80U);
  EXPECT_LE(widest(how_to_talk(65'535, 4'194'304, "/var/tmp/order-demo-XXXXXX")), 80U);

  deliver(put(0, 1), seconds(900));
  Report report{.options = options,
                .outage = Outage{},
                .put_time = seconds(12'345),
                .run_time = seconds(12'345),
                .left_in_tube = 10'000'000};
  report.outage->killed_at = at(seconds(2'000));
  report.outage->up_at = at(seconds(3'000));
  report.outage->puts_cut_off = 10'000'000;
  report.outage->finishes_cut_off = 10'000'000;
  const std::string table = to_table(report, book);
  EXPECT_LE(widest(table), 80U) << table;
}

TEST_F(OrderBookTest, WithoutAKillNothingIsSaidOfOne) {
  put(0, 1);
  Report report{.options = {},
                .outage = {},
                .put_time = milliseconds(7),
                .run_time = seconds(2),
                .left_in_tube = 0};
  report.options.kills = false;
  const std::string text = banner(report.options) + to_table(report, book);
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("kill")));
  EXPECT_THAT(text, testing::HasSubstr("over 7 ms"));
}

TEST_F(OrderBookTest, LatenessLeavesOutTheOutageAndItsBacklogOnly) {
  const auto in_outage = put(0, 10);          // due at 2 s
  const auto after = put(1, 11, seconds(4));  // due at 6 s
  deliver(in_outage, seconds(5));
  deliver(after, seconds(6) + milliseconds(3));
  const Outage outage{.killed_at = at(seconds(1)), .up_at = at(seconds(4))};
  const Lateness late = lateness(book, outage);
  EXPECT_EQ(late.excluded, 1U);
  EXPECT_EQ(late.drained_at, at(seconds(5)));
  EXPECT_EQ(late.since_sent.max, milliseconds(3));
  EXPECT_EQ(late.since_acknowledged.max, milliseconds(2));
  EXPECT_EQ(lateness(book, std::nullopt).since_sent.max, seconds(3));
}

}  // namespace
}  // namespace carillon::order_demo
