// SPDX-License-Identifier: Apache-2.0
// What a durable commit costs, beside a bare append + fdatasync on the same disk in the same run.
//
//     store_bench FOLDER [lone | stream | far [JOBS] | all]
//
// lone    one job a commit, the next when the last is durable: latency; alternating with the bare
// disk. stream  batches of 1 to 1,000 jobs, put near and then erased, 2 and 16 in flight: jobs per
// second. far     JOBS (default 10 million) put far: rate, memory, the start after a kill, a scan,
// cancels.
//
// One JSON object a line. FOLDER is created, and emptied afterwards.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/base/mutex.h"
#include "carillon/base/random.h"
#include "carillon/store/rocksdb/rocks_store.h"

namespace carillon::store {
namespace {

using broker::Batch;
using broker::Body;
using broker::CommitSeq;
using broker::JobId;
using broker::Mutation;
using broker::Place;

constexpr std::size_t kBodyBytes = 200;
constexpr std::int64_t kNow = 1'700'000'000'000;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Half of it random, so that compression finds something to do, as in a JSON body.
Body make_body(Random& random) {
  Body body = Body::make(kBodyBytes);
  for (std::size_t i = 0; i < kBodyBytes; ++i) {
    body.mutable_data()[i] = i % 2 == 0 ? static_cast<char>(random()) : 'a';
  }
  return body;
}

// Of all threads, compaction included: what is left to compare on a busy machine.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::size_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  in >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// How many commits are durable; waits for them.
class Gate {
 public:
  void open(CommitSeq seq, const Result<void>& result) {
    CARILLON_CHECK(result.has_value(), result.error().message);
    const MutexLock lock(mutex_);
    durable_ = std::max(durable_, seq);
    changed_.notify_one();
  }
  void wait_for(CommitSeq seq) {
    const MutexLock lock(mutex_);
    while (durable_ < seq) changed_.wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  CommitSeq durable_ = 0;
};

class Ignore final : public broker::RecoverySink {
 public:
  void on_partition(const broker::PartitionRecord&) override {}
  void on_tube(const broker::TubeRecord&) override {}
  void on_job(broker::StoredJob) override { ++jobs; }
  std::size_t jobs = 0;
};

class Session {
 public:
  explicit Session(const std::string& folder) {
    RocksOptions options;
    options.folder = folder;
    Result<std::unique_ptr<RocksDatabase>> opened = RocksDatabase::open(std::move(options));
    CARILLON_CHECK(opened.has_value(), opened.error().message);
    database = std::move(*opened);
    store = database->open_partition(0);
    Ignore ignore;
    const Result<void> recovered = store->recover(ignore);
    CARILLON_CHECK(recovered.has_value(), recovered.error().message);
  }
  ~Session() {
    store.reset();
    database.reset();
  }

  CommitSeq commit(std::unique_ptr<Batch> batch) {
    batch->seq = ++seq;
    store->commit(std::move(batch),
                  [this](CommitSeq up_to, Result<void> result) { gate.open(up_to, result); });
    return seq;
  }

