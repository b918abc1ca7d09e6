// SPDX-License-Identifier: Apache-2.0
// carillon bench: a small load, to see what a server does.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "carillon/base/clock.h"

namespace carillon::app {
namespace {

using server::BeanstalkClient;

/// Runs `work(i)` on a thread each, and throws what the first of them to fail has thrown.
void on_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::exception_ptr failed;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failed) failed = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failed) std::rethrow_exception(failed);
}

double seconds_since(Instant begin) {
  return std::chrono::duration<double>(SteadyClock().now() - begin).count();
}

struct Measured {
  double put_s = 0;
  double work_s = 0;
  std::vector<double> late_ms;  ///< Sorted.

  [[nodiscard]] double late(double quantile) const {
    if (late_ms.empty()) return 0;
    const auto last = static_cast<double>(late_ms.size() - 1);
    return late_ms[static_cast<std::size_t>(last * quantile)];
  }
};

struct Bench {
  Target target;
  std::string jobs_text = "10000";
  std::string connections_text = "4";
  std::string depth_text = "50";
  std::string size_text = "100";
  std::string late_text = "100";
  bool json = false;

  void run() {
    jobs = number_of(jobs_text, "--jobs", 100'000'000);
    connections = std::max<std::uint64_t>(number_of(connections_text, "--connections", 1'000), 1);
    depth = std::max<std::uint64_t>(number_of(depth_text, "--depth", 10'000), 1);
    late_jobs = number_of(late_text, "--delayed", 100'000);
    body = std::string(number_of(size_text, "--size", 65'535), 'x');
    tube = fmt::format("carillon-bench-{}", ::getpid());
    Measured measured;
    try {
      measured.put_s = put_all();
      measured.work_s = work_all();
      measured.late_ms = lateness();
    } catch (const Failure&) {
      clear();
      throw;
    }
    print(measured);
  }

 private:
  [[nodiscard]] std::uint64_t share(std::size_t i) const {
    return jobs / connections + (i < jobs % connections ? 1 : 0);
  }

  /// `count` commands, `depth` of them on their way at a time; each answer has to be `word`.
  template <class Command, class OnAnswer>
  void pipeline(BeanstalkClient& client, std::uint64_t count, const Command& command,
                const char* word, const OnAnswer& on_answer) const {
    std::uint64_t sent = 0;
    for (std::uint64_t answered = 0; answered < count;) {
      const std::uint64_t end = std::min(count, answered + depth);
      std::string bytes;
      for (; sent < end; ++sent) bytes += command(sent);
      if (Result<void> wrote = client.send(bytes); !wrote) {
        throw Failure{kServerError, wrote.error().message};
      }
      for (; answered < end; ++answered) on_answer(expect(client.read_answer(), word));
    }
  }

  double put_all() const {
    const Instant begin = SteadyClock().now();
    on_threads(connections, [this](std::size_t i) {
      BeanstalkClient client = connect(target);
      expect(client.ask("use " + tube), "USING");
      const std::string put = fmt::format("put 1024 0 60 {}\r\n{}\r\n", body.size(), body);
      pipeline(
          client, share(i), [&](std::uint64_t) { return put; }, "INSERTED", [](const Answer&) {});
    });
    return seconds_since(begin);
  }

  double work_all() const {
    const Instant begin = SteadyClock().now();
    on_threads(connections, [this](std::size_t i) {
      BeanstalkClient client = connect(target);
      expect(client.ask("watch " + tube), "WATCHING");
      expect(client.ask("ignore default"), "WATCHING");
      std::vector<std::uint64_t> ids;
      for (std::uint64_t left = share(i); left > 0;) {
        const std::uint64_t some = std::min(left, depth);
        ids.clear();
        pipeline(
            client, some, [](std::uint64_t) { return "reserve-with-timeout 10\r\n"; }, "RESERVED",
            [&ids](const Answer& job) { ids.push_back(job.id()); });
        pipeline(
            client, some, [&ids](std::uint64_t n) { return fmt::format("delete {}\r\n", ids[n]); },
            "DELETED", [](const Answer&) {});
        left -= some;
      }
    });
    return seconds_since(begin);
  }

  /// Milliseconds from when each of the delayed jobs was due to when it was here, sorted. Their
  /// puts are sent over two seconds, and due a second later; a put's own way is in the figure.
  std::vector<double> lateness() const {
    if (late_jobs == 0) return {};
    const SteadyClock clock;
    std::vector<double> late;
    std::thread putter;
    std::atomic<bool> failed{false};
    BeanstalkClient worker = connect(target);
    expect(worker.ask("watch " + tube), "WATCHING");
    expect(worker.ask("ignore default"), "WATCHING");
    putter = std::thread([&] {
      try {
        BeanstalkClient client = connect(target);
        expect(client.ask("use " + tube), "USING");
        const Span pause = std::chrono::seconds(2) / static_cast<std::int64_t>(late_jobs);
        for (std::uint64_t i = 0; i < late_jobs; ++i) {
          const std::string sent_at = std::to_string(clock.now().time_since_epoch().count());
          expect(client.put(0, 1, 60, sent_at), "INSERTED");
          std::this_thread::sleep_for(pause);
        }
      } catch (const Failure&) {
        failed = true;
      }
    });
    try {
      while (late.size() < late_jobs && !failed) {
        const Answer job = expect(
            worker.ask_waiting("reserve-with-timeout 10", std::chrono::seconds(10)), "RESERVED");
        const Instant now = clock.now();
        Span::rep sent_at = 0;
        std::from_chars(job.body.data(), job.body.data() + job.body.size(), sent_at);
        const Span waited = now.time_since_epoch() - Span(sent_at);
        late.push_back(std::chrono::duration<double, std::milli>(waited).count() - 1'000);
        expect(worker.ask(fmt::format("delete {}", job.id())), "DELETED");
      }
    } catch (const Failure&) {
      putter.join();
      throw;
    }
    putter.join();
    if (failed) throw Failure{kServerError, "a delayed job could not be put"};
    std::sort(late.begin(), late.end());
    return late;
  }

  /// After a failure: deletes what is ready, best effort.
  void clear() const noexcept {
    try {
      BeanstalkClient client = connect(target);
      expect(client.ask("watch " + tube), "WATCHING");
      expect(client.ask("ignore default"), "WATCHING");
      for (;;) {
        const Answer job = expect(client.ask("reserve-with-timeout 0"), "RESERVED");
        expect(client.ask(fmt::format("delete {}", job.id())), "DELETED");
      }
    } catch (const std::exception&) {
    } catch (const Failure&) {
    }
  }

  void print(const Measured& measured) const {
    const double puts = measured.put_s > 0 ? static_cast<double>(jobs) / measured.put_s : 0;
    const double work = measured.work_s > 0 ? static_cast<double>(jobs) / measured.work_s : 0;
    if (json) {
      JsonLine line;
      line.number("jobs", jobs).number("connections", connections).number("depth", depth);
      line.number("size", body.size()).real("puts_per_s", puts).real("works_per_s", work);
      line.number("delayed", late_jobs).real("late_p50_ms", measured.late(0.5));
      line.real("late_p99_ms", measured.late(0.99)).real("late_max_ms", measured.late(1));
      fmt::print("{}\n", line.str());
      return;
    }
    fmt::print("{} jobs of {} bytes over {} connections, {} commands under way on each\n", jobs,
               body.size(), connections, depth);
    fmt::print("put              {:>10.0f} a second\n", puts);
    fmt::print("reserve, delete  {:>10.0f} a second\n", work);
    if (late_jobs == 0) return;
    fmt::print(
        "{} jobs delayed by 1 s: half are here within {:.1f} ms of being due, 99 in 100\n"
        "within {:.1f} ms, all within {:.1f} ms\n",
        late_jobs, measured.late(0.5), measured.late(0.99), measured.late(1));
  }

  std::uint64_t jobs = 0;
  std::uint64_t connections = 1;
  std::uint64_t depth = 1;
  std::uint64_t late_jobs = 0;
  std::string body;
  std::string tube;
};

}  // namespace

void add_bench(CLI::App& program, int& status, const Connecting& connecting) {
  auto verb = std::make_shared<Bench>();
  CLI::App* app =
      add_client_verb(program, "bench",
                      "Put a small load on a server, in a tube of its own, and say how fast it is",
                      verb->target, connecting);
  const auto number = [app](const char* flags, std::string& value, const char* help) {
    app->add_option(flags, value, help)->capture_default_str()->type_name("N");
  };
  number("-n,--jobs", verb->jobs_text, "Jobs to put, and then to reserve and delete");
  number("-c,--connections", verb->connections_text, "Connections, each with a thread");
  number("--depth", verb->depth_text, "Commands under way on each connection");
  number("--size", verb->size_text, "Bytes of a body");
  number("--delayed", verb->late_text, "Jobs delayed by 1 s, to see how late they come");
  app->add_flag("--json", verb->json, "Print one line of JSON");
  on_call(app, verb, status);
}

}  // namespace carillon::app
