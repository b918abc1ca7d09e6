// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The verbs of the command line. Each adds its subcommand to the program and, when that was given,
/// leaves the exit status in `status`.

#include <CLI/CLI.hpp>

namespace carillon::app {

/// The exit status of every verb.
enum ExitStatus : int {
  kOk = 0,
  kNotFound = 1,     ///< No such job or tube; nothing to reserve in time.
  kUsage = 2,        ///< The command line or the configuration is wrong.
  kServerError = 3,  ///< Cannot connect, no answer in time, or an answer that is an error; `serve`:
                     ///< cannot start, or the stop was not clean.
  kUnsound = 4,      ///< A data folder or a backup is not sound.
};

/// The options of the client verbs that may also stand before the verb.
struct Connecting {
  const CLI::Option* server = nullptr;
  const CLI::Option* http = nullptr;  ///< Null: of a verb that does not speak it.
  const CLI::Option* token_file = nullptr;
  const CLI::Option* tls_ca = nullptr;
  const CLI::Option* tls_cert = nullptr;
  const CLI::Option* tls_key = nullptr;
  const CLI::Option* patience = nullptr;

  /// Whether the command line says any of them.
  [[nodiscard]] bool said() const;
};

/// What those that need no server say then.
inline constexpr const char* kForOtherVerbs =
    "--server and --patience, --http, --token-file and --tls-... are for the other verbs";

/// What a verb speaks to the server.
enum class Speaks { kBeanstalk, kHttp, kBoth };

/// Adds them to `app`: the program, or a verb.
Connecting add_connecting(CLI::App& app, Speaks speaks = Speaks::kBoth);

// `connecting`, that of the program, must outlive the parsing.
void add_serve(CLI::App& program, int& status, const Connecting& connecting);
void add_put(CLI::App& program, int& status, const Connecting& connecting);
void add_reserve(CLI::App& program, int& status, const Connecting& connecting);
/// delete, peek.
void add_client_verbs(CLI::App& program, int& status, const Connecting& connecting);
/// ack, release, bury, touch: for a receipt.
void add_answer_verbs(CLI::App& program, int& status, const Connecting& connecting);
/// show, change, cancel, search, clear.
void add_job_verbs(CLI::App& program, int& status, const Connecting& connecting);
/// ls, stats, kick, pause, resume.
void add_tube_verbs(CLI::App& program, int& status, const Connecting& connecting);
void add_top(CLI::App& program, int& status, const Connecting& connecting);
void add_bench(CLI::App& program, int& status, const Connecting& connecting);
/// check, backup, restore.
void add_folder_verbs(CLI::App& program, int& status);
/// Neither needs a server.
void add_trace(CLI::App& program, int& status, const Connecting& connecting);
void add_plan(CLI::App& program, int& status, const Connecting& connecting);
/// schedule next, which does not need one either, and those that do: set, ls, show, rm, run.
void add_schedule(CLI::App& program, int& status, const Connecting& connecting);

/// completions: of all verbs of `program`, which must outlive the parsing.
void add_completions(CLI::App& program);

}  // namespace carillon::app
