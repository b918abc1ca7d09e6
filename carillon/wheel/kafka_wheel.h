// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `KafkaWheel`, the hierarchical wheel with the levels of Apache Kafka's `TimingWheel`, in which
/// its purgatory waits: 20 slots a level.
///
///     level   one slot covers   one turn, with ticks of 1 ms
///       0             1 tick    20 ms
///       1            20 ticks   400 ms
///       2           400 ticks   8 s
///       3         8,000 ticks   160 s             overflow from here on
///      ...
///      14         20^14 ticks   what is left of 64 bits: 12 slots
///
/// Kafka makes the three levels that it needs at first and hangs an overflow wheel, 20 times as
/// coarse, above them whenever a delay reaches beyond; that wheel overflows into another. Here all
/// fifteen levels are there from the start, since all of it is 10 KiB: nothing is allocated, and no
/// delay is out of reach, where Kafka's sum of now and a very long delay wraps.
///
/// Two more differences. Kafka picks the level by the delay: a ring reaches one turn ahead of its
/// hand, and wraps. Here a ring ends with the slot above it (hierarchical_wheel.h). And Kafka keeps
/// the occupied slots in a queue ordered by time, to sleep by; here bits say which they are.
///
/// Use it to compare, or where twenty slots a level are what a reader expects: the default, 64 a
/// level, cascades less, and shifts instead of dividing.

#include "carillon/wheel/hierarchical_wheel.h"
#include "carillon/wheel/mixed_radix_levels.h"

namespace carillon {

using KafkaLevels = MixedRadixLevels<20>;

/// All that HierarchicalWheel is, with Kafka's levels.
using KafkaWheel = BasicHierarchicalWheel<KafkaLevels>;

extern template class BasicHierarchicalWheel<KafkaLevels>;

}  // namespace carillon
