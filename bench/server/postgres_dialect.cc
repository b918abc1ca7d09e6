// SPDX-License-Identifier: Apache-2.0
//
// A queue in a table of PostgreSQL: prepared statements in binary form over version 3 of its
// protocol, several jobs a statement, FOR UPDATE SKIP LOCKED, and a partial index of what is not
// yet claimed. Each statement is a transaction of its own, and is answered when that is on disk.
#include <fmt/format.h>

#include <chrono>
#include <cstring>

#include "bench/common/interrupt.h"
#include "bench/server/dialect.h"
#include "bench/server/numbers.h"
#include "bench/server/postgres_wire.h"

namespace carillon::bench {
namespace {

constexpr std::string_view kPutOne = "INSERT INTO jobs (due_ms, body) VALUES ($1, $2)";
constexpr std::string_view kPutMany =
    "INSERT INTO jobs (due_ms, body) SELECT * FROM unnest($1::bigint[], $2::bytea[])";
constexpr std::string_view kClaim =
    "UPDATE jobs SET claimed = true, attempts = attempts + 1 WHERE id = ANY(ARRAY("
    "SELECT id FROM jobs WHERE NOT claimed AND due_ms <= $1 ORDER BY due_ms LIMIT $2 "
    "FOR UPDATE SKIP LOCKED)) RETURNING id, body";
constexpr std::string_view kFinish = "DELETE FROM jobs WHERE id = ANY($1::bigint[])";

class PostgresDialect final : public Dialect {
 public:
  void greet(int fd) override {
    std::string out;
    append_startup(out);
    append_parse(out, "one", kPutOne, {kInt8Type, kByteaType});
    append_parse(out, "many", kPutMany, {kInt8ArrayType, kByteaArrayType});
    append_parse(out, "claim", kClaim, {kInt8Type, kInt8Type});
    append_parse(out, "finish", kFinish, {kInt8ArrayType});
    append_sync(out);
    // The start is answered with one "ready for query", the statements with another.
    await_ready(fd, out, 2);
  }

  [[nodiscard]] bool groups() const override { return true; }
  [[nodiscard]] bool waits() const override { return false; }

  void append_put(std::string& out, DueTime due, std::span<const JobToPut> jobs) override {
    const std::int64_t due_ms = ceil_ms(due.at);
    if (jobs.size() == 1) {
      BoundStatement put(out, "one", 2);
      put.add_int8(due_ms);
      put.add_bytes(jobs.front().body);
      return;
    }
    BoundStatement put(out, "many", 2);
    put.begin_array(kInt8Type, jobs.size());
    for (std::size_t i = 0; i < jobs.size(); ++i) put.add_int8(due_ms);
    put.end_array();
    put.begin_array(kByteaType, jobs.size());
    for (const JobToPut& job : jobs) put.add_bytes(job.body);
    put.end_array();
  }

  std::size_t cut_put(std::string_view in, std::uint64_t& jobs) override {
    std::uint64_t done = 0;
    const std::size_t taken = cut_done(in, "INSERT 0 ", done);
    jobs += done;
    return taken;
  }

  void append_claim(std::string& out, std::uint64_t most, WallTime now) override {
    BoundStatement claim(out, "claim", 2);
    claim.add_int8(floor_ms(now));
    claim.add_int8(static_cast<std::int64_t>(most));
  }

  std::size_t cut_claim(std::string_view in, std::vector<ClaimedJob>& jobs) override {
    const std::size_t taken = cut_until_ready(in);
    if (taken == 0) return 0;
    MessageReader reader(in.substr(0, taken));
    while (reader.next()) {
      if (reader.type() != 'D') continue;
      const std::string_view id = reader.column(0);
      jobs.push_back({id, {}, reader.column(1)});
    }
    return taken;
  }

  void append_finish(std::string& out, std::span<const ClaimedJob> jobs) override {
    BoundStatement finish(out, "finish", 1);
    finish.begin_array(kInt8Type, jobs.size());
    for (const ClaimedJob& job : jobs) finish.add_bytes(job.id);  // as it came: eight bytes
    finish.end_array();
  }

  std::size_t cut_finish(std::string_view in, std::uint64_t& jobs) override {
    return cut_done(in, "DELETE ", jobs);
  }

 private:
  // Takes the reply to a statement that is answered with `tag` and a number.
  static std::size_t cut_done(std::string_view in, std::string_view tag, std::uint64_t& jobs) {
    const std::size_t taken = cut_until_ready(in);
    if (taken == 0) return 0;
    MessageReader reader(in.substr(0, taken));
    while (reader.next()) {
      if (reader.type() != 'C') continue;
      if (!reader.payload().starts_with(tag)) {
        throw BenchError(fmt::format("PostgreSQL answered \"{}\"", reader.payload()));
      }
      jobs = number_at(reader.payload().substr(tag.size()));
    }
    return taken;
  }
};

}  // namespace

std::unique_ptr<Dialect> make_postgres_dialect() { return std::make_unique<PostgresDialect>(); }

}  // namespace carillon::bench
