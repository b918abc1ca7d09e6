// SPDX-License-Identifier: Apache-2.0
// The whole server in this process, on loopback, with one partition and with several. No test waits
// for time to pass: whatever has to happen is waited for by its answer.

#include "carillon/server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "carillon/server/beanstalk_client.h"
#include "carillon/store/rocksdb/folder_check.h"

namespace carillon::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// A server on a thread of its own, from construction to stop().
class RunningServer {
 public:
  explicit RunningServer(ServerOptions options) {
    std::promise<Endpoint> started;
    std::future<Endpoint> endpoint = started.get_future();
    thread_ = std::thread([this, options = std::move(options), &started] {
      Result<std::unique_ptr<Server>> server =
          Server::start(options, [this](LogLevel, std::string_view line) {
            const std::lock_guard lock(mutex_);
            log_.append(line).append("\n");
          });
      if (!server) {
        started.set_exception(std::make_exception_ptr(std::runtime_error(server.error().message)));
        return;
      }
      server_ = server->get();
      started.set_value(server_->endpoints().front());
      clean_ = server_->run();
    });
    try {
      at_ = endpoint.get();
    } catch (...) {
      thread_.join();
      throw;
    }
  }
  ~RunningServer() { stop(); }

  /// Returns whether the stop was clean.
  bool stop() {
    if (thread_.joinable()) {
      server_->request_stop();
      thread_.join();
    }
    return clean_;
  }
  [[nodiscard]] BeanstalkClient connect() const {
    Result<BeanstalkClient> client = BeanstalkClient::connect(at_, 30s);
    EXPECT_TRUE(client) << client.error().message;
    return std::move(*client);
  }
  Server& operator*() { return *server_; }
  Server* operator->() { return server_; }
  [[nodiscard]] std::string log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  Endpoint at_;
  Server* server_ = nullptr;
  bool clean_ = false;
  std::mutex mutex_;
  std::string log_;
  std::thread thread_;
};

std::string ask(BeanstalkClient& client, std::string_view line) {
  Result<BeanstalkClient::Answer> answer = client.ask(line);
  if (!answer) return answer.error().message;
  return answer->body.empty() ? answer->line : answer->line + " " + answer->body;
}

std::string read(BeanstalkClient& client) {
  Result<BeanstalkClient::Answer> answer = client.read_answer();
  return answer ? answer->line : answer.error().message;
}

std::string read_after_send(BeanstalkClient& client, std::string_view bytes) {
  EXPECT_TRUE(client.send(bytes));
  return read(client);
}

/// The value of `key` in a document of statistics.
std::string value_of(BeanstalkClient& client, std::string_view line, const std::string& key) {
  const std::string text = ask(client, line);
  const std::size_t at = text.find("\n" + key + ": ");
  if (at == std::string::npos) return text;
  const std::size_t from = at + key.size() + 3;
  return text.substr(from, text.find('\n', from) - from);
}

struct Setting {
  const char* name;
  std::uint64_t partitions;
  bool durable;
};

class ServerTest : public testing::TestWithParam<Setting> {
 protected:
  ServerTest() {
    std::string name = testing::TempDir() + "carillon-server-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ServerTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] ServerOptions options() const {
    ServerOptions options;
    options.listen = {*Endpoint::parse("127.0.0.1:0")};
    options.http_listen = {};
    options.partitions = GetParam().partitions;
    options.memory = !GetParam().durable;
    if (GetParam().durable) options.data = folder_ / "data";
    options.min_free_space = 0;
    return options;
  }

  std::filesystem::path folder_;
};

INSTANTIATE_TEST_SUITE_P(Every, ServerTest,
                         testing::Values(Setting{"Memory", 1, false},
                                         Setting{"MemoryInFour", 4, false},
                                         Setting{"Durable", 1, true},
                                         Setting{"DurableInFour", 4, true}),
                         [](const auto& setting) { return setting.param.name; });

