// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>

namespace carillon::order_demo {
namespace {

double in_seconds(Span span) { return std::chrono::duration<double>(span).count(); }

std::string ms(Span span) { return fmt::format("{:.2f}", in_seconds(span) * 1000); }

// 1234567 -> 1,234,567
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

double puts_per_second(const Report& report, const OrderBook& book) {
  std::uint64_t acknowledged = 0;
  for (const Copy& copy : book.copies()) {
    acknowledged += copy.acknowledged_at != Instant{} ? 1 : 0;
  }
  const double time = in_seconds(report.put_time);
  return time > 0 ? static_cast<double>(acknowledged) / time : 0;
}

class Table {
 public:
  void row(std::string_view name, const std::string& value, std::string_view remark = {}) {
    text_ += fmt::format("  {:<34}{:>12}{}{}\n", name, value, remark.empty() ? "" : "  ", remark);
  }
  void row(std::string_view name, std::uint64_t value, std::string_view remark = {}) {
    row(name, grouped(value), remark);
  }
  void percentiles(std::string_view name, const Percentiles& p) {
    text_ += fmt::format("  {:<34}{:>10}{:>10}{:>10}{:>10}\n", name, ms(p.p50), ms(p.p99),
                         ms(p.p999), ms(p.max));
  }
  void line(const std::string& text = {}) { text_ += text + "\n"; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_orders(Table& table, const OrderBook& book) {
  const std::uint64_t sum = book.paid() + book.cancelled();
  table.row("orders", book.orders());
  table.row("put, each acknowledged", book.put());
  table.row("  paid in time (job deleted)", book.paid());
  table.row("  cancelled as unpaid (job fired)", book.cancelled(),
            book.paid_too_late() > 0
                ? fmt::format("{} paid too late", grouped(book.paid_too_late()))
                : "");
  table.row("  paid + cancelled = put", sum == book.put() ? "yes" : "NO");
}

void add_judgement(Table& table, const Report& report, const OrderBook& book) {
  table.row("delivered twice because of the kill", book.redelivered() + book.second_copies(),
            fmt::format("{} held, {} put twice", book.redelivered(), book.second_copies()));
  table.row("delivered twice without that cause", book.violations(Violation::kTwice));
  table.row("delivered though deleted", book.violations(Violation::kCameBack));
  table.row("vanished while held, wrong body",
            book.violations(Violation::kVanished) + book.violations(Violation::kBody));
  table.row("left in the server", report.left_in_tube);
  table.row("LOST", book.violations(Violation::kLost));
  table.row("EARLY", book.violations(Violation::kEarly));
}

void add_outage(Table& table, const Report& report, const Lateness& late) {
  if (!report.outage) {
    return;
  }
  const Outage& outage = *report.outage;
  table.line();
  table.row("outage, kill to first answer",
            fmt::format("{:.3f} s", in_seconds(outage.up_at - outage.killed_at)),
            fmt::format("backlog gone {:.3f} s later", in_seconds(late.drained_at - outage.up_at)));
  table.row("puts cut off by the kill", outage.puts_cut_off);
  table.row("deletes cut off by the kill", outage.payments_cut_off + outage.finishes_cut_off,
            fmt::format("{} of them of a worker", outage.finishes_cut_off));
}

void add_speed(Table& table, const Report& report, const OrderBook& book, const Lateness& late) {
  table.line();
  table.row("puts per second, durable",
            grouped(static_cast<std::uint64_t>(puts_per_second(report, book))),
            fmt::format("during {:.1f} s", in_seconds(report.put_time)));
  table.row("time in all", fmt::format("{:.1f} s", in_seconds(report.run_time)));
  table.line();
  table.line(fmt::format("  {:<34}{:>10}{:>10}{:>10}{:>10}", "lateness, ms", "p50", "p99", "p99.9",
                         "max"));
  table.percentiles("  since the put was sent + delay", late.since_sent);
  table.percentiles("  since it was acknowledged + delay", late.since_acknowledged);
  table.line(fmt::format("  of {} first deliveries; {} due in the outage or its backlog left out",
                         grouped(late.since_sent.count), grouped(late.excluded)));
}

std::string json(const Percentiles& p) {
  return fmt::format(R"({{"p50":{},"p99":{},"p99_9":{},"max":{}}})", ms(p.p50), ms(p.p99),
                     ms(p.p999), ms(p.max));
}

}  // namespace

Percentiles percentiles(std::vector<Span> spans) {
  if (spans.empty()) {
    return {};
  }
  std::sort(spans.begin(), spans.end());
  // Nearest rank: the smallest value that at least this share does not exceed.
  const auto at = [&spans](double share) {
    const double rank = std::ceil(share * static_cast<double>(spans.size()));
    return spans[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  return {spans.size(), at(0.5), at(0.99), at(0.999), spans.back()};
}

Lateness lateness(const OrderBook& book, const std::optional<Outage>& outage) {
  Lateness late;
  if (outage) {
    late.drained_at = outage->up_at;
    for (const Copy& copy : book.copies()) {
      if (copy.due_at <= outage->up_at && copy.delivered_at >= outage->killed_at) {
        late.drained_at = std::max(late.drained_at, copy.delivered_at);
      }
    }
  }
  std::vector<Span> since_sent;
  std::vector<Span> since_acknowledged;
  for (const Copy& copy : book.copies()) {
    if (copy.deliveries == 0 || copy.acknowledged_at == Instant{}) {
      continue;
    }
    if (outage && copy.delivered_at >= outage->killed_at && copy.due_at <= late.drained_at) {
      ++late.excluded;
      continue;
    }
    since_sent.push_back(copy.delivered_at - copy.due_at);
    const Span to_acknowledge = copy.acknowledged_at - copy.put_at;
    since_acknowledged.push_back(
        std::max(Span(0), copy.delivered_at - copy.due_at - to_acknowledge));
  }
  late.since_sent = percentiles(std::move(since_sent));
  late.since_acknowledged = percentiles(std::move(since_acknowledged));
  return late;
}

bool is_good(const Report& report, const OrderBook& book) {
  return book.is_clean() && report.left_in_tube == 0;
}

std::string to_table(const Report& report, const OrderBook& book) {
  const Lateness late = lateness(book, report.outage);
  Table table;
  table.line();
  add_orders(table, book);
  table.line();
  add_judgement(table, report, book);
  add_outage(table, report, late);
  add_speed(table, report, book, late);
  table.line();
  for (const std::string& detail : book.details()) {
    table.line("  " + detail);
  }
  table.line(is_good(report, book)
                 ? "ok: nothing lost, nothing early, and every order is accounted for"
                 : fmt::format("FAILED; again with --seed {}", report.options.seed));
  return table.text();
}

std::string to_json(const Report& report, const OrderBook& book) {
  const Lateness late = lateness(book, report.outage);
  const Outage outage = report.outage.value_or(Outage{});
  return fmt::format(
      R"({{"ok":{},"seed":{},"orders":{},"put":{},"paid":{},"cancelled":{},"paid_too_late":{},)"
      R"("redelivered":{},"second_copies":{},"twice_unexplained":{},"came_back":{},"vanished":{},)"
      R"("wrong_body":{},"left":{},"lost":{},"early":{},"killed":{},"outage_s":{:.3f},)"
      R"("puts_cut_off":{},"deletes_cut_off":{},"puts_per_s":{:.0f},"run_s":{:.1f},)"
      R"("lateness_ms_since_sent":{},"lateness_ms_since_acknowledged":{},"lateness_count":{},)"
      R"("lateness_excluded":{}}})"
      "\n",
      is_good(report, book), report.options.seed, book.orders(), book.put(), book.paid(),
      book.cancelled(), book.paid_too_late(), book.redelivered(), book.second_copies(),
      book.violations(Violation::kTwice), book.violations(Violation::kCameBack),
      book.violations(Violation::kVanished), book.violations(Violation::kBody), report.left_in_tube,
      book.violations(Violation::kLost), book.violations(Violation::kEarly),
      report.outage.has_value(), in_seconds(outage.up_at - outage.killed_at), outage.puts_cut_off,
      outage.payments_cut_off + outage.finishes_cut_off, puts_per_second(report, book),
      in_seconds(report.run_time), json(late.since_sent), json(late.since_acknowledged),
      late.since_sent.count, late.excluded);
}

}  // namespace carillon::order_demo
