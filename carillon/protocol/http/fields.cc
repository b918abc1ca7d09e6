// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "carillon/protocol/http/json_writer.h"
#include "carillon/protocol/http/time_text.h"

namespace carillon::protocol::http {
namespace {

std::string_view name_of(ValueType type) noexcept {
  switch (type) {
    case ValueType::kNull: return "null";
    case ValueType::kFlag: return "a boolean";
    case ValueType::kInteger:
    case ValueType::kUnsigned:
    case ValueType::kHuge: return "a number";
    case ValueType::kReal: return "a number that is not an integer";
    case ValueType::kText:
    case ValueType::kWord: return "a string";
    case ValueType::kObject: return "an object";
    case ValueType::kArray: return "an array";
  }
  return "something else";
}

template <class Number>
bool read_whole(std::string_view text, Number& number) noexcept {
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && last == end && !text.empty();
}

}  // namespace

bool is_tube_name(std::string_view name) noexcept {
  if (name.empty() || name.size() > kMaxTubeNameSize || name.front() == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("-+/;.$_()").find(c) != std::string_view::npos;
  });
}

std::optional<broker::JobId> parse_id(std::string_view text) noexcept {
  broker::JobId id = 0;
  if (!read_whole(text, id) || id == 0) return std::nullopt;
  return id;
}

Fields::Fields(std::span<const Value> values, std::uint32_t at, std::string path)
    : values_(values), path_(std::move(path)) {
  const Value& self = values_[at];
  if (self.type != ValueType::kObject) {
    fail({ProblemKind::kInvalidField, fmt::format("is {}, not an object", name_of(self.type)),
          path_.empty() ? "body" : path_, "an object"});
    return;
  }
  for (std::uint32_t i = self.first; i != Value::kNone; i = values_[i].next) {
    if (members_.size() == kMaxMembers) {
      fail({ProblemKind::kUnknownField, "has too many members", path_,
            fmt::format("at most {}", kMaxMembers)});
      return;
    }
    members_.push_back(&values_[i]);
  }
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const Value* Fields::find(std::string_view name) const noexcept {
  for (const Value* member : members_) {
    if (member->name.starts_with(prefix_) && member->name.substr(prefix_.size()) == name) {
      return member;
    }
  }
  return nullptr;
}

const Value* Fields::take(std::string_view name) {
  const Value* found = nullptr;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i]->name.starts_with(prefix_) ||
        members_[i]->name.substr(prefix_.size()) != name) {
      continue;
    }
    taken_ |= std::uint64_t{1} << i;
    if (found != nullptr) invalid(name, "is there twice", "once");
    found = members_[i];
  }
  return found;
}

void Fields::fail(Problem problem) {
  if (!problem_) problem_ = std::move(problem);
}

void Fields::invalid(std::string_view name, std::string_view what, std::string_view limit) {
  fail({ProblemKind::kInvalidField, std::string(what), path_of(name), std::string(limit)});
}

void Fields::require(std::string_view name) {
  if (find(name) == nullptr) invalid(name, "is missing", "has to be given");
}

bool Fields::number(std::string_view name, std::int64_t least, std::int64_t most,
                    std::int64_t& out) {
  const Value* value = take(name);
  if (value == nullptr) return false;
  const auto refuse = [&](std::string_view what) {
    invalid(name, what, fmt::format("{} to {}", least, most));
    return false;
  };
  std::int64_t number = value->integer;
  switch (value->type) {
    case ValueType::kInteger: break;
    case ValueType::kUnsigned:
    case ValueType::kHuge: return refuse("is out of range");
    case ValueType::kWord:
      if (read_whole(value->text, number)) break;
      return refuse("is not a whole number in range");
    default: return refuse(fmt::format("is {}, not a whole number", name_of(value->type)));
  }
  if (number < least || number > most) {
    return refuse(fmt::format("{} is out of range", number));
  }
  out = number;
  return true;
}

bool Fields::flag(std::string_view name, bool& out) {
  const Value* value = take(name);
  if (value == nullptr) return false;
  if (value->type == ValueType::kFlag) {
    out = value->flag;
    return true;
  }
  if (value->type == ValueType::kWord && (value->text == "true" || value->text == "false")) {
    out = value->text == "true";
    return true;
  }
  invalid(name, fmt::format("is {}, not a boolean", name_of(value->type)), "true or false");
  return false;
}

bool Fields::text(std::string_view name, std::size_t least, std::size_t most,
                  std::string_view& out) {
  const Value* value = take(name);
  if (value == nullptr) return false;
  const auto refuse = [&](std::string_view what) {
    invalid(name, what, fmt::format("{} to {} bytes of UTF-8", least, most));
    return false;
  };
  if (value->type != ValueType::kText && value->type != ValueType::kWord) {
    return refuse(fmt::format("is {}, not a string", name_of(value->type)));
  }
  if (value->text.size() < least || value->text.size() > most) {
    return refuse(fmt::format("has {} bytes", value->text.size()));
  }
  if (value->type == ValueType::kWord && !is_utf8(value->text)) return refuse("is not UTF-8");
  out = value->text;
  return true;
}

