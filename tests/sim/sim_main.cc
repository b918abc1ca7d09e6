// SPDX-License-Identifier: Apache-2.0
// carillon_sim: runs the broker and its host under virtual time with a faulty store, seed by seed.
//
//     carillon_sim --seconds 60            fresh seeds for a minute
//     carillon_sim --seed 4711 --verbose   one seed again, every step printed

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>
#include <string>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "tests/sim/world.h"

namespace {

std::uint64_t running_seed = 0;

// A failed CARILLON_CHECK aborts: say which run it was.
void say_seed(int) {
  fmt::print(stderr, "while running seed {}\nreplay: carillon_sim --seed {} --verbose\n",
             running_seed, running_seed);
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

/// Runs one seed; prints how to replay it when it fails.
bool run_seed(std::uint64_t seed, std::uint64_t steps, bool verbose, bool twice,
              carillon::sim::RunResult& total) {
  using carillon::sim::RunResult;
  using carillon::sim::World;
  running_seed = seed;
  try {
    const RunResult result = World(seed, verbose).run(steps);
    if (twice && World(seed, false).run(steps).trace_hash != result.trace_hash) {
      throw carillon::sim::Violation{"the same seed gave another trace"};
    }
    total.puts += result.puts;
    total.deliveries += result.deliveries;
    total.crashes += result.crashes;
    total.failures += result.failures;
    return true;
  } catch (const carillon::sim::Violation& violation) {
    fmt::print("seed {}: {}\nreplay: carillon_sim --seed {} --steps {} --verbose\n", seed,
               violation.what, seed, steps);
  } catch (const std::exception& error) {
    fmt::print("seed {}: {}\nreplay: carillon_sim --seed {} --steps {} --verbose\n", seed,
               error.what(), seed, steps);
  }
  return false;
}

/// Whether one of `runs` seeds from `first` on is found out.
bool is_noticed(carillon::sim::Lie lie, std::uint64_t first, std::uint64_t runs,
                std::uint64_t steps) {
  for (std::uint64_t i = 0; i < runs; ++i) {
    try {
      running_seed = first + i;
      carillon::sim::World(first + i, false, lie).run(steps);
    } catch (const carillon::sim::Violation& violation) {
      fmt::print("noticed with seed {}: {}\n", first + i, violation.what);
      return true;
    }
  }
  fmt::print("{} seeds did not notice\n", runs);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Deterministic simulation of broker, host and store"};
  std::uint64_t seed = 0;
  std::uint64_t first = 0;
  std::uint64_t runs = 0;
  std::uint64_t steps = 3'000;
  double seconds = 10;
  bool verbose = false;
  bool twice = false;
  const auto positive = [](const std::string& text) {
    double number = 0;
    const bool good = CLI::detail::lexical_cast(text, number) && number > 0 && number < 1e9;
    return good ? std::string() : text + " is not above 0 and below 1e9";
  };
  app.add_option("--seed", seed, "Run this one seed")->type_name("N");
  app.add_option("--first", first, "First of --runs seeds")->type_name("N");
  app.add_option("--runs", runs, "How many seeds in a row")->type_name("N")->check(positive);
  app.add_option("--seconds", seconds, "Fresh seeds for this long")
      ->type_name("S")
      ->capture_default_str()
      ->check(positive);
  app.add_option("--steps", steps, "Random steps a run")
      ->type_name("N")
      ->capture_default_str()
      ->check(positive);
  app.add_flag("--verbose", verbose, "Print every step");
  app.add_flag("--twice", twice, "Run each seed twice and compare the traces");
  auto lie = carillon::sim::Lie::kNone;
  const std::map<std::string, carillon::sim::Lie> lies{
      {"ack-unsynced", carillon::sim::Lie::kAckUnsynced},
      {"forget-update", carillon::sim::Lie::kForgetUpdate},
      {"keep-erased", carillon::sim::Lie::kKeepErased}};
  std::string lie_name;
  app.add_option("--lie", lie_name,
                 "Have the store lie, and succeed if that is noticed:\n"
                 "ack-unsynced, forget-update or keep-erased")
      ->type_name("NAME");
  CLI11_PARSE(app, argc, argv);
  if (!lie_name.empty()) {
    const auto found = lies.find(lie_name);
    if (found == lies.end()) {
      fmt::print(stderr, "--lie: '{}' is not ack-unsynced, forget-update or keep-erased\n",
                 lie_name);
      return 2;
    }
    lie = found->second;
  }
  std::signal(SIGABRT, say_seed);

  if (app.count("--seed") > 0) {
    first = seed;
    runs = 1;
  } else if (runs == 0) {
    first = std::random_device()() * std::uint64_t{1'000'000};
  }
  if (lie != carillon::sim::Lie::kNone) return is_noticed(lie, first, runs, steps) ? 0 : 1;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  carillon::sim::RunResult total;
  std::uint64_t done = 0;
  for (; runs > 0 ? done < runs : elapsed() < seconds; ++done) {
    if (!run_seed(first + done, steps, verbose, twice, total)) return 1;
  }
  fmt::print(
      "{} seeds from {} ok in {:.1f} s: {} puts, {} deliveries, {} kills, {} failed commits; "
      "lost 0, early 0\n",
      done, first, elapsed(), total.puts, total.deliveries, total.crashes, total.failures);
  return 0;
}
