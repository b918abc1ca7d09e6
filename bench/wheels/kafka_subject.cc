// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/passive_subject.h"
#include "bench/wheels/workloads.h"
#include "carillon/wheel/kafka_wheel.h"

namespace carillon::bench {
namespace {

struct KafkaName : ExactWheel {
  static constexpr std::string_view kName = "KafkaWheel";
};

}  // namespace

SubjectEntry kafka_subject() {
  return entry_of<PassiveSubject<KafkaWheel, WheelHook, KafkaName>>();
}

}  // namespace carillon::bench
