// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A database cluster of PostgreSQL with a queue in it, in a folder of its own.

#include <cstdint>
#include <filesystem>
#include <string>

#include "bench/server/server_process.h"

namespace carillon::bench {

/// Where a program of PostgreSQL 15 or later is, the newest if there are several; else empty.
/// Debian keeps them out of PATH.
[[nodiscard]] std::string find_postgres_program(const std::string& program);

/// Makes a cluster in `dir`, unless there is one. It belongs to an unprivileged user, since
/// PostgreSQL refuses to run as root: if we are root, to "postgres" or else "nobody", who is let
/// into `scratch`, in which `dir` is.
void make_postgres_cluster(const std::filesystem::path& scratch, const std::filesystem::path& dir);

/// The server on that cluster: on a Unix socket, durable (fsync and synchronous_commit on, which is
/// the default), otherwise as suits a queue on this machine.
[[nodiscard]] ServerCommand postgres_command(const std::string& dir);

/// Waits until the server serves, and makes the table if there is none.
void prepare_postgres(const Address& address);

[[nodiscard]] std::uint64_t count_postgres_jobs(const Address& address);

}  // namespace carillon::bench
