// SPDX-License-Identifier: Apache-2.0
// carillon check | backup | restore: data folders that no server has open.

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "carillon/server/partitions.h"
#include "carillon/store/rocksdb/backup.h"
#include "carillon/store/rocksdb/folder_check.h"

namespace carillon::app {
namespace {

using store::BackupList;
using store::CheckedTube;
using store::FolderFault;
using store::FolderReport;

/// Milliseconds of Unix time as 2026-01-31T12:00:00.000Z; beyond the years of four digits, as they
/// are.
std::string date_of(std::int64_t ms) {
  constexpr std::int64_t kMostMs = 253'402'300'799'999;
  if (ms < 0 || ms > kMostMs) return fmt::format("{} ms", ms);
  const std::time_t seconds = ms / 1'000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(seconds), ms % 1'000);
}

std::string size_in_words(std::uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} bytes", bytes);
  auto size = static_cast<double>(bytes) / 1024;
  const char* unit = "KiB";
  for (const char* next : {"MiB", "GiB", "TiB"}) {
    if (size < 1024) break;
    size /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", size, unit);
}

ExitStatus status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound: return kNotFound;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kAlreadyExists: return kUsage;
    default: return kServerError;
  }
}

Failure failure_of_folder(const Error& error) {
  std::string message = error.message;
  if (error.code == ErrorCode::kUnavailable) message += "; stop it first";
  return {status_of(error.code), std::move(message)};
}

FolderReport check(const std::string& folder, std::size_t max_faults) {
  store::FolderCheckOptions options;
  options.folder = folder;
  options.max_faults = max_faults;
  options.partition_of_tube = server::partition_of_tube;
  options.partition_of_job = server::partition_of_job;
  Result<FolderReport> report = store::check_folder(options);
  if (!report) throw failure_of_folder(report.error());
  return std::move(*report);
}

struct Totals {
  std::uint64_t ready = 0;
  std::uint64_t delayed = 0;
  std::uint64_t buried = 0;
  std::uint64_t far = 0;
  std::uint64_t body_bytes = 0;
  std::optional<std::int64_t> next_due_ms;

  explicit Totals(const FolderReport& report) {
    for (const CheckedTube& tube : report.tubes) {
      ready += tube.ready;
      delayed += tube.delayed;
      buried += tube.buried;
      far += tube.far;
      body_bytes += tube.body_bytes;
      if (!tube.next_due_ms) continue;
      next_due_ms = std::min(next_due_ms.value_or(*tube.next_due_ms), *tube.next_due_ms);
    }
  }
  [[nodiscard]] std::uint64_t jobs() const { return ready + delayed + buried + far; }
};

std::string due_json(const std::optional<std::int64_t>& due_ms) {
  return due_ms ? json_string(date_of(*due_ms)) : "null";
}

std::string json_of(const std::string& folder, const FolderReport& report) {
  std::vector<std::string> tubes;
  for (const CheckedTube& tube : report.tubes) {
    tubes.push_back(JsonLine()
                        .text("tube", tube.name)
                        .number("partition", tube.partition)
                        .number("ready", tube.ready)
                        .number("delayed", tube.delayed + tube.far)
                        .number("buried", tube.buried)
                        .number("far", tube.far)
                        .number("body_bytes", tube.body_bytes)
                        .raw("next_due", due_json(tube.next_due_ms))
                        .str());
  }
  std::vector<std::string> faults;
  for (const FolderFault& fault : report.faults) {
    faults.push_back(JsonLine()
                         .text("place", fault.place)
                         .text("key", fault.key)
                         .bytes("what", fault.what)
                         .str());
  }
  const Totals totals(report);
  JsonLine object;
  object.flag("sound", report.sound())
      .bytes("folder", folder)
      .flag("backup", report.is_backup)
      .number("format", report.format)
      .number("partitions", report.partitions)
      .number("writes", report.writes)
      .raw("acknowledged", report.acknowledged ? std::to_string(*report.acknowledged) : "null")
      .number("jobs", totals.jobs())
      .number("ready", totals.ready)
      .number("delayed", totals.delayed + totals.far)
      .number("buried", totals.buried)
      .number("far", totals.far)
      .number("body_bytes", totals.body_bytes)
      .raw("next_due", due_json(totals.next_due_ms))
      .number("table_files", report.table_files)
      .number("table_bytes", report.table_bytes)
      .number("log_bytes", report.log_bytes)
      .list("tubes", tubes)
      .number("faults_found", report.faults_found)
      .list("faults", faults);
  return object.str();
}

void print_report(const std::string& folder, const FolderReport& report) {
  const Totals totals(report);
  fmt::print("{} {}: format {}, {} partition{}\n", report.is_backup ? "backup" : "data folder",
             folder, report.format, report.partitions, report.partitions == 1 ? "" : "s");
  fmt::print("writes {}, acknowledged {}; {} sorted files of {}, log of {}\n", report.writes,
             report.acknowledged ? std::to_string(*report.acknowledged) : "unknown",
             report.table_files, size_in_words(report.table_bytes),
             size_in_words(report.log_bytes));
  fmt::print("{:>10} {:>10} {:>10} {:>10}  {:<24}  {}\n", "ready", "delayed", "buried", "far",
             "next due", "tube");
  for (const CheckedTube& tube : report.tubes) {
    fmt::print("{:>10} {:>10} {:>10} {:>10}  {:<24}  {}\n", tube.ready, tube.delayed + tube.far,
               tube.buried, tube.far, tube.next_due_ms ? date_of(*tube.next_due_ms) : "-",
               tube.name);
  }
  for (const FolderFault& fault : report.faults) {
    fmt::print("fault: {}{}{}: {}\n", fault.place, fault.key.empty() ? "" : ", key ", fault.key,
               fault.what);
  }
  if (report.faults_found > report.faults.size()) {
    fmt::print("and {} more faults\n", report.faults_found - report.faults.size());
  }
  if (report.sound()) {
    fmt::print("sound: {} jobs, {} of bodies\n", totals.jobs(), size_in_words(totals.body_bytes));
  } else {
    fmt::print("NOT SOUND: {} fault{}\n", report.faults_found, report.faults_found == 1 ? "" : "s");
  }
}

