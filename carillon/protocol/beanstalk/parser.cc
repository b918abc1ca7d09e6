// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/beanstalk/parser.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::protocol::beanstalk {
namespace {

static_assert(kLineLimit <= std::numeric_limits<std::uint8_t>::max());

constexpr std::size_t kNowhere = std::string_view::npos;

/// A body up to this size gets all its memory when it is announced.
constexpr std::uint32_t kEagerBody = std::uint32_t{1} << 20;
/// Below this much missing, reading into a body directly does not pay for the extra system call.
constexpr std::uint32_t kDirectReadFrom = 16 * 1024;

constexpr std::array<bool, 256> kNameBytes = [] {
  std::array<bool, 256> table{};
  for (const char c : std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789-+/;.$_()")) {
    table[static_cast<unsigned char>(c)] = true;
  }
  return table;
}();

/// Index of the first CRLF in `bytes`. A lone CR or LF is a byte like any other.
std::size_t find_crlf(std::string_view bytes, std::size_t from = 0) noexcept {
  while (from < bytes.size()) {
    const std::size_t lf = bytes.find('\n', from);
    if (lf == kNowhere) return kNowhere;
    if (lf > 0 && bytes[lf - 1] == '\r') return lf - 1;
    from = lf + 1;
  }
  return kNowhere;
}

/// Takes spaces and then a decimal number from the front of `text`. False, with `text` in no
/// particular state, if there is no digit (a sign is none) or the number is above `max`.
template <class Number>
bool take_number(std::string_view& text, Number& number,
                 std::uint64_t max = std::numeric_limits<Number>::max()) noexcept {
  std::size_t i = 0;
  while (i < text.size() && text[i] == ' ') ++i;
  const std::size_t first = i;
  std::uint64_t value = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value) ||
        __builtin_add_overflow(value, static_cast<std::uint64_t>(text[i] - '0'), &value)) {
      return false;
    }
  }
  if (i == first || value > max) return false;
  number = static_cast<Number>(value);
  text.remove_prefix(i);
  return true;
}

/// take_number, and nothing behind it.
template <class Number>
bool take_last_number(std::string_view text, Number& number) noexcept {
  return take_number(text, number) && text.empty();
}

/// The count of kick as strtoul reads it: white space, a sign, and whatever behind it. A negative
/// count wraps to a huge one, which means "all".
bool take_kick_count(std::string_view text, std::uint64_t& count) noexcept {
  const std::size_t first = text.find_first_not_of(" \t\n\v\f\r");
  if (first == kNowhere) return false;
  text.remove_prefix(first);
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);
  if (text.empty() || text.front() == ' ' || !take_number(text, count)) return false;
  if (negative) count = 0 - count;
  return true;
}

enum class Syntax : std::uint8_t {
  kPut,      // <pri> <delay> <ttr> <bytes>
  kNothing,  // no argument, not even a space
  kId,       // <id>
  kTube,     // <tube>
  kTimeout,  // <seconds>, what follows is ignored
  kRelease,  // <id> <pri> <delay>
  kBury,     // <id> <pri>
  kKick,     // <count>, lax
  kPause,    // <tube> <seconds>
  kQuit,     // anything
  kToken,    // anything, all of it
};

struct Spelling {
  std::string_view prefix;
  CommandName name;
  Syntax syntax;
};

/// A line is the first of these that it begins with. Of two with the same beginning the longer
/// stands first.
constexpr Spelling kSpellings[] = {
    {"put ", CommandName::kPut, Syntax::kPut},
    {"delete ", CommandName::kDelete, Syntax::kId},
    {"reserve-with-timeout ", CommandName::kReserveWithTimeout, Syntax::kTimeout},
    {"reserve-job ", CommandName::kReserveJob, Syntax::kId},
    {"reserve", CommandName::kReserve, Syntax::kNothing},
    {"release ", CommandName::kRelease, Syntax::kRelease},
    {"bury ", CommandName::kBury, Syntax::kBury},
    {"touch ", CommandName::kTouch, Syntax::kId},
    {"use ", CommandName::kUse, Syntax::kTube},
    {"watch ", CommandName::kWatch, Syntax::kTube},
    {"ignore ", CommandName::kIgnore, Syntax::kTube},
    {"peek ", CommandName::kPeek, Syntax::kId},
    {"peek-ready", CommandName::kPeekReady, Syntax::kNothing},
    {"peek-delayed", CommandName::kPeekDelayed, Syntax::kNothing},
    {"peek-buried", CommandName::kPeekBuried, Syntax::kNothing},
    {"kick ", CommandName::kKick, Syntax::kKick},
    {"kick-job ", CommandName::kKickJob, Syntax::kId},
    {"stats-job ", CommandName::kStatsJob, Syntax::kId},
    {"stats-tube ", CommandName::kStatsTube, Syntax::kTube},
    {"stats", CommandName::kStats, Syntax::kNothing},
    {"list-tubes-watched", CommandName::kListTubesWatched, Syntax::kNothing},
    {"list-tube-used", CommandName::kListTubeUsed, Syntax::kNothing},
    {"list-tubes", CommandName::kListTubes, Syntax::kNothing},
    {"pause-tube", CommandName::kPauseTube, Syntax::kPause},
    {"quit", CommandName::kQuit, Syntax::kQuit},
    {"login ", CommandName::kLogin, Syntax::kToken},
};

