// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace carillon::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

MetricsSample sample() {
  MetricsSample sample;
  sample.version = "1.2.3";
  sample.accepts_puts = false;
  sample.free_bytes = 12'345;
  sample.partitions.tubes = 3;
  sample.partitions.jobs.ready = 10;
  sample.partitions.jobs.delayed = 7;
  sample.partitions.put_count = 100;
  sample.partitions.lateness_us.add(0);
  sample.partitions.lateness_us.add(300);
  sample.partitions.lateness_us.add(5'000'000'000);
  sample.partitions.commit_us.add(1'000);
  sample.partitions.batch_mutations.add(3);
  broker::TubeStats tube;
  tube.name = "orders";
  tube.jobs.ready = 4;
  tube.oldest_ready_age_ms = 1'500;
  tube.pause_left_ms = 1;
  sample.tubes.push_back(tube);
  sample.webhooks.hooks = 1;
  sample.webhooks.by_class[2] = 5;
  sample.webhooks.by_end[static_cast<std::size_t>(PostOutcome::End::kTimedOut)] = 2;
  sample.webhooks.durations[0] = 3;
  sample.webhooks.durations.back() = 1;
  sample.webhooks.seconds = 61.5;
  WebhookState state;
  state.failures = 6;
  state.paused_for = std::chrono::milliseconds(2'500);
  sample.hooks.push_back({"orders", state});
  return sample;
}

TEST(Metrics, AreShownAsText) {
  const std::string text = to_text(sample());
  for (const char* line : {"carillon_build_info{version=\"1.2.3\"} 1\n",
                           "# TYPE carillon_jobs gauge\n",
                           "carillon_jobs{state=\"ready\"} 10\n",
                           "# TYPE carillon_jobs_put_total counter\n",
                           "carillon_jobs_put_total 100\n",
                           "carillon_store_available 1\n",
                           "carillon_store_accepts_puts 0\n",
                           "carillon_store_free_bytes 12345\n",
                           "carillon_tube_jobs{tube=\"orders\",state=\"ready\"} 4\n",
                           "carillon_tube_jobs{tube=\"_other\",state=\"ready\"} 6\n",
                           "carillon_tube_jobs{tube=\"_other\",state=\"delayed\"} 7\n",
                           "carillon_tube_oldest_ready_seconds{tube=\"orders\"} 1.5\n",
                           "carillon_tube_paused{tube=\"orders\"} 1\n",
                           "carillon_webhook_posts_total{outcome=\"2xx\"} 5\n",
                           "carillon_webhook_posts_total{outcome=\"timed_out\"} 2\n",
                           "carillon_webhook_post_duration_seconds_bucket{le=\"0.005\"} 3\n",
                           "carillon_webhook_post_duration_seconds_bucket{le=\"+Inf\"} 4\n",
                           "carillon_webhook_post_duration_seconds_sum 61.5\n",
                           "carillon_webhook_tube_failures{tube=\"orders\"} 6\n",
                           "carillon_webhook_tube_paused_seconds{tube=\"orders\"} 2.5\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Metrics, HistogramsAreCumulativeAndWhole) {
  const std::string text = to_text(sample());
  EXPECT_THAT(text, HasSubstr("carillon_job_lateness_seconds_bucket{le=\"0.000255\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("carillon_job_lateness_seconds_bucket{le=\"0.000511\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("carillon_job_lateness_seconds_bucket{le=\"134.217727\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("carillon_job_lateness_seconds_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("carillon_job_lateness_seconds_count 3\n"));
  EXPECT_THAT(text, HasSubstr("carillon_job_lateness_seconds_sum 5000.0003\n"));
  EXPECT_THAT(text, HasSubstr("carillon_commit_batch_jobs_bucket{le=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("carillon_commit_batch_jobs_bucket{le=\"3\"} 1\n"));
}

TEST(Metrics, ThereIsNoRestIfEveryTubeIsShown) {
  MetricsSample whole = sample();
  whole.partitions.tubes = 1;
  EXPECT_THAT(to_text(whole), Not(HasSubstr("_other")));
}

TEST(Metrics, EverythingInTheCatalogueIsShown) {
  const std::string text = to_text(sample());
  std::set<std::string> names;
  for (const MetricTraits& traits : metric_catalogue()) {
    const std::string name(traits.name);
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    EXPECT_THAT(text, HasSubstr("# HELP " + name + " " + std::string(traits.help) + "\n"));
    EXPECT_EQ(traits.kind == MetricKind::kCounter, name.ends_with("_total")) << name;
  }
  // And nothing is shown with other labels than it says there.
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::string labels;
    const std::size_t brace = line.find('{');
    std::string name = line.substr(0, std::min(brace, line.find(' ')));
    for (const char* suffix : {"_bucket", "_sum", "_count"}) {
      if (name.ends_with(suffix) && !names.contains(name)) {
        name.erase(name.size() - std::string_view(suffix).size());
      }
    }
    if (brace != std::string::npos) {
      for (std::size_t from = brace; line[from] != '}';) {
        const std::size_t equals = line.find('=', from);
        const std::string label = line.substr(from + 1, equals - from - 1);
        if (label != "le") labels += (labels.empty() ? "" : ",") + label;
        from = line.find('"', equals + 2) + 1;
      }
    }
    bool found = false;
    for (const MetricTraits& traits : metric_catalogue()) {
      if (traits.name == name) {
        found = true;
        EXPECT_EQ(labels, traits.labels) << line;
      }
    }
    EXPECT_TRUE(found) << line;
  }
}

TEST(Metrics, ANameOfATubeIsEscaped) {
  MetricsSample odd = sample();
  odd.tubes.front().name = "a\"b\\c\nd";
  EXPECT_THAT(to_text(odd), HasSubstr(R"(carillon_tube_paused{tube="a\"b\\c\nd"} 1)"));
}

TEST(MetricTubes, WhoHasSeriesKeepsThem) {
  MetricTubes tubes(2);
  EXPECT_THAT(tubes.choose({"c", "b"}), ElementsAre("b", "c"));
  EXPECT_THAT(tubes.choose({"a", "b", "c", "d"}), ElementsAre("b", "c"));
  EXPECT_THAT(tubes.choose({"a", "c", "d"}), ElementsAre("a", "c"));
  EXPECT_THAT(tubes.choose({}), ElementsAre());
}

TEST(MetricTubes, NoTubeIsMistakenForTheRest) {
  MetricTubes tubes(2);
  EXPECT_THAT(tubes.choose({"_other", "b"}), ElementsAre("b"));
}

TEST(ProcessFacts, AreThoseOfThisProcess) {
  const ProcessFacts facts = read_process_facts();
  EXPECT_GT(facts.resident_bytes, 1'000'000U);
  EXPECT_GT(facts.virtual_bytes, facts.resident_bytes);
  EXPECT_GE(facts.open_files, 1U);
  EXPECT_GE(facts.max_files, facts.open_files);
  EXPECT_GE(facts.threads, 1U);
  EXPECT_GT(facts.started_at_s, 1e9);
}

}  // namespace
}  // namespace carillon::server