TEST_P(ServerTest, AJobGoesRound) {
  RunningServer server(options());
  BeanstalkClient client = server.connect();
  const Result<BeanstalkClient::Answer> put = client.put(1, 0, 60, "hello");
  ASSERT_TRUE(put && put->is("INSERTED"));
  const std::string id = std::to_string(put->id());
  EXPECT_EQ(ask(client, "reserve"), "RESERVED " + id + " 5 hello");
  EXPECT_EQ(ask(client, "release " + id + " 2 0"), "RELEASED");
  EXPECT_EQ(ask(client, "reserve-job " + id), "RESERVED " + id + " 5 hello");
  EXPECT_EQ(ask(client, "bury " + id + " 3"), "BURIED");
  EXPECT_EQ(ask(client, "peek-buried"), "FOUND " + id + " 5 hello");
  EXPECT_EQ(ask(client, "kick 10"), "KICKED 1");
  EXPECT_EQ(value_of(client, "stats-job " + id, "buries"), "1");
  EXPECT_EQ(ask(client, "delete " + id), "DELETED");
  EXPECT_EQ(ask(client, "delete " + id), "NOT_FOUND");
}

TEST_P(ServerTest, PipelinedCommandsAreAnsweredInOrder) {
  RunningServer server(options());
  BeanstalkClient client = server.connect();
  constexpr int kRounds = 2'000;
  std::string bytes = "use a\r\nwatch a\r\n";
  for (int i = 0; i < kRounds; ++i) {
    bytes += "put 0 0 60 1\r\nx\r\nreserve\r\nlist-tube-used\r\nnonsense\r\n";
  }
  std::thread sender([&] { EXPECT_TRUE(client.send(bytes)); });
  EXPECT_EQ(read(client), "USING a");
  EXPECT_EQ(read(client), "WATCHING 2");
  for (int i = 0; i < kRounds; ++i) {
    const std::string inserted = read(client);
    ASSERT_THAT(inserted, HasSubstr("INSERTED "));
    ASSERT_EQ(read(client), "RESERVED " + inserted.substr(9) + " 1");
    ASSERT_EQ(read(client), "USING a");
    ASSERT_EQ(read(client), "UNKNOWN_COMMAND");
  }
  sender.join();
}

TEST_P(ServerTest, AWaitingReserveIsServedByThePutOfAnother) {
  RunningServer server(options());
  BeanstalkClient worker = server.connect();
  BeanstalkClient producer = server.connect();
  // Over as many partitions as eight tubes fall into.
  for (int i = 0; i < 8; ++i) ask(worker, "watch w" + std::to_string(i));
  for (int i = 0; i < 8; ++i) {
    const std::string tube = "w" + std::to_string(i);
    ASSERT_TRUE(worker.send("reserve\r\n"));
    while (value_of(producer, "stats-tube " + tube, "current-waiting") != "1") {
    }
    ask(producer, "use " + tube);
    const std::uint64_t id = producer.put(0, 0, 60, "x")->id();
    EXPECT_EQ(read(worker), "RESERVED " + std::to_string(id) + " 1");
    EXPECT_EQ(ask(worker, "delete " + std::to_string(id)), "DELETED");
  }
  EXPECT_EQ(value_of(producer, "stats", "current-jobs-reserved"), "0");
}

TEST_P(ServerTest, HalfCloseEndsAWaitingReserveAndStillAnswersWhatFollows) {
  RunningServer server(options());
  BeanstalkClient client = server.connect();
  for (int i = 0; i < 8; ++i) ask(client, "watch w" + std::to_string(i));
  ASSERT_TRUE(client.send("reserve\r\nreserve\r\ndelete 7\r\nput 0 0 1 5\r\ncut"));
  client.end_input();
  EXPECT_EQ(*client.read_to_end(), "TIMED_OUT\r\nTIMED_OUT\r\nNOT_FOUND\r\n");
}

TEST_P(ServerTest, AReservedJobComesBackWhenItsWorkerCloses) {
  RunningServer server(options());
  BeanstalkClient other = server.connect();
  const std::string id = std::to_string(other.put(0, 0, 60, "x")->id());
  {
    BeanstalkClient worker = server.connect();
    EXPECT_THAT(ask(worker, "reserve"), HasSubstr("RESERVED " + id));
  }
  EXPECT_EQ(read_after_send(other, "reserve\r\n"), "RESERVED " + id + " 1");
}