const Spelling* find_spelling(std::string_view line) noexcept {
  for (const Spelling& spelling : kSpellings) {
    if (line.starts_with(spelling.prefix)) return &spelling;
  }
  return nullptr;
}

/// Reads the arguments of every command but put. False: BAD_FORMAT.
bool read_arguments(Syntax syntax, std::string_view rest, Request& request) noexcept {
  switch (syntax) {
    case Syntax::kNothing: return rest.empty();
    case Syntax::kId: return take_last_number(rest, request.id);
    case Syntax::kTube: request.tube = rest; return is_tube_name(rest);
    case Syntax::kTimeout:
      return take_number(rest, request.timeout_s, std::numeric_limits<std::int32_t>::max());
    case Syntax::kRelease:
      return take_number(rest, request.id) && take_number(rest, request.priority) &&
             take_last_number(rest, request.delay_s);
    case Syntax::kBury:
      return take_number(rest, request.id) && take_last_number(rest, request.priority);
    case Syntax::kKick: return take_kick_count(rest, request.count);
    case Syntax::kPause: {
      rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
      std::size_t size = 0;
      while (size < rest.size() && kNameBytes[static_cast<unsigned char>(rest[size])]) ++size;
      request.tube = rest.substr(0, size);
      return is_tube_name(request.tube) && take_last_number(rest.substr(size), request.delay_s);
    }
    case Syntax::kQuit: return true;
    case Syntax::kToken: request.token = rest; return true;
    case Syntax::kPut: break;
  }
  CARILLON_CHECK(false, "the arguments of put are read by Parser::begin_put");
}

void refuse(Request& request, Refusal refusal, CommandName name = CommandName::kNone) noexcept {
  request.name = name;
  request.refusal = refusal;
}

}  // namespace

bool is_tube_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > kTubeNameLimit || name.front() == '-') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return kNameBytes[static_cast<unsigned char>(c)]; });
}

bool Parser::next(std::string_view& bytes, Request& request) {
  for (;;) {
    switch (state_) {
      case State::kLine: {
        std::string_view line;
        if (next_line(bytes, line)) {
          if (begin(line, request)) return true;
          break;  // A put: on to its body.
        }
        if (state_ == State::kLine) return false;
        break;  // Too long a line.
      }
      case State::kSwallow:
        if (!swallow_line(bytes)) return false;
        state_ = State::kLine;
        refuse(request, is_http_ ? Refusal::kOtherProtocol : Refusal::kBadFormat);
        return true;
      case State::kBody: {
        while (body_filled_ < body_size_ && !bytes.empty()) {
          if (body_filled_ == body_.size() && !grow_body()) break;
          const std::size_t count =
              std::min<std::size_t>(body_.size() - body_filled_, bytes.size());
          std::memcpy(body_.mutable_data() + body_filled_, bytes.data(), count);
          body_filled_ += static_cast<std::uint32_t>(count);
          bytes.remove_prefix(count);
        }
        if (state_ != State::kBody) break;  // There was no memory.
        if (body_filled_ < body_size_) return false;
        state_ = State::kTrailer;
        trailer_size_ = 0;
        break;
      }
      case State::kTrailer:
        while (trailer_size_ < 2) {
          if (bytes.empty()) return false;
          trailer_[trailer_size_++] = bytes.front();
          bytes.remove_prefix(1);
        }
        state_ = State::kLine;
        return finish_trailer(request);
      case State::kSkip: {
        const std::uint64_t count = std::min<std::uint64_t>(skip_left_, bytes.size());
        skip_left_ -= count;
        bytes.remove_prefix(count);
        if (skip_left_ > 0) return false;
        state_ = State::kLine;
        refuse(request, skip_refusal_, CommandName::kPut);
        return true;
      }
    }
  }
}

/// Takes a line from `bytes` (with what was kept of its beginning) and returns it without its CRLF;
/// or takes all of `bytes` and returns false, with state_ kSwallow if the line is too long.
bool Parser::next_line(std::string_view& bytes, std::string_view& line) {
  if (bytes.empty()) return false;
  if (line_size_ == 0) {
    const std::string_view window = bytes.substr(0, kLineLimit);
    const std::size_t end = find_crlf(window);
    if (end != kNowhere) {
      line = window.substr(0, end);
      bytes.remove_prefix(end + 2);
      return true;
    }
  }
  const std::size_t kept = line_size_;
  const std::size_t taken = std::min(kLineLimit - kept, bytes.size());
  std::memcpy(line_.data() + kept, bytes.data(), taken);
  const std::string_view window(line_.data(), kept + taken);
  const std::size_t end = find_crlf(window, kept);
  if (end != kNowhere) {
    line = window.substr(0, end);
    bytes.remove_prefix(end + 2 - kept);
    line_size_ = 0;
    return true;
  }
  bytes.remove_prefix(taken);
  line_size_ = static_cast<std::uint8_t>(window.size());
  if (window.size() == kLineLimit) {
    state_ = State::kSwallow;
    last_was_cr_ = window.back() == '\r';
    is_http_ = begins_as_http(window);
    line_size_ = 0;
  }
  return false;
}

