// SPDX-License-Identifier: Apache-2.0
#include "bench/timer/jvm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>

#include "bench/common/environment.h"
#include "bench/common/lateness.h"

namespace carillon::bench {
namespace {

constexpr std::string_view kPackages = "apt-get install default-jdk-headless libnetty-java";

constexpr const char* kClassPath = CARILLON_BENCH_JAVA_JAR ":" CARILLON_BENCH_NETTY_PATH;

}  // namespace

std::string why_no_jvm() {
  const std::string_view jar = CARILLON_BENCH_JAVA_JAR;
  if (jar.empty()) {
    return fmt::format("the timers of the JVM: no javac or no Netty when this was configured: {}",
                       kPackages);
  }
  if (!std::filesystem::exists(jar)) {
    return fmt::format("the timers of the JVM: {} is not there: build bench_timer", jar);
  }
  if (find_program("java").empty()) {
    return fmt::format("the timers of the JVM: java is not installed: {}", kPackages);
  }
  return {};
}

std::vector<std::string> jvm_command(std::string_view peer, const Load& load) {
  std::vector<std::string> words = {"java"};
  if (peer.ends_with(kAsItComes)) {
    peer.remove_suffix(kAsItComes.size());
  } else {
    words.insert(words.end(), {"-XX:+UseParallelGC", "-Xms4g", "-Xmx4g", "-Xmn1g",
                               "-XX:+UseTransparentHugePages"});
  }
  words.insert(words.end(),
               {"-cp", kClassPath, "Main", std::string(load.bench), std::string(peer),
                fmt::format("timers={}", load.timers),
                fmt::format("threads={}", fmt::join(load.threads, ",")),
                fmt::format("pending={}", load.pending), fmt::format("rounds={}", load.rounds),
                fmt::format("seconds={}", load.seconds), fmt::format("rate={}", load.rate),
                fmt::format("delay_s={}", std::chrono::duration<double>(load.delay).count())});
  return words;
}

void add_lateness_of(Measurement& measurement, const JsonLine& line) {
  std::vector<std::int64_t> late;
  for (const double ns : line.array("lateness_ns")) late.push_back(static_cast<std::int64_t>(ns));
  if (late.empty()) return;
  std::sort(late.begin(), late.end());
  add_lateness(measurement, late);
}

}  // namespace carillon::bench