  std::unique_ptr<RocksDatabase> database;
  std::unique_ptr<broker::Store> store;
  Gate gate;
  CommitSeq seq = 0;
  JobId next_id = 1;
  Random random{1};
};

void add_put(Batch& batch, Session& session, Place place, std::int64_t due_ms) {
  Mutation& put = batch.mutations.emplace_back();
  put.kind = Mutation::Kind::kPut;
  put.place = place;
  put.job.id = session.next_id++;
  put.job.tube = 1;
  put.job.state = place == Place::kFar ? broker::JobState::kDelayed : broker::JobState::kReady;
  put.job.priority = 1'024;
  put.job.ttr_ms = 60'000;
  put.job.created_ms = kNow;
  put.job.due_ms = due_ms;
  put.body = make_body(session.random);
  put.job.body_size = put.body.size();
  batch.bytes += put.body.size();
}

void add_erase_near(Batch& batch, JobId id) {
  Mutation& erase = batch.mutations.emplace_back();
  erase.kind = Mutation::Kind::kErase;
  erase.place = Place::kNear;
  erase.job.id = id;
}

struct Percentiles {
  explicit Percentiles(std::vector<double>& us) {
    std::sort(us.begin(), us.end());
    p50 = us[us.size() / 2];
    p99 = us[us.size() * 99 / 100];
  }
  double p50 = 0;
  double p99 = 0;
};

// Appends like the ones of a log: 230 bytes, growing the file.
class BareLog {
 public:
  explicit BareLog(const std::string& path)
      : file_(::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_APPEND | O_CLOEXEC, 0644)) {
    CARILLON_CHECK(file_ >= 0, path, ": ", std::strerror(errno));
  }
  ~BareLog() { ::close(file_); }
  void append(std::size_t jobs) {
    bytes_.resize(jobs * 230, 'x');
    CARILLON_CHECK(
        ::write(file_, bytes_.data(), bytes_.size()) == static_cast<ssize_t>(bytes_.size()),
        std::strerror(errno));
    CARILLON_CHECK(::fdatasync(file_) == 0, std::strerror(errno));
  }

 private:
  const int file_;
  std::string bytes_;
};

void run_lone(const std::string& folder) {
  constexpr int kRounds = 20;
  constexpr int kCommits = 200;
  std::vector<double> bare_us;
  std::vector<double> store_us;
  {
    BareLog bare(folder + "/bare.log");
    Session session(folder + "/lone");
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < kCommits; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        bare.append(1);
        bare_us.push_back(seconds_since(begin) * 1e6);
      }
      for (int i = 0; i < kCommits; ++i) {
        auto batch = std::make_unique<Batch>();
        add_put(*batch, session, Place::kNear, 0);
        const auto begin = std::chrono::steady_clock::now();
        session.gate.wait_for(session.commit(std::move(batch)));
        store_us.push_back(seconds_since(begin) * 1e6);
      }
    }
  }
  const Percentiles bare(bare_us);
  const Percentiles store(store_us);
  std::printf(
      "{\"bench\":\"store_lone\",\"commits\":%d,\"bare_p50_us\":%.0f,\"bare_p99_us\":%.0f,"
      "\"store_p50_us\":%.0f,\"store_p99_us\":%.0f,\"ratio_p50\":%.2f}\n",
      kRounds * kCommits, bare.p50, bare.p99, store.p50, store.p99, store.p50 / bare.p50);
}

void run_bare_stream(const std::string& folder, std::size_t batch_jobs) {
  BareLog bare(folder + "/bare.log");
  const auto begin = std::chrono::steady_clock::now();
  std::size_t jobs = 0;
  while (seconds_since(begin) < 1) {
    bare.append(batch_jobs);
    jobs += batch_jobs;
  }
  std::printf("{\"bench\":\"bare_stream\",\"batch\":%zu,\"jobs_per_s\":%.0f}\n", batch_jobs,
              static_cast<double>(jobs) / seconds_since(begin));
}

