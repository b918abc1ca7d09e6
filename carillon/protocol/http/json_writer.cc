// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/json_writer.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "carillon/protocol/http/time_text.h"

namespace carillon::protocol::http {
namespace {

/// Lets RapidJSON write into a std::string, which take() hands over without a copy.
struct StringStream {
  using Ch = char;  // NOLINT(readability-identifier-naming): RapidJSON's name for it.
  std::string text;
  void Put(char c) { text.push_back(c); }  // NOLINT(readability-identifier-naming)
  void Flush() {}                          // NOLINT(readability-identifier-naming)
};

rapidjson::SizeType size_of(std::string_view text) noexcept {
  return static_cast<rapidjson::SizeType>(text.size());
}

}  // namespace

class JsonWriter::Impl {
 public:
  StringStream stream;
  rapidjson::Writer<StringStream> writer{stream};
};

JsonWriter::JsonWriter() : impl_(std::make_unique<Impl>()) {}
JsonWriter::~JsonWriter() = default;

void JsonWriter::begin_object() { impl_->writer.StartObject(); }
void JsonWriter::end_object() { impl_->writer.EndObject(); }
void JsonWriter::begin_array() { impl_->writer.StartArray(); }
void JsonWriter::end_array() { impl_->writer.EndArray(); }
void JsonWriter::key(std::string_view name) { impl_->writer.Key(name.data(), size_of(name)); }
void JsonWriter::text(std::string_view value) {
  impl_->writer.String(value.data() == nullptr ? "" : value.data(), size_of(value));
}
void JsonWriter::number(std::int64_t value) { impl_->writer.Int64(value); }
void JsonWriter::number(std::uint64_t value) { impl_->writer.Uint64(value); }
void JsonWriter::real(double value) { impl_->writer.Double(value); }
void JsonWriter::flag(bool value) { impl_->writer.Bool(value); }
void JsonWriter::null() { impl_->writer.Null(); }
void JsonWriter::raw(std::string_view json) {
  impl_->writer.RawValue(json.data(), json.size(), rapidjson::kObjectType);
}
void JsonWriter::time(std::string_view name, std::int64_t unix_ms) {
  field(name, format_time(unix_ms));
}

std::size_t JsonWriter::size() const noexcept { return impl_->stream.text.size(); }

std::string JsonWriter::take() {
  std::string text = std::move(impl_->stream.text);
  impl_->stream.text.clear();
  impl_->writer.Reset(impl_->stream);
  return text;
}

}  // namespace carillon::protocol::http
