// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a run came to, as a table of at most 80 columns or as a line of JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/base/time.h"
#include "options.h"
#include "order_book.h"

namespace carillon::order_demo {

/// The middle and the far end of a set of spans.
struct Percentiles {
  std::size_t count = 0;
  Span p50{}, p99{}, p999{}, max{};
};
/// Pre: none; of an empty set all are 0.
Percentiles percentiles(std::vector<Span> spans);

/// The kill, as the clients saw it.
struct Outage {
  Instant killed_at;
  Instant up_at;  ///< first answer after the restart
  std::size_t puts_cut_off = 0;
  std::size_t payments_cut_off = 0;
  std::size_t finishes_cut_off = 0;
};

struct Report {
  Options options;
  std::optional<Outage> outage;
  Span put_time{};  ///< during which there were orders to put, without the outage
  Span run_time{};
  std::uint64_t left_in_tube = 0;  ///< jobs the server still has at the end
};

/// How late jobs were, without the outage.
struct Lateness {
  Percentiles since_sent;          ///< delivery - (put sent + delay): an upper bound
  Percentiles since_acknowledged;  ///< delivery - (put acknowledged + delay), at least 0
  std::size_t excluded = 0;        ///< due in the outage or before its backlog was gone
  Instant drained_at;              ///< the backlog of the outage was gone
};
Lateness lateness(const OrderBook& book, const std::optional<Outage>& outage);

/// Whether nothing was lost, early or odd, the sum is right and nothing is left over.
bool is_good(const Report& report, const OrderBook& book);

/// What is about to happen, for a person.
std::string banner(const Options& options);
/// How to talk to the server that was kept, and how to end it.
std::string how_to_talk(std::uint16_t port, int pid, const std::string& folder);

std::string to_table(const Report& report, const OrderBook& book);
std::string to_json(const Report& report, const OrderBook& book);

}  // namespace carillon::order_demo
