// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/subject.h"

namespace carillon::bench {

const std::vector<SubjectEntry>& subjects() {
  static const std::vector<SubjectEntry> kSubjects = [] {
    std::vector<SubjectEntry> all = {hierarchical_subject(), pooled_subject(),     linux_subject(),
                                     kafka_subject(),        wall_clock_subject(), hashed_subject(),
                                     coarse_subject()};
    for (const SubjectEntry& heap : heap_subjects()) all.push_back(heap);
    all.push_back(libev_subject());
    for (const SubjectEntry& libevent : libevent_subjects()) all.push_back(libevent);
    all.push_back(libuv_subject());
    all.push_back(asio_subject());
    return all;
  }();
  return kSubjects;
}

}  // namespace carillon::bench
