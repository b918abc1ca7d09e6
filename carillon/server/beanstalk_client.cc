// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/beanstalk_client.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

namespace carillon::server {
namespace {

/// Longest line of an answer that is believed.
constexpr std::size_t kMaxLine = 1024;

/// The size of the body that `line` announces: its last number, if it is an answer that has one.
/// No job is larger, and no statistics are.
constexpr std::size_t kMaxBody = std::size_t{1} << 30;

Error nonsense(std::string_view what) {
  return {ErrorCode::kCorrupt, "the server answered nonsense: " + std::string(what)};
}

bool read_number(std::string_view digits, std::uint64_t& number) noexcept {
  const char* const last = digits.data() + digits.size();
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): its end is given.
  const auto [end, error] = std::from_chars(digits.data(), last, number);
  return error == std::errc() && end == last;
}

/// Of the answers that carry numbers: how many, the last of them the size of a body if `has_body`.
struct Shape {
  std::string_view word;
  int numbers;
  bool has_body;
};
constexpr Shape kShapes[] = {{"RESERVED", 2, true},  {"FOUND", 2, true},   {"OK", 1, true},
                             {"INSERTED", 1, false}, {"KICKED", 1, false}, {"WATCHING", 1, false}};

/// The size of the body that the line announces; none if it is of those without.
Result<std::optional<std::size_t>> announced_size(std::string_view line) {
  const std::string_view word = line.substr(0, line.find(' '));
  const Shape* const shape =
      std::find_if(std::begin(kShapes), std::end(kShapes),
                   [&](const Shape& candidate) { return candidate.word == word; });
  // KICKED stands alone as the answer to kick-job.
  if (shape == std::end(kShapes) || line == "KICKED") return std::optional<std::size_t>();
  std::uint64_t number = 0;
  std::string_view rest = line.substr(word.size());
  for (int i = 0; i < shape->numbers; ++i) {
    if (!rest.starts_with(' ')) return nonsense("'" + std::string(line) + "' lacks a number");
    rest.remove_prefix(1);
    const std::string_view digits = rest.substr(0, rest.find(' '));
    if (!read_number(digits, number)) {
      return nonsense("no number is '" + std::string(digits) + "' in '" + std::string(line) + "'");
    }
    rest.remove_prefix(digits.size());
  }
  if (!rest.empty()) return nonsense("'" + std::string(line) + "' has too many words");
  if (!shape->has_body) return std::optional<std::size_t>();
  if (number > kMaxBody) {
    return nonsense("'" + std::string(line) + "' announces more than the " +
                    std::to_string(kMaxBody) + " bytes of any job");
  }
  return std::optional<std::size_t>(number);
}

}  // namespace

bool BeanstalkClient::Answer::is(std::string_view word) const noexcept {
  return line.starts_with(word) && (line.size() == word.size() || line[word.size()] == ' ');
}

std::uint64_t BeanstalkClient::Answer::id() const noexcept {
  std::uint64_t id = 0;
  const std::size_t space = line.find(' ');
  if (space != std::string::npos) {
    std::from_chars(line.data() + space + 1, line.data() + line.size(), id);
  }
  return id;
}

Result<BeanstalkClient> BeanstalkClient::connect(const Endpoint& endpoint, Span timeout,
                                                 const ClientTlsContext* tls) {
  Result<ClientStream> stream = ClientStream::connect(endpoint, timeout, tls);
  if (!stream) return std::move(stream).error();
  return BeanstalkClient(std::move(*stream), timeout);
}

Result<BeanstalkClient::Answer> BeanstalkClient::ask(std::string_view line) {
  return ask_waiting(line, Span::zero());
}

Result<BeanstalkClient::Answer> BeanstalkClient::ask_waiting(std::string_view line, Span extra) {
  if (Result<void> sent = send(std::string(line) + "\r\n"); !sent) return std::move(sent).error();
  return read_answer(extra > kForever - timeout_ ? kForever : timeout_ + extra);
}

Result<BeanstalkClient::Answer> BeanstalkClient::put(std::uint32_t priority, std::uint32_t delay_s,
                                                     std::uint32_t ttr_s, std::string_view body) {
  std::string bytes = "put " + std::to_string(priority) + " " + std::to_string(delay_s) + " " +
                      std::to_string(ttr_s) + " " + std::to_string(body.size()) + "\r\n";
  bytes.append(body).append("\r\n");
  if (Result<void> sent = send(bytes); !sent) return std::move(sent).error();
  return read_answer();
}

Result<void> BeanstalkClient::send(std::string_view bytes) { return stream_.send(bytes); }

Result<BeanstalkClient::Answer> BeanstalkClient::read_answer(Span timeout) {
  Result<std::string> line = take_line(timeout);
  if (!line) return std::move(line).error();
  Answer answer;
  answer.line = std::move(*line);
  Result<std::optional<std::size_t>> size = announced_size(answer.line);
  if (!size) return std::move(size).error();
  if (size->has_value()) {
    Result<std::string> body = take_body(**size, timeout_);
    if (!body) return std::move(body).error();
    answer.body = std::move(*body);
  }
  return answer;
}

Result<std::string> BeanstalkClient::read_to_end() {
  for (;;) {
    Result<bool> more = fill(timeout_);
    if (!more) return std::move(more).error();
    if (!*more) return std::exchange(input_, {});
  }
}

void BeanstalkClient::end_input() noexcept { stream_.end_output(); }

/// Reads something; false at the end of the connection.
Result<bool> BeanstalkClient::fill(Span timeout) {
  std::array<char, std::size_t{16} * 1024> buffer;
  const Result<std::size_t> got = stream_.receive(buffer, timeout);
  if (!got) return got.error();
  input_.append(buffer.data(), *got);
  return *got > 0;
}

Result<std::string> BeanstalkClient::take_line(Span timeout) {
  for (;;) {
    const std::size_t end = input_.find("\r\n");
    if (end != std::string::npos) {
      std::string line = input_.substr(0, end);
      input_.erase(0, end + 2);
      return line;
    }
    if (input_.size() > kMaxLine) return nonsense("a line without an end");
    Result<bool> more = fill(timeout);
    if (!more) return std::move(more).error();
    if (!*more) return stream_.ended_early();
  }
}

Result<std::string> BeanstalkClient::take_body(std::size_t size, Span timeout) {
  while (input_.size() < size + 2) {
    Result<bool> more = fill(timeout);
    if (!more) return std::move(more).error();
    if (!*more) return stream_.ended_early();
  }
  if (input_.compare(size, 2, "\r\n") != 0) {
    return nonsense("a body without CRLF behind it");
  }
  std::string body = input_.substr(0, size);
  input_.erase(0, size + 2);
  return body;
}

}  // namespace carillon::server