TEST_P(ServerTest, QuitAnswersWhatWasAskedBeforeAndCloses) {
  RunningServer server(options());
  BeanstalkClient client = server.connect();
  ASSERT_TRUE(client.send("put 0 0 60 1\r\nx\r\ndelete 99\r\nquit\r\ndelete 99\r\n"));
  EXPECT_THAT(*client.read_to_end(), testing::MatchesRegex("INSERTED [0-9]+\r\nNOT_FOUND\r\n"));
}

TEST_P(ServerTest, LargeBodiesComeBackWhole) {
  ServerOptions large = options();
  large.max_job_size = 8 << 20;
  RunningServer server(large);
  BeanstalkClient client = server.connect();
  std::string body(5'000'000, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 7 + i / 251);
  const Result<BeanstalkClient::Answer> put = client.put(0, 0, 60, body);
  ASSERT_TRUE(put && put->is("INSERTED"));
  const Result<BeanstalkClient::Answer> job = client.ask("reserve");
  ASSERT_TRUE(job && job->is("RESERVED"));
  EXPECT_TRUE(job->body == body);
}

TEST_P(ServerTest, StatsAndListsCoverAllPartitions) {
  RunningServer server(options());
  BeanstalkClient client = server.connect();
  std::vector<BeanstalkClient> users;
  for (int i = 0; i < 10; ++i) {
    users.push_back(server.connect());
    EXPECT_EQ(ask(users.back(), "use s" + std::to_string(i)), "USING s" + std::to_string(i));
    EXPECT_TRUE(users.back().put(5, i % 2, 60, "x")->is("INSERTED"));
  }
  const std::string names = ask(client, "list-tubes");
  for (int i = 0; i < 10; ++i) EXPECT_THAT(names, HasSubstr("- s" + std::to_string(i) + "\n"));
  EXPECT_THAT(names, HasSubstr("- default\n"));
  EXPECT_EQ(value_of(client, "stats", "current-tubes"), "11");
  EXPECT_EQ(value_of(client, "stats", "total-jobs"), "10");
  EXPECT_EQ(value_of(client, "stats", "current-connections"), "11");
  EXPECT_EQ(value_of(client, "stats", "current-producers"), "10");
  EXPECT_EQ(value_of(client, "stats", "total-connections"), "11");
  EXPECT_EQ(value_of(client, "stats", "version"), "\"" + std::string(version()) + "\"");
}

TEST_P(ServerTest, EveryJobGoesToOneWorkerOnly) {
  RunningServer server(options());
  constexpr int kProducers = 3;
  constexpr int kJobsEach = 300;
  constexpr int kWorkers = 4;
  std::mutex mutex;
  std::multiset<std::string> done;
  std::vector<std::thread> threads;
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&server, p] {
      BeanstalkClient client = server.connect();
      for (int i = 0; i < kJobsEach; ++i) {
        if (i % 20 == 0) ask(client, "use m" + std::to_string(i / 20 % 8));
        const std::string body = std::to_string(p) + "-" + std::to_string(i);
        ASSERT_TRUE(client.put(0, 0, 60, body)->is("INSERTED"));
      }
    });
  }
  for (int w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&] {
      BeanstalkClient client = server.connect();
      for (int i = 0; i < 8; ++i) ask(client, "watch m" + std::to_string(i));
      for (;;) {
        {
          const std::lock_guard lock(mutex);
          if (done.size() >= kProducers * kJobsEach) return;
        }
        const Result<BeanstalkClient::Answer> job = client.ask("reserve-with-timeout 0");
        ASSERT_TRUE(job);
        if (!job->is("RESERVED")) continue;
        ASSERT_EQ(ask(client, "delete " + std::to_string(job->id())), "DELETED");
        const std::lock_guard lock(mutex);
        done.insert(job->body);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done.size(), static_cast<std::size_t>(kProducers * kJobsEach));
  EXPECT_EQ(std::set<std::string>(done.begin(), done.end()).size(), done.size());
  BeanstalkClient client = server.connect();
  EXPECT_EQ(value_of(client, "stats", "current-jobs-ready"), "0");
  EXPECT_EQ(value_of(client, "stats", "current-jobs-reserved"), "0");
}

