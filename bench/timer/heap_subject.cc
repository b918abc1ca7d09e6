// SPDX-License-Identifier: Apache-2.0
#include "bench/timer/heap_timer.h"
#include "bench/timer/workloads.h"

namespace carillon::bench {
namespace {

struct HeapSubject : HeapTimer {
  static constexpr std::string_view kName = "mutex + heap";
};

}  // namespace

SubjectEntry heap_subject() { return entry_of<HeapSubject>(); }

}  // namespace carillon::bench
