// SPDX-License-Identifier: Apache-2.0
#include "order_book.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>

#include "carillon/base/check.h"
#include "carillon/base/random.h"

namespace carillon::order_demo {
namespace {

constexpr std::size_t kMaxDetails = 8;
constexpr std::string_view kOrderField = R"({"order":)";
constexpr std::string_view kAttemptField = R"(,"attempt":)";

// A customer who pays at the last moment does so this long before the order lapses.
constexpr Span kPayMargin = std::chrono::milliseconds(300);

// Takes `field` and the number behind it off the front of `text`; false if it is not there.
bool take_number(std::string_view& text, std::string_view field, std::uint32_t& number) {
  if (!text.starts_with(field)) {
    return false;
  }
  text.remove_prefix(field.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc{};
}

double seconds(Span span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

OrderPlan OrderPlans::plan(std::uint32_t order) const {
  Random scatter(seed ^ (order * 0xd1342543de82ef95U));
  Random random(scatter());
  OrderPlan plan{};
  plan.delay = std::chrono::seconds(random.between(min_delay_s, max_delay_s));
  plan.is_paid = random.below(10) != 0;
  const Span latest = plan.delay - kPayMargin;
  plan.pay_after = Span(random.between(0, latest.count()));
  plan.pri = static_cast<std::uint32_t>(random.below(2048));
  plan.filler_size = static_cast<std::uint32_t>(random.below(80));
  return plan;
}

OrderBook::OrderBook(OrderPlans plans, std::uint32_t orders)
    : plans_(plans),
      outcomes_(orders, Outcome::kOpen),
      last_copy_(orders, kUnknown),
      was_put_(orders, false) {
  copies_.reserve(orders + orders / 16);
}

std::uint32_t OrderBook::put_sent(std::uint32_t order, Instant now) {
  Copy copy;
  copy.order = order;
  copy.put_at = now;
  copy.due_at = now + plan(order).delay;
  if (last_copy_[order] != kUnknown) {
    copy.previous = last_copy_[order];
    copy.attempt = copies_[copy.previous].attempt + 1;
  }
  const auto index = static_cast<std::uint32_t>(copies_.size());
  last_copy_[order] = index;
  copies_.push_back(copy);
  return index;
}

void OrderBook::put_acknowledged(std::uint32_t index, std::uint64_t job_id, Instant now) {
  Copy& copy = copies_[index];
  CARILLON_CHECK(copy.acknowledged_at == Instant{}, "put acknowledged twice");
  if (copy.job_id != 0 && copy.job_id != job_id) {
    violate(Violation::kBody, fmt::format("order {}: put as job {}, but delivered as job {}",
                                          copy.order, job_id, copy.job_id));
  }
  copy.job_id = job_id;
  copy.acknowledged_at = now;
  if (copy.deliveries == 0) {
    ++unsettled_copies_;
  }
  if (!was_put_[copy.order]) {
    was_put_[copy.order] = true;
    ++put_;
  }
}

void OrderBook::put_cut_off(std::uint32_t index) { copies_[index].put_cut_off = true; }

void OrderBook::settle(Copy& copy) {
  const bool was_settled = copy.is_deleted || copy.is_gone || copy.deliveries > 0;
  copy.is_deleted = true;
  if (!was_settled && copy.acknowledged_at != Instant{}) {
    --unsettled_copies_;
  }
}

void OrderBook::set_outcome(std::uint32_t order, Outcome outcome) {
  Outcome& current = outcomes_[order];
  if (current == Outcome::kOpen) {
    ++closed_;
  } else {
    (current == Outcome::kPaid ? paid_ : cancelled_) -= 1;
  }
  (outcome == Outcome::kPaid ? paid_ : cancelled_) += 1;
  current = outcome;
}

void OrderBook::payment_deleted(std::uint32_t index) {
  Copy& copy = copies_[index];
  if (copy.deliveries > 0) {
    violate(Violation::kCameBack, fmt::format("order {}: job {} was deleted by the payment and "
                                              "delivered as well",
                                              copy.order, copy.job_id));
  }
  settle(copy);
  if (is_open(copy.order)) {
    set_outcome(copy.order, Outcome::kPaid);
  }
}

void OrderBook::payment_not_found(std::uint32_t index, bool retried) {
  Copy& copy = copies_[index];
  if (!retried || copy.deliveries > 0) {
    return;  // a worker has it, or is about to be seen to have it; if not, close() calls it lost
  }
  copy.is_gone = true;
  --unsettled_copies_;
  if (is_open(copy.order)) {
    set_outcome(copy.order, Outcome::kPaid);
  }
}

std::uint32_t OrderBook::find(std::string_view body) const {
  std::uint32_t order = 0;
  std::uint32_t attempt = 0;
  if (!take_number(body, kOrderField, order) || !take_number(body, kAttemptField, attempt) ||
      order >= outcomes_.size()) {
    return kUnknown;
  }
  std::uint32_t index = last_copy_[order];
  while (index != kUnknown && copies_[index].attempt > attempt) {
    index = copies_[index].previous;
  }
  return index != kUnknown && copies_[index].attempt == attempt ? index : kUnknown;
}

std::uint32_t OrderBook::delivered(std::uint64_t job_id, std::string_view text, Instant now) {
  const std::uint32_t index = find(text);
  if (index == kUnknown) {
    violate(Violation::kBody, fmt::format("job {} has a body that was never put", job_id));
    return kUnknown;
  }
  Copy& copy = copies_[index];
  if (text != body(index) || (copy.job_id != 0 && copy.job_id != job_id)) {
    violate(Violation::kBody, fmt::format("order {}: job {} came with the body of job {}, or a "
                                          "changed one",
                                          copy.order, job_id, copy.job_id));
  }
  if (now < copy.due_at) {
    violate(Violation::kEarly, fmt::format("order {}: job {} was delivered {:.6f} s early",
                                           copy.order, job_id, seconds(copy.due_at - now)));
  }
  if (copy.is_deleted) {
    violate(Violation::kCameBack, fmt::format("order {}: job {} was delivered after its delete "
                                              "was acknowledged",
                                              copy.order, job_id));
    return index;
  }
  copy.job_id = job_id;
  if (++copy.deliveries > 1) {
    if (copy.finish_cut_off) {
      ++redelivered_;
      copy.finish_cut_off = false;
    } else {
      violate(Violation::kTwice, fmt::format("order {}: job {} was delivered twice, and the kill "
                                             "does not explain it",
                                             copy.order, job_id));
    }
    return index;
  }
  copy.delivered_at = now;
  if (copy.acknowledged_at != Instant{} && !copy.is_gone) {
    --unsettled_copies_;
  }
  if (!was_put_[copy.order]) {
    was_put_[copy.order] = true;
    ++put_;
  }
  if (is_open(copy.order)) {
    set_outcome(copy.order, Outcome::kCancelled);
  } else if (copy.is_gone) {
    copy.is_gone = false;  // the payment found the job in a worker's hands, not deleted
    set_outcome(copy.order, Outcome::kCancelled);
  } else {
    ++second_copies_;
  }
  return index;
}

void OrderBook::finish_not_found(std::uint32_t index) {
  const Copy& copy = copies_[index];
  violate(Violation::kVanished,
          fmt::format("order {}: job {} vanished while a worker held it", copy.order, copy.job_id));
}

void OrderBook::close() {
  for (const Copy& copy : copies_) {
    const bool acknowledged = copy.acknowledged_at != Instant{};
    if (acknowledged && !copy.is_deleted && !copy.is_gone && copy.deliveries == 0) {
      violate(Violation::kLost, fmt::format("order {}: job {} was acknowledged and never delivered",
                                            copy.order, copy.job_id));
    }
  }
}

std::uint32_t OrderBook::paid_too_late() const {
  std::uint32_t count = 0;
  for (std::uint32_t order = 0; order < orders(); ++order) {
    count += outcomes_[order] == Outcome::kCancelled && plan(order).is_paid ? 1 : 0;
  }
  return count;
}

bool OrderBook::is_clean() const {
  for (const std::uint32_t count : violations_) {
    if (count > 0) {
      return false;
    }
  }
  return put_ == orders() && paid_ + cancelled_ == put_;
}

void OrderBook::violate(Violation kind, const std::string& detail) {
  ++violations_[static_cast<std::size_t>(kind)];
  if (details_.size() < kMaxDetails) {
    details_.push_back(detail);
  }
}

std::string OrderBook::body(std::uint32_t index) const {
  const Copy& copy = copies_[index];
  const OrderPlan plan = plans_.plan(copy.order);
  return fmt::format(R"({}{}{}{},"due_us":{},"customer":"C-{:06}","total":"{}.{:02} EUR",)"
                     R"("then":"cancel","note":"{:.<{}}"}})",
                     kOrderField, copy.order, kAttemptField, copy.attempt,
                     copy.due_at.time_since_epoch().count() / 1000, plan.pri * 449U,
                     plan.filler_size * 3 + 5, plan.pri % 100, "", plan.filler_size);
}

}  // namespace carillon::order_demo
