// SPDX-License-Identifier: Apache-2.0
#include "bench/timer/subject.h"

#include <sstream>
#include <string>

#include "bench/common/child.h"
#include "bench/common/json_line.h"
#include "bench/common/lateness.h"
#include "bench/timer/jvm.h"

namespace carillon::bench {
namespace {

constexpr Span kGrace = std::chrono::seconds(120);

}  // namespace

const std::vector<SubjectEntry>& subjects() {
  static const std::vector<SubjectEntry> kSubjects = {
      carillon_subject(),
      carillon_inline_subject(),
      heap_subject(),
      asio_subject(),
      {"Netty", nullptr},
      {"Netty, 1 ms ticks", nullptr},
      {"ScheduledThreadPool", nullptr},
      {"ScheduledThreadPool, remove", nullptr},
      {"DelayQueue", nullptr},
      {"DelayQueue, remove", nullptr},
      {"Netty, JVM as it comes", nullptr},
      {"ScheduledThreadPool, JVM as it comes", nullptr},
      {"DelayQueue, JVM as it comes", nullptr},
  };
  return kSubjects;
}

bool takes_part(const SubjectEntry& subject, const Load& load) {
  const bool cancels = load.bench == "T3" || load.bench == "T6" || load.bench == "T8";
  if (subject.name.ends_with(kAsItComes)) return load.bench == "T1";
  if (subject.name == "carillon::Timer, inline") return load.bench == "T4";
  // Its ticks are 100 ms: what it is late by is known.
  if (subject.name == "Netty") return load.bench != "T4";
  if (subject.name == "ScheduledThreadPool, remove") return cancels;
  // It searches the whole queue.
  if (subject.name == "DelayQueue, remove") return load.bench == "T3" && load.pending == 0;
  return true;
}

std::vector<Measurement> run_in_child(const SubjectEntry& subject, const Load& load) {
  const Span limit =
      kGrace + std::chrono::duration_cast<Span>(std::chrono::duration<double>(load.seconds * 10));
  const std::string lines = subject.in_jvm()
                                ? output_of_program(jvm_command(subject.name, load), limit)
                                : output_of_fork(
                                      [&] {
                                        std::string text;
                                        for (const Measurement& m : subject.run(load)) {
                                          text += to_json(m, Environment());
                                        }
                                        return text;
                                      },
                                      limit);
  std::vector<Measurement> results;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    const JsonLine json(line);
    Measurement m = measurement_of(json);
    if (json.has("lateness_ns")) add_lateness_of(m, json);
    results.push_back(std::move(m));
  }
  return results;
}

}  // namespace carillon::bench
