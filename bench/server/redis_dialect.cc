// SPDX-License-Identifier: Apache-2.0
//
// The usual delayed queue in Redis: a sorted set of ids by due time and a hash of bodies. A claim
// is a script, and so atomic: it moves what is due to the set of what is worked on, by deadline, so
// that nothing is lost with its worker. What is done is removed from that set and from the hash.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "bench/common/interrupt.h"
#include "bench/server/dialect.h"
#include "bench/server/numbers.h"
#include "bench/server/wire.h"

namespace carillon::bench {
namespace {

constexpr std::int64_t kTimeToRunMs = 60'000;
constexpr std::string_view kClaimScript =
    "local ids = redis.call('ZRANGE', KEYS[1], '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2])\n"
    "if #ids == 0 then return {} end\n"
    "redis.call('ZREM', KEYS[1], unpack(ids))\n"
    "local deadlines = {}\n"
    "for i, id in ipairs(ids) do deadlines[2 * i - 1] = ARGV[3]; deadlines[2 * i] = id end\n"
    "redis.call('ZADD', KEYS[2], unpack(deadlines))\n"
    "local bodies = redis.call('HMGET', KEYS[3], unpack(ids))\n"
    "return {ids, bodies}\n";

void append_bulk(std::string& out, std::string_view text) {
  out += '$';
  append_number(out, text.size());
  out.append("\r\n").append(text).append("\r\n");
}

void append_bulk_number(std::string& out, std::int64_t value) {
  std::string digits;
  append_number(digits, value);
  append_bulk(out, digits);
}

void append_array(std::string& out, std::size_t size) {
  out += '*';
  append_number(out, size);
  out.append("\r\n");
}

// Walks over a reply; `incomplete()` once it went beyond the end.
class RespReader {
 public:
  explicit RespReader(std::string_view in) : in_(in) {}

  [[nodiscard]] bool incomplete() const { return incomplete_; }
  [[nodiscard]] std::size_t taken() const { return at_; }

  // A line without its first character, which is to be `kind`.
  std::string_view line(char kind) {
    const std::size_t end = incomplete_ ? std::string_view::npos : in_.find("\r\n", at_);
    if (end == std::string_view::npos) {
      incomplete_ = true;
      return {};
    }
    const std::string_view whole = in_.substr(at_, end - at_);
    if (whole.empty() || whole.front() != kind) {
      throw BenchError(fmt::format("Redis answered \"{}\"", whole.substr(0, 200)));
    }
    at_ = end + 2;
    return whole.substr(1);
  }

  std::uint64_t number(char kind) { return number_at(line(kind)); }

  std::string_view bulk() {
    const std::uint64_t size = number('$');
    if (incomplete_ || in_.size() < at_ + size + 2) {
      incomplete_ = true;
      return {};
    }
    const std::string_view text = in_.substr(at_, size);
    at_ += size + 2;
    return text;
  }

 private:
  std::string_view in_;
  std::size_t at_ = 0;
  bool incomplete_ = false;
};

class RedisDialect final : public Dialect {
 public:
  void greet(int fd) override {
    std::string load;
    append_array(load, 3);
    append_bulk(load, "SCRIPT");
    append_bulk(load, "LOAD");
    append_bulk(load, kClaimScript);
    std::array<char, 512> reply;
    const ssize_t n = ::send(fd, load.data(), load.size(), MSG_NOSIGNAL) < 0
                          ? -1
                          : ::recv(fd, reply.data(), reply.size(), 0);
    if (n <= 0) throw BenchError("Redis does not answer");
    RespReader reader({reply.data(), static_cast<std::size_t>(n)});
    script_ = reader.bulk();
    if (reader.incomplete()) throw BenchError("Redis takes no script");
  }

  // Many commands in a row cost no more than one with many arguments, and are acknowledged sooner.
  [[nodiscard]] bool groups() const override { return false; }
  [[nodiscard]] bool waits() const override { return false; }

  void append_put(std::string& out, DueTime due, std::span<const JobToPut> jobs) override {
    for (const JobToPut& job : jobs) append_redis_put(out, job.id, ceil_ms(due.at), job.body);
  }

  // A job is two commands and so two replies, the second of which completes it.
  std::size_t cut_put(std::string_view in, std::uint64_t& jobs) override {
    RespReader reader(in);
    reader.number(':');
    if (reader.incomplete()) return 0;
    if (second_) ++jobs;
    second_ = !second_;
    return reader.taken();
  }

  void append_claim(std::string& out, std::uint64_t most, WallTime now) override {
    const std::int64_t now_ms = floor_ms(now);
    append_array(out, 9);
    append_bulk(out, "EVALSHA");
    append_bulk(out, script_);
    append_bulk(out, "3");
    for (const std::string_view key : {"delayed", "working", "jobs"}) append_bulk(out, key);
    append_bulk_number(out, now_ms);
    append_bulk_number(out, static_cast<std::int64_t>(most));
    append_bulk_number(out, now_ms + kTimeToRunMs);
  }

  std::size_t cut_claim(std::string_view in, std::vector<ClaimedJob>& jobs) override {
    RespReader reader(in);
    if (reader.number('*') > 0) {
      const std::uint64_t count = reader.number('*');
      for (std::uint64_t i = 0; i < count && !reader.incomplete(); ++i) {
        jobs.push_back({reader.bulk(), {}, {}});
      }
      reader.number('*');
      for (std::uint64_t i = 0; i < count && !reader.incomplete(); ++i) {
        jobs[i].body = reader.bulk();
      }
    }
    if (!reader.incomplete()) return reader.taken();
    jobs.clear();
    return 0;
  }

  void append_finish(std::string& out, std::span<const ClaimedJob> jobs) override {
    append_array(out, 2 + jobs.size());
    append_bulk(out, "ZREM");
    append_bulk(out, "working");
    for (const ClaimedJob& job : jobs) append_bulk(out, job.id);
    append_array(out, 2 + jobs.size());
    append_bulk(out, "HDEL");
    append_bulk(out, "jobs");
    for (const ClaimedJob& job : jobs) append_bulk(out, job.id);
  }

  std::size_t cut_finish(std::string_view in, std::uint64_t& jobs) override {
    RespReader reader(in);
    const std::uint64_t from_set = reader.number(':');
    const std::uint64_t from_hash = reader.number(':');
    if (reader.incomplete()) return 0;
    jobs = std::min(from_set, from_hash);
    return reader.taken();
  }

 private:
  std::string script_;
  bool second_ = false;
};

}  // namespace

std::unique_ptr<Dialect> make_redis_dialect() { return std::make_unique<RedisDialect>(); }

}  // namespace carillon::bench