struct Check {
  std::string folder;
  std::string max_faults = "50";
  bool json = false;

  void run() const {
    const FolderReport report = check(folder, number_of(max_faults, "--max-faults", 1'000'000));
    if (json) {
      fmt::print("{}\n", json_of(folder, report));
    } else {
      print_report(folder, report);
    }
    if (!report.sound()) {
      throw Failure{kUnsound,
                    fmt::format("{} is not sound: {} fault{}", folder, report.faults_found,
                                report.faults_found == 1 ? "" : "s")};
    }
  }
};

/// What has just been made has to be sound.
Totals check_made(const std::string& what, const std::string& folder) {
  const FolderReport report = check(folder, 1);
  if (report.sound()) return Totals(report);
  const FolderFault& fault = report.faults.at(0);
  throw Failure{kUnsound,
                fmt::format("{} {} is not sound: {}: {} (carillon check {} lists all {})", what,
                            folder, fault.place, fault.what, folder, report.faults_found)};
}

void print_made(const std::string& verb, const std::string& folder, const BackupList& backup,
                const std::optional<Totals>& totals, bool json) {
  if (json) {
    JsonLine object;
    object.bytes(verb == "restored" ? "folder" : "backup", folder)
        .text("created", date_of(backup.created_ms))
        .number("files", backup.files.size())
        .number("bytes", backup.bytes())
        .raw("jobs", totals ? std::to_string(totals->jobs()) : "null");
    fmt::print("{}\n", object.str());
    return;
  }
  fmt::print("{} {}: {} files, {}", verb, folder, backup.files.size(),
             size_in_words(backup.bytes()));
  if (totals) fmt::print("; sound: {} jobs", totals->jobs());
  fmt::print("\n");
}

struct Restore {
  std::string backup;
  std::string folder;
  bool unchecked = false;
  bool json = false;

  void run() const {
    if (!unchecked) {
      // Not kNotFound for what is no backup at all: restoring says that better.
      if (const Result<BackupList> info = store::read_backup(backup); !info) {
        throw failure_of_folder(info.error());
      }
      check_made("the backup", backup);
    }
    const Result<BackupList> restored = store::restore_backup(backup, folder);
    if (!restored) throw failure_of_folder(restored.error());
    std::optional<Totals> totals;
    if (!unchecked) totals = check_made("the restored folder", folder);
    print_made("restored", folder, *restored, totals, json);
  }
};

struct Backup {
  std::string data;
  std::string backup;
  bool unchecked = false;
  bool json = false;

  void run() const {
    const Result<BackupList> made = store::back_up_folder(data, backup);
    if (!made) {
      Failure failure = failure_of_folder(made.error());
      if (made.error().code == ErrorCode::kUnavailable) {
        failure.message +=
            ", or have it make the backup: name a backup-folder in its configuration, and send it "
            "SIGUSR2";
      }
      throw failure;
    }
    std::optional<Totals> totals;
    if (!unchecked) totals = check_made("the backup", backup);
    print_made("backed up to", backup, *made, totals, json);
  }
};

}  // namespace

void add_folder_verbs(CLI::App& program, int& status) {
  auto check = std::make_shared<Check>();
  CLI::App* app = program.add_subcommand(
      "check", "Say whether a data folder or a backup is sound, and what is in it");
  app->add_option("FOLDER", check->folder,
                  "The folder, which no server has open; it is not changed")
      ->required()
      ->type_name("");
  app->add_option("--max-faults", check->max_faults, "How many faults to describe")
      ->capture_default_str()
      ->type_name("N");
  app->add_flag("--json", check->json, "Print one line of JSON");
  app->footer("\nExit status 4: it is not sound.");
  on_call(app, check, status);

  auto backup = std::make_shared<Backup>();
  app = program.add_subcommand("backup", "Make a backup of a data folder");
  app->add_option("--data", backup->data, "The data folder, which no server has open")
      ->required()
      ->type_name("FOLDER");
  app->add_option("BACKUP", backup->backup, "The folder to make; it must not exist")
      ->required()
      ->type_name("");
  app->add_flag("--no-check", backup->unchecked, "Do not read it to see whether it is sound");
  app->add_flag("--json", backup->json,
                "Print one line of JSON: backup, created, files, bytes, jobs");
  on_call(app, backup, status);

  auto restore = std::make_shared<Restore>();
  app = program.add_subcommand("restore", "Make a data folder of a backup");
  app->add_option("BACKUP", restore->backup, "The backup; it is not changed")
      ->required()
      ->type_name("");
  app->add_option("--data", restore->folder, "The data folder to make: empty, or not there yet")
      ->required()
      ->type_name("FOLDER");
  app->add_flag("--no-check", restore->unchecked, "Do not read both to see whether they are sound");
  app->add_flag("--json", restore->json,
                "Print one line of JSON: folder, created, files, bytes, jobs");
  on_call(app, restore, status);
}

}  // namespace carillon::app
