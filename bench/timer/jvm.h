// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The timers of the JVM: the Java program beside this one, compiled with it.

#include <string>
#include <string_view>
#include <vector>

#include "bench/common/json_line.h"
#include "bench/common/ledger.h"
#include "bench/timer/subject.h"

namespace carillon::bench {

/// Why none of them can be measured ("java is not installed: apt-get install ..."), or empty.
[[nodiscard]] std::string why_no_jvm();

/// Ends the name of a peer that runs in a JVM without options.
inline constexpr std::string_view kAsItComes = ", JVM as it comes";

/// What runs a workload there, with the settings that suit it best: the parallel collector, a heap
/// that does not grow meanwhile, in huge pages. Without options if the peer's name says so.
[[nodiscard]] std::vector<std::string> jvm_command(std::string_view peer, const Load& load);

/// Adds what `lateness_ns` of a line of the JVM says, an array in no order; nothing if it is empty.
void add_lateness_of(Measurement& measurement, const JsonLine& line);

}  // namespace carillon::bench
