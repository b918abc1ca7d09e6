// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/json_document.h"

#include <simdjson.h>

#include <stdexcept>

#include "carillon/protocol/http/json_writer.h"

namespace carillon::protocol::http {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

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
      case element_type::DOUBLE: value.type = ValueType::kReal; break;
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
  const simdjson::error_code error =
      impl_->parser.parse(text.data(), text.size(), /*realloc_if_needed=*/true).get(root);
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
