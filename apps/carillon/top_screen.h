// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What `carillon top` shows, as text: pure, so that it can be tested without a terminal.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/carillon/terminal.h"
#include "apps/carillon/tubes.h"
#include "carillon/base/time.h"

namespace carillon::app {

/// What a server said at one moment. Counters count since its start.
struct TopSample {
  Instant at{};
  std::string version;
  std::uint64_t uptime_s = 0;
  std::uint64_t connections = 0;
  std::uint64_t waiting = 0;  ///< Reserves that have no job yet.
  std::uint64_t ready = 0;
  std::uint64_t delayed = 0;
  std::uint64_t reserved = 0;
  std::uint64_t buried = 0;
  std::uint64_t puts = 0;
  std::uint64_t reserves = 0;
  std::uint64_t deletes = 0;
  std::uint64_t timeouts = 0;
  double cpu_s = 0;
  bool draining = false;
  std::vector<TubeLine> tubes;
  std::uint64_t tubes_left_out = 0;
};

/// What happened between two samples, for each second.
struct TopRates {
  double puts = 0;
  double reserves = 0;
  double deletes = 0;
  double timeouts = 0;
  double cpu = 0;  ///< Cores in use.
};
/// Zero if the server was started anew in between.
[[nodiscard]] TopRates rates_between(const TopSample& before, const TopSample& now);

enum class TopOrder { kName, kReady, kDelayed, kPuts };
inline constexpr int kTopOrders = 4;

struct TopView {
  std::string address;
  TopOrder order = TopOrder::kReady;
  std::size_t first = 0;  ///< Tubes that are scrolled past.
  std::string problem;    ///< Why there is no newer sample; empty: there is.
};

/// At most size.rows lines of at most size.columns characters, separated by line feeds.
[[nodiscard]] std::string draw_top(const TopSample& now, const std::optional<TopSample>& before,
                                   const TopView& view, TerminalSize size);

}  // namespace carillon::app