/// Takes bytes up to and with the CRLF; false if it is not among them.
bool Parser::swallow_line(std::string_view& bytes) {
  if (last_was_cr_ && bytes.starts_with('\n')) {
    bytes.remove_prefix(1);
    return true;
  }
  const std::size_t end = find_crlf(bytes);
  if (end != kNowhere) {
    bytes.remove_prefix(end + 2);
    return true;
  }
  if (!bytes.empty()) last_was_cr_ = bytes.back() == '\r';
  bytes.remove_prefix(bytes.size());
  return false;
}

/// Whether it is the first line, and a request of HTTP.
bool Parser::begins_as_http(std::string_view line) noexcept {
  if (!std::exchange(is_first_, false)) return false;
  constexpr std::string_view kMethods[] = {"GET /",    "HEAD /",    "POST /",    "PUT /",
                                           "DELETE /", "OPTIONS /", "OPTIONS *", "PATCH /"};
  return std::any_of(std::begin(kMethods), std::end(kMethods),
                     [&](std::string_view method) { return line.starts_with(method); });
}

/// Decodes a line. Returns true if `request` is complete, false if the body of a put follows.
bool Parser::begin(std::string_view line, Request& request) {
  request.refusal.reset();
  is_http_ = begins_as_http(line);
  if (is_http_) {
    refuse(request, Refusal::kOtherProtocol);
    return true;
  }
  if (line.find('\0') != kNowhere) {
    refuse(request, Refusal::kBadFormat);
    return true;
  }
  const Spelling* spelling = find_spelling(line);
  if (spelling == nullptr) {
    refuse(request, Refusal::kUnknownCommand);
    return true;
  }
  const std::string_view rest = line.substr(spelling->prefix.size());
  if (spelling->syntax == Syntax::kPut) return begin_put(rest, request);
  request.name = spelling->name;
  if (!read_arguments(spelling->syntax, rest, request)) refuse(request, Refusal::kBadFormat);
  return true;
}

bool Parser::begin_put(std::string_view arguments, Request& request) {
  if (!take_number(arguments, priority_) || !take_number(arguments, delay_s_) ||
      !take_number(arguments, ttr_s_) || !take_number(arguments, body_size_)) {
    refuse(request, Refusal::kBadFormat);
    return true;
  }
  // The order of beanstalkd: too big is said before trailing garbage is.
  if (body_size_ > max_job_size_) {
    skip_body(body_size_, Refusal::kJobTooBig);
    return false;
  }
  if (!arguments.empty()) {
    refuse(request, Refusal::kBadFormat, CommandName::kPut);
    return true;
  }
  ttr_s_ = std::max(ttr_s_, std::uint32_t{1});
  state_ = State::kBody;
  body_filled_ = 0;
  body_ = broker::Body();
  grow_body();
  return false;
}

/// Gives the body its memory, or four times as much as it has. If there is none to be had, what is
/// left of the body is skipped and false returned.
bool Parser::grow_body() {
  const std::uint64_t wanted = std::max<std::uint64_t>(kEagerBody, std::uint64_t{body_.size()} * 4);
  try {
    broker::Body larger =
        broker::Body::make(static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, body_size_)));
    if (body_filled_ > 0) std::memcpy(larger.mutable_data(), body_.view().data(), body_filled_);
    body_ = std::move(larger);
    return true;
  } catch (const std::bad_alloc&) {
    body_ = broker::Body();
    skip_body(body_size_ - body_filled_, Refusal::kOutOfMemory);
    return false;
  }
}

void Parser::skip_body(std::uint64_t size, Refusal refusal) noexcept {
  state_ = State::kSkip;
  skip_left_ = size + 2;
  skip_refusal_ = refusal;
}

bool Parser::finish_trailer(Request& request) {
  if (trailer_ != std::array<char, 2>{'\r', '\n'}) {
    body_ = broker::Body();
    refuse(request, Refusal::kExpectedCrlf, CommandName::kPut);
    return true;
  }
  request.name = CommandName::kPut;
  request.refusal.reset();
  request.priority = priority_;
  request.delay_s = delay_s_;
  request.ttr_s = ttr_s_;
  request.body = std::move(body_);
  return true;
}

std::span<char> Parser::body_room() {
  if (state_ != State::kBody || body_size_ - body_filled_ < kDirectReadFrom) return {};
  if (body_filled_ == body_.size() && !grow_body()) return {};
  return {body_.mutable_data() + body_filled_, body_.size() - body_filled_};
}

void Parser::body_filled(std::size_t count) noexcept {
  CARILLON_CHECK(count <= body_.size() - body_filled_, count, " bytes into ",
                 body_.size() - body_filled_);
  body_filled_ += static_cast<std::uint32_t>(count);
}

}  // namespace carillon::protocol::beanstalk
