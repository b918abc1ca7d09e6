// SPDX-License-Identifier: Apache-2.0
#include "bench/server/postgres_cluster.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>

#include "bench/common/environment.h"
#include "bench/common/interrupt.h"
#include "bench/server/numbers.h"
#include "bench/server/postgres_wire.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

constexpr Span kStartLimit = std::chrono::seconds(180);
constexpr std::string_view kTable =
    "CREATE TABLE IF NOT EXISTS jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "due_ms bigint NOT NULL, claimed boolean NOT NULL DEFAULT false, "
    "attempts integer NOT NULL DEFAULT 0, body bytea NOT NULL) "
    "WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);"
    "CREATE INDEX IF NOT EXISTS jobs_due ON jobs (due_ms) WHERE NOT claimed";

struct Owner {
  uid_t user = 0;  // 0: whoever runs this
  gid_t group = 0;
};

Owner owner() {
  if (::geteuid() != 0) return {};
  for (const char* name : {"postgres", "nobody"}) {
    if (const passwd* entry = ::getpwnam(name)) return {entry->pw_uid, entry->pw_gid};
  }
  throw BenchError("PostgreSQL does not run as root, and there is no user \"nobody\"");
}

class Connection {
 public:
  explicit Connection(const Address& address) : fd_(connect_to(address)) {
    if (fd_ < 0) throw BenchError(fmt::format("PostgreSQL: {}", std::strerror(errno)));
  }
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  std::string ask(std::string_view sql) const {
    std::string out;
    append_startup(out);
    append_query(out, sql);
    return await_ready(fd_, out, 2);
  }

 private:
  int fd_;
};

}  // namespace

std::string find_postgres_program(const std::string& program) {
  constexpr int kOldest = 15;
  for (int version = kOldest + 10; version >= kOldest; --version) {
    std::string path = find_program(fmt::format("/usr/lib/postgresql/{}/bin/{}", version, program));
    if (!path.empty()) return path;
  }
  return find_program(program);
}

void make_postgres_cluster(const std::filesystem::path& scratch, const std::filesystem::path& dir) {
  if (std::filesystem::exists(dir / "PG_VERSION")) return;
  const Owner its = owner();
  const auto own = [&its](const std::filesystem::path& path) {
    if (::chown(path.c_str(), its.user, its.group) != 0) {
      throw BenchError(fmt::format("chown {}: {}", path.string(), std::strerror(errno)));
    }
  };
  if (its.user != 0) {
    own(scratch);
    own(dir);
  }
  run_to_end({find_postgres_program("initdb"), "--pgdata", dir.string(), "--auth", "trust",
              "--username", std::string(kPostgresUser), "--encoding", "UTF8", "--locale", "C",
              "--no-sync", "--no-instructions"},
             its.user, its.group, scratch / "initdb-log");
}

ServerCommand postgres_command(const std::string& dir) {
  // A socket of the abstract namespace has no path that could be too long, and no file.
  const std::string folder = fmt::format("carillon-bench-{}-{}", ::getpid(), free_port());
  ServerCommand command;
  command.words = {find_postgres_program("postgres"), "-D", dir};
  for (const std::string& setting : {
           std::string("listen_addresses="),
           "unix_socket_directories=@" + folder,
           std::string("port=5432"),
           std::string("fsync=on"),
           std::string("synchronous_commit=on"),
           std::string("shared_buffers=512MB"),
           std::string("wal_buffers=16MB"),
           std::string("max_wal_size=8GB"),
           std::string("min_wal_size=1GB"),
           std::string("checkpoint_timeout=30min"),
           std::string("wal_level=minimal"),
           std::string("max_wal_senders=0"),
           std::string("max_connections=200"),
           std::string("autovacuum_naptime=5s"),
           std::string("recovery_init_sync_method=syncfs"),
           std::string("jit=off"),
           std::string("max_parallel_workers_per_gather=0"),
       }) {
    command.words.insert(command.words.end(), {"-c", setting});
  }
  command.address.name = folder + "/.s.PGSQL.5432";
  command.end_signal = SIGINT;    // "fast": connections are ended, nothing is lost
  command.kill_signal = SIGQUIT;  // "immediate": as in a crash, and its children end too
  const Owner its = owner();
  command.user = its.user;
  command.group = its.group;
  return command;
}

void prepare_postgres(const Address& address) {
  const SteadyClock clock;
  const Instant give_up = saturating_add(clock.now(), kStartLimit);
  for (;;) {
    try {
      static_cast<void>(Connection(address).ask(kTable));
      return;
    } catch (const BenchError&) {  // It says so while it recovers.
      if (clock.now() > give_up) throw;
    }
    pause_for(std::chrono::milliseconds(2));
  }
}

std::uint64_t count_postgres_jobs(const Address& address) {
  const std::string answer = Connection(address).ask("SELECT count(*) FROM jobs");
  MessageReader reader(answer);
  while (reader.next()) {
    if (reader.type() == 'D') return number_at(reader.column(0));
  }
  throw BenchError("PostgreSQL does not count");
}

}  // namespace carillon::bench