bool Fields::text(std::string_view name, std::size_t least, std::size_t most, std::string& out) {
  std::string_view view;
  if (!text(name, least, most, view)) return false;
  out = view;
  return true;
}

bool Fields::word(std::string_view name, std::span<const std::string_view> words,
                  std::size_t& out) {
  const Value* value = take(name);
  if (value == nullptr) return false;
  if (value->type == ValueType::kText || value->type == ValueType::kWord) {
    const auto found = std::find(words.begin(), words.end(), value->text);
    if (found != words.end()) {
      out = static_cast<std::size_t>(found - words.begin());
      return true;
    }
  }
  invalid(name, "is none of the words that it can be", fmt::format("{}", fmt::join(words, ", ")));
  return false;
}

bool Fields::time(std::string_view name, std::int64_t& unix_ms) {
  constexpr std::string_view kLimit =
      "RFC 3339 such as 2030-01-31T12:00:00.000Z, or milliseconds since 1970, to the year 9999";
  const Value* value = take(name);
  if (value == nullptr) return false;
  std::optional<std::int64_t> at;
  if (value->type == ValueType::kInteger) {
    at = value->integer;
  } else if (value->type == ValueType::kText || value->type == ValueType::kWord) {
    at = parse_time(value->text);
    std::int64_t number = 0;
    if (!at && value->type == ValueType::kWord && read_whole(value->text, number)) at = number;
  }
  if (!at || *at < 0 || *at > kLastTimeMs) {
    invalid(name, "is not a point in time", kLimit);
    return false;
  }
  unix_ms = *at;
  return true;
}

bool Fields::id(std::string_view name, broker::JobId& out) {
  const Value* value = take(name);
  if (value == nullptr) return false;
  std::optional<broker::JobId> id;
  switch (value->type) {
    case ValueType::kInteger:
      if (value->integer > 0) id = static_cast<broker::JobId>(value->integer);
      break;
    case ValueType::kUnsigned: id = static_cast<broker::JobId>(value->integer); break;
    case ValueType::kText:
    case ValueType::kWord: id = parse_id(value->text); break;
    default: break;
  }
  if (!id) {
    invalid(name, "is not the id of a job", "digits, in a string or as a number, from 1 to 2^64-1");
    return false;
  }
  out = *id;
  return true;
}

bool Fields::tube(std::string_view name, std::string& out) {
  const Value* value = take(name);
  if (value == nullptr) return false;
  if ((value->type != ValueType::kText && value->type != ValueType::kWord) ||
      !is_tube_name(value->text)) {
    invalid(name, "is not the name of a tube", kTubeNameLimit);
    return false;
  }
  out = value->text;
  return true;
}

std::vector<std::string_view> Fields::names() const {
  std::vector<std::string_view> names;
  for (const Value* member : members_) names.push_back(member->name);
  return names;
}

std::optional<Fields> Fields::object(std::string_view name) {
  const bool is_query = std::any_of(members_.begin(), members_.end(), [](const Value* member) {
    return member->type == ValueType::kWord;
  });
  if (!is_query) {
    const Value* value = take(name);
    if (value == nullptr) return std::nullopt;
    return Fields(values_, static_cast<std::uint32_t>(value - values_.data()), path_of(name));
  }
  const std::string prefix = std::string(name) + ".";
  Fields inner(values_, 0, std::string(name));
  inner.prefix_ = prefix;
  inner.members_.clear();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i]->name.starts_with(prefix)) continue;
    taken_ |= std::uint64_t{1} << i;
    inner.members_.push_back(members_[i]);
  }
  if (inner.members_.empty()) return std::nullopt;
  return inner;
}

bool Fields::array(std::string_view name, std::size_t least, std::size_t most,
                   std::vector<std::uint32_t>& out) {
  const Value* value = take(name);
  if (value == nullptr) return false;
  const std::string limit = fmt::format("{} to {} elements", least, most);
  if (value->type != ValueType::kArray) {
    invalid(name, fmt::format("is {}, not an array", name_of(value->type)), limit);
    return false;
  }
  out.clear();
  for (std::uint32_t i = value->first; i != Value::kNone; i = values_[i].next) out.push_back(i);
  if (out.size() < least || out.size() > most) {
    invalid(name, fmt::format("has {} elements", out.size()), limit);
    return false;
  }
  return true;
}

std::optional<Problem> Fields::finish() {
  for (std::size_t i = 0; i < members_.size() && !problem_; ++i) {
    if ((taken_ >> i & 1) != 0) continue;
    const std::string_view name = members_[i]->name.substr(prefix_.size());
    // It came from a client, who may have said anything: what is not text is not repeated.
    fail({ProblemKind::kUnknownField, "is not known here",
          name.size() <= 100 && is_utf8(name) ? path_of(name) : path_of("?")});
  }
  return std::move(problem_);
}

}  // namespace carillon::protocol::http
