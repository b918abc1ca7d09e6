// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What Prometheus is shown: the catalogue of metrics, and a sample of them as text.
///
/// Names and units are by Prometheus' conventions: base units, `_total` of counters. Labels are
/// bounded: tubes have series of their own up to a limit, and the rest are summed.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/broker/reply.h"
#include "carillon/server/metrics/process_facts.h"
#include "carillon/server/webhook/pump.h"

namespace carillon::server {

enum class MetricKind : std::uint8_t { kCounter, kGauge, kHistogram };

struct MetricTraits {
  std::string_view name;
  MetricKind kind;
  std::string_view labels;  ///< Their names, joined by commas.
  std::string_view help;
};

/// Every metric, in the order in which they are shown.
[[nodiscard]] std::span<const MetricTraits> metric_catalogue() noexcept;

/// What is measured at one moment.
struct MetricsSample {
  std::string version;
  ProcessFacts process;

  broker::PartitionStats partitions;  ///< Summed over them.
  std::uint64_t commit_failures = 0;
  std::uint64_t recoveries = 0;
  bool store_available = true;
  bool accepts_puts = true;
  /// Of the data folder's disk; nothing: the jobs are in memory only.
  std::optional<std::uint64_t> free_bytes;
  bool draining = false;
  bool held = false;  ///< By the option `hold`.

  std::uint64_t connections = 0;
  std::uint64_t http_connections = 0;
  std::uint64_t refused_connections = 0;
  std::uint64_t failed_logins = 0;
  std::uint64_t late_logins = 0;
  std::uint64_t http_failed_logins = 0;
  std::uint64_t http_requests = 0;
  std::uint64_t http_waiting = 0;

  /// Those that have series of their own.
  std::vector<broker::TubeStats> tubes;

  WebhookTotals webhooks;
  struct Hook {
    std::string tube;
    WebhookState state;
  };
  std::vector<Hook> hooks;
};

/// The partitions' statistics together.
void add_partition(broker::PartitionStats& sum, const broker::PartitionStats& part);

/// As text, in the format 0.0.4. The jobs of the tubes that are not in `tubes` are summed as
/// tube="_other"; a tube that is called so is one of them.
[[nodiscard]] std::string to_text(const MetricsSample& sample);
inline constexpr std::string_view kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";
inline constexpr std::string_view kOtherTubes = "_other";

/// Chooses which tubes have series of their own: whoever has, keeps them as long as it exists, so
/// that series do not come and go.
class MetricTubes {
 public:
  explicit MetricTubes(std::size_t limit) : limit_(limit) {}

  /// Those chosen beyond a lower limit lose theirs.
  void set_limit(std::size_t limit) {
    limit_ = limit;
    while (chosen_.size() > limit_) chosen_.erase(std::prev(chosen_.end()));
  }
  /// `names`: the tubes that exist. Returns those chosen.
  const std::set<std::string>& choose(const std::vector<std::string>& names);
  /// Those chosen last.
  [[nodiscard]] const std::set<std::string>& chosen() const noexcept { return chosen_; }

 private:
  std::size_t limit_;
  std::set<std::string> chosen_;
};

}  // namespace carillon::server