// Jobs are put, and erased `kAlive` jobs later: a queue that is worked off as fast as it fills.
void run_stream(const std::string& folder, std::size_t batch_jobs, std::size_t in_flight,
                bool erases) {
  constexpr JobId kAlive = 50'000;
  constexpr double kSeconds = 4;
  Session session(folder + "/stream");
  std::vector<double> us;
  JobId erased = 0;
  const double cpu_begin = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::chrono::steady_clock::time_point> submitted(in_flight);
  while (seconds_since(begin) < kSeconds) {
    auto batch = std::make_unique<Batch>();
    for (std::size_t i = 0; i < batch_jobs; ++i) {
      add_put(*batch, session, Place::kNear, 0);
      if (erases && session.next_id > kAlive) add_erase_near(*batch, ++erased);
    }
    const std::size_t slot = session.seq % in_flight;
    if (session.seq >= in_flight) {
      session.gate.wait_for(session.seq + 1 - in_flight);
      us.push_back(seconds_since(submitted[slot]) * 1e6);
    }
    submitted[slot] = std::chrono::steady_clock::now();
    session.commit(std::move(batch));
  }
  session.gate.wait_for(session.seq);
  const double seconds = seconds_since(begin);
  const Percentiles latency(us);
  const RocksStats stats = session.database->stats();
  std::printf(
      "{\"bench\":\"store_stream\",\"batch\":%zu,\"in_flight\":%zu,\"erases\":%s,"
      "\"jobs_per_s\":%.0f,\"commit_p50_us\":%.0f,\"commit_p99_us\":%.0f,\"groups\":%llu,"
      "\"syncs\":%llu,\"sync_p50_us\":%llu,\"cpu_us_per_job\":%.2f,\"rss_mb\":%zu}\n",
      batch_jobs, in_flight, erases ? "true" : "false",
      static_cast<double>(session.next_id - 1) / seconds, latency.p50, latency.p99,
      static_cast<unsigned long long>(stats.groups), static_cast<unsigned long long>(stats.syncs),
      static_cast<unsigned long long>(stats.sync_us.quantile_us(0.5)),
      (cpu_seconds() - cpu_begin) * 1e6 / static_cast<double>(session.next_id - 1),
      resident_bytes() >> 20);
}

void fill_far(const std::string& folder, std::size_t jobs) {
  constexpr std::size_t kBatchJobs = 1'000;
  constexpr std::size_t kInFlight = 4;
  Session session(folder + "/far");
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t put = 0; put < jobs; put += kBatchJobs) {
    auto batch = std::make_unique<Batch>();
    for (std::size_t i = 0; i < kBatchJobs; ++i) {
      // Due tomorrow, over the whole day.
      add_put(*batch, session, Place::kFar,
              kNow + 86'400'000 + static_cast<std::int64_t>(session.random.below(86'400'000)));
    }
    if (session.seq >= kInFlight) session.gate.wait_for(session.seq + 1 - kInFlight);
    session.commit(std::move(batch));
  }
  session.gate.wait_for(session.seq);
  const double seconds = seconds_since(begin);
  std::printf(
      "{\"bench\":\"store_far_put\",\"jobs\":%zu,\"jobs_per_s\":%.0f,\"cpu_us_per_job\":%.2f,"
      "\"rss_mb\":%zu,\"disk_bytes_per_job\":%.0f}\n",
      jobs, static_cast<double>(jobs) / seconds, cpu_seconds() * 1e6 / static_cast<double>(jobs),
      resident_bytes() >> 20,
      static_cast<double>(session.database->stats().stored_bytes) / static_cast<double>(jobs));
  std::_Exit(0);  // as a kill would
}

