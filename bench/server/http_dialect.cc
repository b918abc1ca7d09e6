// SPDX-License-Identifier: Apache-2.0
//
// carillon's HTTP API as a lean client uses it: a connection kept alive, JSON for one job, NDJSON
// for several, reservations by long poll, and one request to acknowledge all of them.
#include <fmt/format.h>

#include <chrono>

#include "bench/common/interrupt.h"
#include "bench/server/dialect.h"
#include "bench/server/numbers.h"

namespace carillon::bench {
namespace {

constexpr std::string_view kJson = "application/json";
constexpr std::string_view kLines = "application/x-ndjson";

// The text that follows `key` in `json` from `at` on, up to the next quotation mark; the bodies
// that are put here hold none. Leaves `at` behind it, or at npos if there is none.
std::string_view text_after(std::string_view json, std::string_view key, std::size_t& at) {
  at = json.find(key, at);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = at + key.size();
  at = json.find('"', begin);
  return at == std::string_view::npos ? std::string_view() : json.substr(begin, at - begin);
}

std::uint64_t occurrences(std::string_view text, std::string_view word) {
  std::uint64_t count = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos;
       at += word.size()) {
    ++count;
  }
  return count;
}

class HttpDialect final : public Dialect {
 public:
  [[nodiscard]] bool groups() const override { return true; }
  [[nodiscard]] bool waits() const override { return true; }

  void append_put(std::string& out, DueTime due, std::span<const JobToPut> jobs) override {
    const auto delay_ms = std::chrono::duration_cast<std::chrono::milliseconds>(due.delay).count();
    content_.clear();
    for (const JobToPut& job : jobs) {
      content_.append(R"({"body":")").append(job.body).append(R"(","delay_ms":)");
      append_number(content_, delay_ms);
      content_.append("}\n");
    }
    append_request(out, jobs.size() == 1 ? "tubes/default/jobs" : "tubes/default/jobs:batch",
                   jobs.size() == 1 ? kJson : kLines);
  }

  std::size_t cut_put(std::string_view in, std::uint64_t& jobs) override {
    const std::size_t taken = cut_response(in);
    if (taken == 0) return 0;
    if (status_ == 201) {
      ++jobs;
    } else if (status_ == 200) {
      const std::uint64_t done = occurrences(answer_, R"("status":201)");
      if (done != occurrences(answer_, R"("status":)")) refuse("a batch");
      jobs += done;
    } else {
      refuse("a put");
    }
    return taken;
  }

  void append_claim(std::string& out, std::uint64_t most, WallTime now) override {
    static_cast<void>(now);
    content_ = R"({"tubes":["default"],"wait_ms":60000,"max":)";
    append_number(content_, most);
    content_ += '}';
    append_request(out, "reserve", kJson);
  }

  std::size_t cut_claim(std::string_view in, std::vector<ClaimedJob>& jobs) override {
    const std::size_t taken = cut_response(in);
    if (taken == 0) return 0;
    if (status_ != 200) refuse("a reserve");
    for (std::size_t at = 0;;) {
      ClaimedJob job;
      job.id = text_after(answer_, R"({"id":")", at);
      if (at == std::string_view::npos) break;
      job.receipt = text_after(answer_, R"("receipt":")", at);
      job.body = text_after(answer_, R"("body":")", at);
      if (at == std::string_view::npos) refuse("a reserve");
      jobs.push_back(job);
    }
    return taken;
  }

  void append_finish(std::string& out, std::span<const ClaimedJob> jobs) override {
    content_ = R"({"jobs":[)";
    for (const ClaimedJob& job : jobs) {
      if (content_.back() == '}') content_ += ',';
      content_.append(R"({"id":")").append(job.id).append(R"(","receipt":")").append(job.receipt);
      content_.append(R"("})");
    }
    content_.append("]}");
    append_request(out, "ack", kJson);
  }

  std::size_t cut_finish(std::string_view in, std::uint64_t& jobs) override {
    const std::size_t taken = cut_response(in);
    if (taken == 0) return 0;
    if (status_ != 200) refuse("an ack");
    jobs = occurrences(answer_, R"("status":2)");
    return taken;
  }

 private:
  void append_request(std::string& out, std::string_view path, std::string_view type) const {
    out.append("POST /api/v1/")
        .append(path)
        .append(" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: ");
    out.append(type).append("\r\nContent-Length: ");
    append_number(out, content_.size());
    out.append("\r\n\r\n").append(content_);
  }

  // Cuts a response with a Content-Length into status_ and answer_.
  std::size_t cut_response(std::string_view in) {
    constexpr std::string_view kEnd = "\r\n\r\n";
    constexpr std::string_view kLength = "\r\nContent-Length: ";
    const std::size_t end = in.find(kEnd);
    if (end == std::string_view::npos) return 0;
    const std::string_view head = in.substr(0, end);
    const std::size_t length_at = head.find(kLength);
    if (!head.starts_with("HTTP/1.1 ") || length_at == std::string_view::npos) {
      throw BenchError(fmt::format("not such an HTTP response: {}", head.substr(0, 200)));
    }
    const std::size_t size = number_at(head.substr(length_at + kLength.size()));
    if (in.size() < end + kEnd.size() + size) return 0;
    status_ = number_at(head.substr(9));
    answer_ = in.substr(end + kEnd.size(), size);
    return end + kEnd.size() + size;
  }

  [[noreturn]] void refuse(std::string_view what) const {
    throw BenchError(fmt::format("{} was answered {}: {}", what, status_, answer_.substr(0, 200)));
  }

  std::string content_;
  std::uint64_t status_ = 0;
  std::string_view answer_;
};

}  // namespace

std::unique_ptr<Dialect> make_http_dialect() { return std::make_unique<HttpDialect>(); }

}  // namespace carillon::bench
