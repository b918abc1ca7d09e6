// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The seven workloads of docs/internals/benchmarks.md. Each runs all peers in turn, A B C A B C
/// ..., every run on a fresh server in a fresh folder, and enters what it measured in the ledger.
///
/// Errors: a peer that is not installed is noted in the ledger and left out; a peer that misbehaves
/// throws BenchError.

#include <functional>
#include <string_view>
#include <vector>

#include "bench/common/ledger.h"
#include "bench/server/options.h"

namespace carillon::bench {

/// B1: durable put, 8 connections x 64 deep and 1 x 1.
void run_put_bench(const Options& options, Ledger& ledger);
/// B2: put, then reserve and delete, without a log.
void run_cycle_bench(const Options& options, Ledger& ledger);
/// B3: bytes of memory per delayed job.
void run_memory_bench(const Options& options, Ledger& ledger);
/// B4: lateness of jobs that fall due while workers wait, and one worker alone.
void run_lateness_bench(const Options& options, Ledger& ledger);
/// B5: durable put and work as services do it: many clients one at a time, and batches.
void run_service_bench(const Options& options, Ledger& ledger);
/// B6: how long a start takes with a million jobs pending.
void run_restart_bench(const Options& options, Ledger& ledger);
/// B7: half a million jobs that fall due within one second, and those that come later.
void run_burst_bench(const Options& options, Ledger& ledger);

/// Calls `run(peer, rep)` for each repetition and, within it, each peer that is wanted and
/// installed, with a line of progress on standard error.
void alternate(const Options& options, Ledger& ledger, int reps, std::string_view what,
               const std::vector<std::string_view>& peers,
               const std::function<Measurement(std::string_view)>& run);

}  // namespace carillon::bench
