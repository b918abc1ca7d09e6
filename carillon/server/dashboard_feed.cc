// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/dashboard_feed.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "carillon/base/time.h"
#include "carillon/protocol/http/json_writer.h"
#include "carillon/server/dashboard_json.h"
#include "carillon/server/http_desk.h"

namespace carillon::server {

using broker::Command;
using broker::Reply;
using broker::Verb;

struct DashboardFeed::Gathering {
  bool is_watched = false;
  broker::PartitionStats counters;
  broker::WheelView wheel;
  std::size_t tubes_awaited = 0;
};

namespace {

Command command_of(Verb verb) {
  Command command;
  command.verb = verb;
  return command;
}

/// The detail of a reply, if it is there and of that kind.
template <class Detail>
const Detail* detail_of(const Reply& reply) {
  return reply.detail == nullptr ? nullptr : std::get_if<Detail>(reply.detail.get());
}

}  // namespace

bool DashboardFeed::is_wanted(bool is_watched) {
  const Instant now = clock_.now();
  if (is_watched) watched_at_ = now;
  if (is_watched || now - watched_at_ < kMemory) return true;
  series_.forget_last();
  return false;
}

void DashboardFeed::gather(bool is_watched) {
  if (gathering_) return;
  gathering_ = true;
  auto gathering = std::make_shared<Gathering>();
  gathering->is_watched = is_watched;
  desk_.ask_all(command_of(Verb::kStats),
                [this, gathering](std::vector<Reply> replies) { on_counters(gathering, replies); });
}

void DashboardFeed::on_counters(const std::shared_ptr<Gathering>& gathering,
                                const std::vector<Reply>& replies) {
  for (const Reply& reply : replies) {
    const auto* part = detail_of<broker::PartitionStats>(reply);
    if (part == nullptr) return fail();
    add_to(gathering->counters, *part);
  }
  const broker::PartitionStats& sum = gathering->counters;
  const Instant now = clock_.now();
  const double elapsed_s = std::chrono::duration<double>(now - sampled_at_).count();
  sampled_at_ = now;
  series_.add({floor_ms(context_.calendar.now()), sum.put_count, sum.fired_count, sum.delete_count,
               sum.lateness_us},
              elapsed_s);
  if (!gathering->is_watched) {
    gathering_ = false;
    last_stats_.clear();
    wheel_.reset();
    return;
  }
  const broker::JobCounts& jobs = sum.jobs;
  const std::uint64_t in_memory =
      jobs.ready + jobs.reserved + jobs.delayed + jobs.buried - sum.far_jobs;
  // (A gathering is some moments late, now and then.)
  constexpr Span kSlack = std::chrono::milliseconds(100);
  if (wheel_ && now - wheel_at_ < wheel_interval(in_memory) - kSlack) {
    gathering->wheel = *wheel_;
    return ask_for_names(gathering);
  }
  wheel_at_ = now;
  desk_.ask_all(command_of(Verb::kWheel),
                [this, gathering](std::vector<Reply> more) { on_wheels(gathering, more); });
}

void DashboardFeed::on_wheels(const std::shared_ptr<Gathering>& gathering,
                              const std::vector<Reply>& replies) {
  for (const Reply& reply : replies) {
    const auto* part = detail_of<broker::WheelView>(reply);
    if (part == nullptr) return fail();
    add_to(gathering->wheel, *part);
  }
  wheel_ = gathering->wheel;
  ask_for_names(gathering);
}

void DashboardFeed::ask_for_names(const std::shared_ptr<Gathering>& gathering) {
  desk_.ask_all(command_of(Verb::kListTubes),
                [this, gathering](std::vector<Reply> more) { on_names(gathering, more); });
}

void DashboardFeed::on_names(const std::shared_ptr<Gathering>& gathering,
                             const std::vector<Reply>& replies) {
  std::set<std::string, std::less<>> names;
  for (const Reply& reply : replies) {
    const auto* part = detail_of<broker::TubeNames>(reply);
    if (part == nullptr) return fail();
    names.insert(part->begin(), part->end());
  }
  std::erase_if(tubes_, [&names](const auto& entry) { return !names.contains(entry.first); });

  // All of them if they are few, else on from where the last round ended.
  std::vector<std::string> asked;
  auto next = names.size() <= kTubesAsked ? names.begin() : names.lower_bound(next_tube_);
  while (asked.size() < std::min(names.size(), kTubesAsked)) {
    if (next == names.end()) next = names.begin();
    asked.push_back(*next++);
  }
  next_tube_ = next == names.end() ? std::string() : *next;
  if (asked.empty()) return finish(*gathering);
  gathering->tubes_awaited = asked.size();
  for (const std::string& name : asked) {
    Command command = command_of(Verb::kStatsTube);
    command.tube = name;
    desk_.ask(partition_of_tube(name, context_.partitions.count()), std::move(command),
              [this, gathering, name](std::size_t, const Reply& reply) {
                if (const auto* tube = detail_of<broker::TubeStats>(reply)) {
                  tubes_.insert_or_assign(name, *tube);
                } else {
                  tubes_.erase(name);
                }
                if (--gathering->tubes_awaited == 0) finish(*gathering);
              });
  }
}

void DashboardFeed::finish(const Gathering& gathering) {
  gathering_ = false;
  std::vector<const broker::TubeStats*> shown;
  shown.reserve(tubes_.size());
  TubeTotals totals;
  totals.count = tubes_.size();
  for (const auto& [name, tube] : tubes_) {
    shown.push_back(&tube);
    totals.waiting += tube.waiting_count;
    totals.oldest_ready_age_ms = std::max(totals.oldest_ready_age_ms, tube.oldest_ready_age_ms);
  }
  const auto matters_more = [](const broker::TubeStats* a, const broker::TubeStats* b) {
    return std::pair(a->jobs.ready, a->jobs.delayed) > std::pair(b->jobs.ready, b->jobs.delayed);
  };
  const std::size_t size = std::min(shown.size(), kTubesShown);
  std::partial_sort(shown.begin(), shown.begin() + static_cast<std::ptrdiff_t>(size), shown.end(),
                    matters_more);
  shown.resize(size);

  protocol::http::JsonWriter out;
  write_dashboard_stats({floor_ms(context_.calendar.now()), context_, gathering.counters,
                         gathering.wheel, series_, totals, shown},
                        out);
  last_stats_ = out.take();
  publish_("stats", last_stats_);
}

void DashboardFeed::fail() {
  gathering_ = false;
  last_stats_.clear();
  wheel_.reset();
  // What was heard before a recovery says nothing about what comes after it.
  series_.forget_last();
  publish_("unavailable", "{}");
}

std::string DashboardFeed::history() const {
  protocol::http::JsonWriter out;
  write_dashboard_history(series_, out);
  return out.take();
}

}  // namespace carillon::server
