// SPDX-License-Identifier: Apache-2.0
#include "bench/blocks/subject.h"

#include <chrono>
#include <sstream>
#include <string>

#include "bench/common/child.h"
#include "bench/common/json_line.h"

namespace carillon::bench {

const std::vector<SubjectEntry>& subjects() {
  static const std::vector<SubjectEntry> kSubjects = [] {
    std::vector<SubjectEntry> entries;
    add_idle_subjects(entries);
    add_limiter_subjects(entries);
    add_map_subjects(entries);
    add_purgatory_subjects(entries);
    add_retry_subjects(entries);
    add_lease_subjects(entries);
    return entries;
  }();
  return kSubjects;
}

std::vector<Measurement> run_in_child(const SubjectEntry& subject, const Load& load) {
  constexpr Span kLimit = std::chrono::seconds(120);
  const std::string lines = output_of_fork(
      [&] {
        std::string text;
        for (const Measurement& m : subject.run(load)) text += to_json(m, Environment());
        return text;
      },
      kLimit);
  std::vector<Measurement> results;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    results.push_back(measurement_of(JsonLine(line)));
  }
  return results;
}

}  // namespace carillon::bench
