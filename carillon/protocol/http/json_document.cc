// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/json_document.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <exception>
#include <string>
#include <system_error>

#include "carillon/protocol/http/json_writer.h"

namespace carillon::protocol::http {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

/// 2^64.
constexpr double kBeyond = 18446744073709551616.0;
/// Stands for a number that simdjson refuses, which has as many characters at least.
constexpr std::string_view kStandIn = "1e300";

bool is_part_of_number(char c) noexcept {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/// Takes digits off the front; false: there are none.
bool take_digits(std::string_view& text) noexcept {
  const std::size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  text.remove_prefix(end);
  return end > 0;
}

/// Whether it is a number of JSON that fits neither 64 bits nor a double.
bool is_beyond(std::string_view word) noexcept {
  if (word.size() < kStandIn.size()) return false;
  std::string_view left = word;
  if (left.front() == '-') left.remove_prefix(1);
  if (left.size() > 1 && left[0] == '0' && left[1] >= '0' && left[1] <= '9') return false;
  if (!take_digits(left)) return false;
  const char* const end = word.data() + word.size();
  if (left.empty()) {
    std::uint64_t natural = 0;
    std::int64_t whole = 0;
    return std::from_chars(word.data(), end, natural).ec != std::errc() &&
           std::from_chars(word.data(), end, whole).ec != std::errc();
  }
  if (left.front() == '.') {
    left.remove_prefix(1);
    if (!take_digits(left)) return false;
  }
  if (!left.empty()) {
    if (left.front() != 'e' && left.front() != 'E') return false;
    left.remove_prefix(1);
    if (!left.empty() && (left.front() == '+' || left.front() == '-')) left.remove_prefix(1);
    if (!take_digits(left) || !left.empty()) return false;
  }
  double real = 0;
  return std::from_chars(word.data(), end, real).ec == std::errc::result_out_of_range;
}

/// simdjson refuses a text for one number that is too large, and does not say which. Here each of
/// those becomes one that it takes and that is too large all the same; nothing else moves.
std::string with_stand_ins(std::string_view text) {
  std::string out(text);
  bool in_string = false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (in_string) {
      if (out[i] == '\\') {
        ++i;
      } else if (out[i] == '"') {
        in_string = false;
      }
    } else if (out[i] == '"') {
      in_string = true;
    } else if (is_part_of_number(out[i])) {
      std::size_t end = i;
      while (end < out.size() && is_part_of_number(out[end])) ++end;
      if (is_beyond(std::string_view(out).substr(i, end - i))) {
        std::fill(out.begin() + static_cast<std::ptrdiff_t>(i),
                  out.begin() + static_cast<std::ptrdiff_t>(end), ' ');
        out.replace(i, kStandIn.size(), kStandIn);
      }
      i = end - 1;
    }
  }
  return out;
}

struct TooManyValues final : std::exception {};

/// Copies simdjson's values into ours, parents before children. The depth is bounded by the parser.
class Copier {
 public:
  explicit Copier(std::vector<Value>& values) : values_(values) {}

  std::uint32_t copy(const element& from, std::string_view name) {
    if (values_.size() >= JsonDocument::kMaxValues) throw TooManyValues();
    const auto at = static_cast<std::uint32_t>(values_.size());
    values_.emplace_back();
    Value value;
    value.name = name;
    switch (from.type()) {
      case element_type::NULL_VALUE: break;
      case element_type::BOOL:
        value.type = ValueType::kFlag;
        value.flag = from.get_bool().value_unsafe();
        break;
      case element_type::INT64:
        value.type = ValueType::kInteger;
        value.integer = from.get_int64().value_unsafe();
        break;
      case element_type::UINT64:
        value.type = ValueType::kUnsigned;
        value.integer = static_cast<std::int64_t>(from.get_uint64().value_unsafe());
        break;
      case element_type::DOUBLE:
        value.type = std::abs(from.get_double().value_unsafe()) < kBeyond ? ValueType::kReal
                                                                          : ValueType::kHuge;
        break;
      case element_type::STRING:
        value.type = ValueType::kText;
        value.text = from.get_string().value_unsafe();
        break;
      case element_type::OBJECT: {
        value.type = ValueType::kObject;
        simdjson::dom::object object;
        if (from.get_object().get(object) != simdjson::SUCCESS) break;
        for (const auto& [key, member] : object) append(value, copy(member, key));
        break;
      }
      case element_type::ARRAY: {
        value.type = ValueType::kArray;
        simdjson::dom::array array;
        if (from.get_array().get(array) != simdjson::SUCCESS) break;
        for (const element& item : array) append(value, copy(item, {}));
        break;
      }
    }
    values_[at] = value;
    return at;
  }

 private:
  void append(Value& parent, std::uint32_t child) {
    if (parent.first == Value::kNone) {
      parent.first = child;
    } else {
      values_[last_of(parent)].next = child;
    }
    parent.integer = child;  // The last one so far; nobody else looks at it.
  }
  static std::size_t last_of(const Value& parent) {
    return static_cast<std::size_t>(parent.integer);
  }

  std::vector<Value>& values_;
};

}  // namespace

class JsonDocument::Impl {
 public:
  simdjson::dom::parser parser;
};

JsonDocument::JsonDocument() : impl_(std::make_unique<Impl>()) {}
JsonDocument::~JsonDocument() = default;

std::optional<std::string> JsonDocument::parse(std::string_view text) {
  values_.clear();
  if (text.empty()) return "there is nothing";
  // Room for the padding that simdjson reads beyond the end is made by a copy.
  if (impl_->parser.capacity() < text.size() || impl_->parser.max_depth() != kMaxDepth) {
    const std::size_t capacity = std::max<std::size_t>(text.size(), 1024);
    if (impl_->parser.allocate(capacity, kMaxDepth) != simdjson::SUCCESS) {
      return "there is no memory for it";
    }
  }
  element root;
  simdjson::error_code error =
      impl_->parser.parse(text.data(), text.size(), /*realloc_if_needed=*/true).get(root);
  if (error != simdjson::SUCCESS && error != simdjson::DEPTH_ERROR) {
    // Which error it is for such a number depends on the version. The parser keeps strings of its
    // own: the text need not last.
    const std::string changed = with_stand_ins(text);
    error = impl_->parser.parse(changed.data(), changed.size(), true).get(root);
  }
  if (error == simdjson::DEPTH_ERROR) {
    return "it is nested deeper than " + std::to_string(kMaxDepth);
  }
  if (error != simdjson::SUCCESS) return simdjson::error_message(error);
  try {
    Copier(values_).copy(root, {});
  } catch (const TooManyValues&) {
    values_.clear();
    return "it has more than " + std::to_string(kMaxValues) + " values";
  }
  return std::nullopt;
}

bool is_utf8(std::string_view bytes) noexcept {
  return simdjson::validate_utf8(bytes.data(), bytes.size());
}

}  // namespace carillon::protocol::http