TEST_P(ServerTest, AClientThatDoesNotReadDoesNotHarmTheOthers) {
  ServerOptions narrow = options();
  narrow.max_unsent = 64 * 1024;
  RunningServer server(narrow);
  BeanstalkClient client = server.connect();
  const std::string id = std::to_string(client.put(0, 0, 60, std::string(60'000, 'x'))->id());
  std::string peeks;
  for (int i = 0; i < 1'000; ++i) peeks += "peek " + id + "\r\n";
  {
    BeanstalkClient deaf = server.connect();
    ASSERT_TRUE(deaf.send(peeks));
    EXPECT_EQ(ask(client, "peek " + id).size(),
              60'000U + std::string("FOUND 1 60000 ").size() + id.size() - 1);
  }
  BeanstalkClient slow = server.connect();
  std::thread sender([&] { EXPECT_TRUE(slow.send(peeks)); });
  for (int i = 0; i < 1'000; ++i) ASSERT_EQ(read(slow), "FOUND " + id + " 60000");
  sender.join();
}

TEST_P(ServerTest, OneConnectionTooManyIsToldSoAndTheOthersGoOn) {
  ServerOptions few = options();
  few.max_connections = 2;
  RunningServer server(few);
  BeanstalkClient first = server.connect();
  BeanstalkClient second = server.connect();
  EXPECT_EQ(ask(second, "list-tube-used"), "USING default");
  BeanstalkClient third = server.connect();
  EXPECT_EQ(*third.read_to_end(), "OUT_OF_MEMORY\r\n");
  EXPECT_EQ(ask(first, "list-tube-used"), "USING default");
  EXPECT_THAT(server.log(), HasSubstr("max-connections"));
}

TEST_P(ServerTest, DrainModeRefusesPutsOnly) {
  RunningServer server(options());
  BeanstalkClient client = server.connect();
  EXPECT_TRUE(client.put(0, 0, 60, "x")->is("INSERTED"));
  server->request_drain_mode();
  while (value_of(client, "stats", "draining") != "true") {
  }
  EXPECT_EQ(client.put(0, 0, 60, "x")->line, "DRAINING");
  EXPECT_THAT(ask(client, "reserve"), HasSubstr("RESERVED"));
}

TEST_P(ServerTest, AStopAnswersWhatHasArrivedAndEndsWaits) {
  RunningServer server(options());
  BeanstalkClient worker = server.connect();
  for (int i = 0; i < 8; ++i) ask(worker, "watch w" + std::to_string(i));
  ask(worker, "ignore default");
  ASSERT_TRUE(worker.send("reserve\r\nlist-tube-used\r\n"));
  BeanstalkClient producer = server.connect();
  while (value_of(producer, "stats", "current-waiting") != "1") {
  }
  constexpr int kPuts = 500;
  std::string puts;
  for (int i = 0; i < kPuts; ++i) puts += "put 0 0 60 1\r\nx\r\n";
  ASSERT_TRUE(producer.send(puts));
  ASSERT_THAT(read(producer), HasSubstr("INSERTED"));  // It has arrived: one write on loopback.
  producer.end_input();
  worker.end_input();
  EXPECT_TRUE(server.stop());
  const std::string answers = *producer.read_to_end();
  EXPECT_EQ(std::count(answers.begin(), answers.end(), '\n'), kPuts - 1);
  EXPECT_EQ(*worker.read_to_end(), "TIMED_OUT\r\nUSING default\r\n");
}

TEST_P(ServerTest, AClientThatHoldsOnDoesNotHoldUpAStop) {
  ServerOptions patient = options();
  patient.max_unsent = 1024;
  patient.drain_timeout = 0s;
  RunningServer server(patient);
  BeanstalkClient idle = server.connect();
  EXPECT_EQ(ask(idle, "list-tube-used"), "USING default");
  BeanstalkClient waiting = server.connect();
  ASSERT_TRUE(waiting.send("reserve\r\n"));
  EXPECT_TRUE(server.stop());
}

TEST_P(ServerTest, JobsOutliveAStopIfAndOnlyIfTheyAreDurable) {
  std::set<std::string> ids;
  {
    RunningServer server(options());
    BeanstalkClient client = server.connect();
    for (int i = 0; i < 20; ++i) {
      ask(client, "use r" + std::to_string(i % 5));
      ids.insert(std::to_string(client.put(0, i % 2 == 0 ? 0 : 1'000'000, 60, "x")->id()));
    }
    EXPECT_TRUE(server.stop());
  }
  RunningServer server(options());
  BeanstalkClient client = server.connect();
  for (const std::string& id : ids) {
    EXPECT_EQ(ask(client, "peek " + id), GetParam().durable ? "FOUND " + id + " 1 x" : "NOT_FOUND");
  }
  const std::string fresh = std::to_string(client.put(0, 0, 60, "y")->id());
  if (GetParam().durable) {
    EXPECT_FALSE(ids.contains(fresh));
  }
}

TEST_P(ServerTest, ListensOnAUnixSocketAndRemovesIt) {
  ServerOptions unix_options = options();
  const std::string path = folder_ / "socket";
  unix_options.listen = {*Endpoint::parse("unix:" + path)};
  {
    RunningServer server(unix_options);
    BeanstalkClient client = server.connect();
    EXPECT_TRUE(client.put(0, 0, 60, "x")->is("INSERTED"));
    EXPECT_TRUE(server.stop());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

/// Asks for a backup and waits for the end of it.
Result<MadeBackup> back_up(RunningServer& server, const std::string& name) {
  std::promise<Result<MadeBackup>> promise;
  server->back_up(name,
                  [&promise](Result<MadeBackup> made) { promise.set_value(std::move(made)); });
  return promise.get_future().get();
}

TEST_P(ServerTest, MakesBackupsWhileItServes) {
  ServerOptions with_backups = options();
  with_backups.backup_folder = folder_ / "backups";
  RunningServer server(with_backups);
  BeanstalkClient client = server.connect();
  EXPECT_TRUE(client.put(0, 0, 60, "before")->is("INSERTED"));
  Result<MadeBackup> made = back_up(server, "first");
  if (!GetParam().durable) {
    EXPECT_EQ(made.error().code, ErrorCode::kNotFound);
    return;
  }
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->folder, folder_ / "backups/first");
  EXPECT_GT(made->bytes, 0U);
  EXPECT_TRUE(client.put(0, 0, 60, "after")->is("INSERTED"));
  const Result<store::FolderReport> report = store::check_folder({made->folder, 10, {}, {}});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->sound());
  std::uint64_t ready = 0;
  for (const store::CheckedTube& tube : report->tubes) ready += tube.ready;
  EXPECT_EQ(ready, 1U);

  EXPECT_EQ(back_up(server, "first").error().code, ErrorCode::kAlreadyExists);
  for (const char* name : {"../escape", "a/b", ".hidden", "x.incomplete", "a b"}) {
    EXPECT_EQ(back_up(server, name).error().code, ErrorCode::kInvalidArgument) << name;
  }
  made = back_up(server, "");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->folder, testing::MatchesRegex(".*/backups/[0-9]+T[0-9]+Z"));
  EXPECT_THAT(server.log(), HasSubstr("backup " + made->folder));
}

TEST_P(ServerTest, MakesNoBackupUnlessToldWhere) {
  RunningServer server(options());
  EXPECT_EQ(back_up(server, "x").error().code, ErrorCode::kNotFound);
}

TEST(Server, SaysWhyItDoesNotStart) {
  const auto no_log = [](LogLevel, std::string_view) {};
  ServerOptions options;
  options.listen = {*Endpoint::parse("127.0.0.1:0")};
  options.data = "/nowhere/at/all";
  EXPECT_THAT(Server::start(options, no_log).error().message, HasSubstr("/nowhere/at"));
  options = ServerOptions();
  options.memory = true;
  options.listen = {*Endpoint::parse("unix:/nowhere/socket")};
  EXPECT_THAT(Server::start(options, no_log).error().message, HasSubstr("/nowhere/socket"));
}

}  // namespace
}  // namespace carillon::server
