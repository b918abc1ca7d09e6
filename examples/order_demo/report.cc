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

// 0.0123 s -> "12 ms", 1.23 s -> "1.2 s"
std::string in_words(Span span) {
  const double s = in_seconds(span);
  return s < 1 ? fmt::format("{:.0f} ms", s * 1000) : fmt::format("{:.1f} s", s);
}

// 80 columns: a name, a number, and at most 28 columns of remark.
class Table {
 public:
  void row(std::string_view name, const std::string& value, std::string_view remark = {}) {
    text_ += fmt::format("  {:<36}{:>12}{}{}\n", name, value, remark.empty() ? "" : "  ", remark);
  }
  void row(std::string_view name, std::uint64_t value, std::string_view remark = {}) {
    row(name, grouped(value), remark);
  }
  void percentiles(std::string_view name, const Percentiles& p) {
    text_ += fmt::format("  {:<36}{:>10}{:>10}{:>10}{:>10}\n", name, ms(p.p50), ms(p.p99),
                         ms(p.p999), ms(p.max));
  }
  void line(const std::string& text = {}) { text_ += text + "\n"; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_orders(Table& table, const OrderBook& book) {
  const std::uint64_t sum = book.paid() + book.cancelled();
  table.row("orders, a job put for each", book.orders());
  table.row("  acknowledged by the server", book.put());
  table.row("  paid in time: job deleted", book.paid());
  table.row("  unpaid: job came, order cancelled", book.cancelled());
  if (book.paid_too_late() > 0) {
    table.row("    of them paid after that: too late", book.paid_too_late(),
              "refused, not an error");
  }
  table.row("  paid + cancelled = acknowledged", sum == book.put() ? "yes" : "NO");
}

void add_judgement(Table& table, const Report& report, const OrderBook& book) {
  table.row("jobs LOST: acknowledged, never came", book.violations(Violation::kLost));
  table.row("jobs EARLY: came before their time", book.violations(Violation::kEarly));
  table.row("jobs that came after their delete", book.violations(Violation::kCameBack));
  table.row("jobs gone from their worker, altered",
            book.violations(Violation::kVanished) + book.violations(Violation::kBody));
  table.row("jobs left in the server at the end", report.left_in_tube);
  table.row("jobs that came twice without cause", book.violations(Violation::kTwice));
  if (report.outage) {
    table.row("jobs that came twice for the kill", book.redelivered() + book.second_copies(),
              "not errors:");
    table.row("  a worker held it at the kill", book.redelivered(), "it is given out again");
    table.row("  its put was cut off, and repeated", book.second_copies(), "both were stored");
  }
}

void add_outage(Table& table, const Report& report, const Lateness& late) {
  if (!report.outage) {
    return;
  }
  const Outage& outage = *report.outage;
  table.line();
  table.row("kill -9 to first answer after restart", in_words(outage.up_at - outage.killed_at),
            fmt::format("backlog done in {}", in_words(late.drained_at - outage.up_at)));
  table.row("puts the kill left without answer", outage.puts_cut_off, "put again");
  table.row("deletes the kill left without answer",
            outage.payments_cut_off + outage.finishes_cut_off,
            fmt::format("{} of them by workers", outage.finishes_cut_off));
}

void add_speed(Table& table, const Report& report, const OrderBook& book, const Lateness& late) {
  table.line();
  if (report.put_time > Span(0)) {
    table.row("puts per second, each synced to disk",
              grouped(static_cast<std::uint64_t>(puts_per_second(report, book))),
              fmt::format("over {}", in_words(report.put_time)));
    table.line("    (beside the payments and workers, all from one client on this machine;");
    table.line("    of puts alone there are more: README, Numbers)");
  }
  table.row("the whole run", in_words(report.run_time));
  table.line();
  table.line(fmt::format("  {:<36}{:>10}{:>10}{:>10}{:>10}", "late by at most, ms", "half", "99 %",
                         "99.9 %", "all"));
  table.percentiles("  counted from put sent + delay", late.since_sent);
  table.percentiles("  counted from put answered + delay", late.since_acknowledged);
  table.line(fmt::format("  of {} jobs{}", grouped(late.since_sent.count),
                         report.outage ? fmt::format("; not counted: {} due while it was down or "
                                                     "catching up",
                                                     grouped(late.excluded))
                                       : ""));
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

std::string banner(const Options& options) {
  std::string text =
      fmt::format("{} orders, each cancelled after {} to {} s unless paid; 90 % are paid.\n",
                  grouped(options.orders), options.min_delay_s, options.max_delay_s);
  if (options.kills) {
    text += "The server is killed in the middle (kill -9) and started again.\n";
  }
  return text + fmt::format("seed {}\nserver {}\n", options.seed, options.server.string());
}

std::string how_to_talk(std::uint16_t port, int pid, const std::string& folder) {
  const std::string nc = fmt::format("nc 127.0.0.1 {}", port);
  return fmt::format(
      "\nThe server runs on: 127.0.0.1:{}, process {}, jobs in\n{}\n"
      "Put a job that is due in 5 s; wait for it; ask for the statistics:\n"
      "  printf 'put 0 5 60 5\\r\\nhello\\r\\nquit\\r\\n' | {}\n"
      "  printf 'reserve-with-timeout 10\\r\\nquit\\r\\n' | {}\n"
      "  printf 'stats\\r\\nquit\\r\\n' | {}\n"
      "Stop it and delete its folder:\n"
      "  kill {} && sleep 1\n"
      "  rm -r {}\n",
      port, pid, folder, nc, nc, nc, pid, folder);
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
