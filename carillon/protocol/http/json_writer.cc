// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/http/json_writer.h"

// Strings are searched for what has to be escaped 16 bytes at a time.
#if defined(__SSE2__)
#define RAPIDJSON_SSE2
#elif defined(__ARM_NEON)
#define RAPIDJSON_NEON
#endif
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "carillon/protocol/http/time_text.h"

namespace carillon::protocol::http {
namespace {

rapidjson::SizeType size_of(std::string_view text) noexcept {
  return static_cast<rapidjson::SizeType>(text.size());
}

}  // namespace

class JsonWriter::Impl {
 public:
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer{buffer};
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

void JsonWriter::reserve(std::size_t bytes) { impl_->buffer.Reserve(bytes); }
void JsonWriter::end_line() {
  impl_->buffer.Put('\n');
  impl_->writer.Reset(impl_->buffer);
}

std::size_t JsonWriter::size() const noexcept { return impl_->buffer.GetSize(); }

std::string JsonWriter::take() {
  std::string text(impl_->buffer.GetString(), impl_->buffer.GetSize());
  impl_->buffer.Clear();
  impl_->writer.Reset(impl_->buffer);
  return text;
}

}  // namespace carillon::protocol::http