void run_far(const std::string& folder, std::size_t jobs) {
  const pid_t child = ::fork();
  if (child == 0) fill_far(folder, jobs);
  int status = 0;
  ::waitpid(child, &status, 0);
  CARILLON_CHECK(status == 0, "the filling process ended with ", status);

  const auto begin = std::chrono::steady_clock::now();
  Session session(folder + "/far");
  const double open_seconds = seconds_since(begin);
  session.next_id = jobs + 1;

  const auto scan = [&session](std::int64_t from_ms, std::int64_t until_ms) {
    const auto scan_begin = std::chrono::steady_clock::now();
    broker::FarCursor cursor{from_ms, 0};
    std::size_t found = 0;
    CommitSeq scans = 0;
    Gate gate;
    for (bool more = true; more;) {
      const CommitSeq number = ++scans;
      const auto take = [&, number](Result<broker::FarChunk> chunk) {
        CARILLON_CHECK(chunk.has_value(), chunk.error().message);
        found += chunk->jobs.size();
        more = chunk->more;
        if (more) cursor = {chunk->jobs.back().record.due_ms, chunk->jobs.back().record.id + 1};
        gate.open(number, {});
      };
      session.store->scan_far(1, cursor, until_ms, 1'000, take);
      gate.wait_for(number);
    }
    std::printf("{\"bench\":\"store_far_scan\",\"window_s\":%lld,\"jobs\":%zu,\"ms\":%.1f}\n",
                static_cast<long long>((until_ms - from_ms) / 1'000), found,
                seconds_since(scan_begin) * 1e3);
  };
  std::printf("{\"bench\":\"store_far_start\",\"jobs\":%zu,\"open_s\":%.2f,\"rss_mb\":%zu}\n", jobs,
              open_seconds, resident_bytes() >> 20);
  const std::int64_t day = kNow + 86'400'000;
  scan(day, day + 60'000);
  scan(day + 60'000, day + 120'000);

  // Cancels: found by id, as a delete of a far job is.
  constexpr std::size_t kCancels = 50'000;
  const auto cancel_begin = std::chrono::steady_clock::now();
  std::vector<bool> gone(jobs + 1);
  std::size_t cancelled = 0;
  while (cancelled < kCancels) {
    constexpr std::size_t kDeep = 512;
    std::vector<broker::StoredJob> found;
    Gate gate;
    std::vector<broker::WantedJob> wanted(kDeep);
    for (broker::WantedJob& job : wanted) job.id = 1 + session.random.below(jobs);
    session.store->fetch(std::move(wanted),
                         [&](std::vector<Result<std::optional<broker::StoredJob>>> answers) {
                           for (Result<std::optional<broker::StoredJob>>& job : answers) {
                             CARILLON_CHECK(job.has_value(), job.error().message);
                             if (*job) found.push_back(std::move(**job));
                           }
                           gate.open(1, {});
                         });
    gate.wait_for(1);
    auto batch = std::make_unique<Batch>();
    for (const broker::StoredJob& job : found) {
      if (gone[job.record.id]) continue;
      gone[job.record.id] = true;
      Mutation& erase = batch->mutations.emplace_back();
      erase.kind = Mutation::Kind::kErase;
      erase.place = Place::kFar;
      erase.job = job.record;
      erase.far_due_ms = job.record.due_ms;
      ++cancelled;
    }
    session.commit(std::move(batch));
  }
  session.gate.wait_for(session.seq);
  std::printf("{\"bench\":\"store_far_cancel\",\"jobs\":%zu,\"jobs_per_s\":%.0f,\"rss_mb\":%zu}\n",
              cancelled, static_cast<double>(cancelled) / seconds_since(cancel_begin),
              resident_bytes() >> 20);
}

int run(const std::string& folder, const std::string& what, std::size_t jobs) {
  std::filesystem::create_directories(folder);
  const auto fresh = [&folder](const char* name) {
    std::filesystem::remove_all(folder + "/" + name);
  };
  const bool all = what == "all";
  if (all || what == "lone") {
    fresh("lone");
    run_lone(folder);
    fresh("lone");
  }
  if (all || what == "stream") {
    for (const std::size_t batch : {1, 10, 100, 1'000}) {
      run_bare_stream(folder, batch);
      for (const std::size_t in_flight : {2, 16}) {
        for (const bool erases : {false, true}) {
          fresh("stream");
          run_stream(folder, batch, in_flight, erases);
        }
      }
    }
    fresh("stream");
  }
  if (all || what == "far") {
    fresh("far");
    run_far(folder, jobs);
    fresh("far");
  }
  std::filesystem::remove(folder + "/bare.log");
  return 0;
}

}  // namespace
}  // namespace carillon::store

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: store_bench FOLDER [lone | stream | far [JOBS] | all]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string what = argc > 2 ? argv[2] : "all";
  const std::size_t jobs = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 10'000'000;
  return carillon::store::run(argv[1], what, jobs);
}
