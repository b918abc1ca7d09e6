// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The record of every order, kept outside the server, and the judge of what the server did.
///
/// The book is told what was sent and what was answered. A command whose answer the kill cut off
/// may or may not have been carried out, so:
///
///     cut off          the driver then        and the book accepts
///     ---------------  ---------------------  ---------------------------------------------
///     put              puts the order again   a delivery of the first copy, once, or none
///     payment          deletes again          NOT_FOUND: it was done, or the job comes yet
///     reservation,     nothing                one more delivery of that job, or none
///     final delete
///
/// Anything else is a violation: a job acknowledged but never delivered (lost), delivered before
/// its time (early), twice without such a cause, after its delete was acknowledged (came back), or
/// with another body.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/time.h"

namespace carillon::order_demo {

/// What is decided about an order before the run; the same for the same seed.
struct OrderPlan {
  Span delay;      ///< whole seconds
  bool is_paid;    ///< the customer pays, at `pay_after`
  Span pay_after;  ///< since the put; before `delay`
  std::uint32_t pri;
  std::uint32_t filler_size;
};

struct OrderPlans {
  std::uint64_t seed;
  std::int64_t min_delay_s;
  std::int64_t max_delay_s;

  [[nodiscard]] OrderPlan plan(std::uint32_t order) const;
};

/// What an order came to.
enum class Outcome : std::uint8_t { kOpen, kPaid, kCancelled };

/// One job put for an order. An order has one, or more if a put was cut off.
struct Copy {
  std::uint32_t order = 0;
  std::uint32_t attempt = 1;   ///< 1, 2, ...; part of the body
  std::uint32_t previous = 0;  ///< the copy of attempt - 1, if attempt > 1
  std::uint64_t job_id = 0;    ///< 0: the put was not acknowledged (yet)
  Instant put_at;              ///< when the command was sent
  Instant acknowledged_at;
  Instant due_at;        ///< put_at + delay: not to be delivered before
  Instant delivered_at;  ///< first time
  std::uint32_t deliveries = 0;
  bool put_cut_off = false;
  bool finish_cut_off = false;  ///< one more delivery has a cause
  bool is_deleted = false;      ///< DELETED was received
  bool is_gone = false;         ///< a payment cut off, tried again, was answered NOT_FOUND
};

enum class Violation : std::uint8_t { kLost, kEarly, kTwice, kCameBack, kBody, kVanished };
inline constexpr std::size_t kViolations = 6;

class OrderBook {
 public:
  explicit OrderBook(OrderPlans plans, std::uint32_t orders);

  /// Notes that a put of `order` is sent now; returns the index of its copy.
  std::uint32_t put_sent(std::uint32_t order, Instant now);
  void put_acknowledged(std::uint32_t copy, std::uint64_t job_id, Instant now);
  void put_cut_off(std::uint32_t copy);

  /// Whether a payment of this order makes sense still.
  [[nodiscard]] bool is_open(std::uint32_t order) const {
    return outcomes_[order] == Outcome::kOpen;
  }
  void payment_deleted(std::uint32_t copy);
  /// The job was taken by a worker, or, if `retried`, was perhaps deleted before the kill.
  void payment_not_found(std::uint32_t copy, bool retried);

  /// A worker got a job with this body. Returns the copy, or kUnknown if it is none of ours.
  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
  std::uint32_t delivered(std::uint64_t job_id, std::string_view body, Instant now);
  /// Delete by the worker: acknowledged, cut off, or NOT_FOUND though it holds the job.
  void finish_acknowledged(std::uint32_t copy) { settle(copies_[copy]); }
  void finish_cut_off(std::uint32_t copy) { copies_[copy].finish_cut_off = true; }
  void finish_not_found(std::uint32_t copy);

  /// Whether nothing more can happen: each order has its outcome and each acknowledged job its end.
  [[nodiscard]] bool is_settled() const {
    return closed_ == outcomes_.size() && unsettled_copies_ == 0;
  }
  /// Counts what is not settled as lost. To be called once, when waiting longer makes no sense.
  void close();

  [[nodiscard]] const Copy& copy(std::uint32_t index) const { return copies_[index]; }
  [[nodiscard]] const std::vector<Copy>& copies() const { return copies_; }
  [[nodiscard]] OrderPlan plan(std::uint32_t order) const { return plans_.plan(order); }
  /// The body of a job: order number, attempt, due time, and text to fill about 110 to 190 bytes.
  [[nodiscard]] std::string body(std::uint32_t copy) const;

  [[nodiscard]] std::uint32_t orders() const {
    return static_cast<std::uint32_t>(outcomes_.size());
  }
  [[nodiscard]] std::uint32_t put() const { return put_; }
  [[nodiscard]] std::uint32_t paid() const { return paid_; }
  [[nodiscard]] std::uint32_t cancelled() const { return cancelled_; }
  /// Of the cancelled ones: the customer did pay, but the job had fired by then.
  [[nodiscard]] std::uint32_t paid_too_late() const;
  [[nodiscard]] std::uint32_t redelivered() const { return redelivered_; }
  [[nodiscard]] std::uint32_t second_copies() const { return second_copies_; }

  [[nodiscard]] std::uint32_t violations(Violation kind) const {
    return violations_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] bool is_clean() const;
  /// The first few violations, a line each.
  [[nodiscard]] const std::vector<std::string>& details() const { return details_; }

 private:
  void settle(Copy& copy);
  void set_outcome(std::uint32_t order, Outcome outcome);
  void violate(Violation kind, const std::string& detail);
  [[nodiscard]] std::uint32_t find(std::string_view body) const;

  OrderPlans plans_;
  std::vector<Copy> copies_;
  std::vector<Outcome> outcomes_;         // by order
  std::vector<std::uint32_t> last_copy_;  // by order; kUnknown before the first put
  std::vector<bool> was_put_;             // by order
  std::uint32_t put_ = 0;
  std::uint32_t paid_ = 0;
  std::uint32_t cancelled_ = 0;
  std::uint32_t closed_ = 0;
  std::uint32_t unsettled_copies_ = 0;  // acknowledged, neither deleted nor gone nor delivered
  std::uint32_t redelivered_ = 0;
  std::uint32_t second_copies_ = 0;
  std::array<std::uint32_t, kViolations> violations_{};
  std::vector<std::string> details_;
};

}  // namespace carillon::order_demo
