// SPDX-License-Identifier: Apache-2.0
#include "bench/server/postgres_wire.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cstring>

#include "bench/common/interrupt.h"

namespace carillon::bench {
namespace {

constexpr std::size_t kHeaderBytes = 5;  // of a message: its type, and the size of all but that

void append_int2(std::string& out, std::uint16_t value) {
  out += static_cast<char>(value >> 8);
  out += static_cast<char>(value);
}

void append_int4(std::string& out, std::uint32_t value) {
  append_int2(out, static_cast<std::uint16_t>(value >> 16));
  append_int2(out, static_cast<std::uint16_t>(value));
}

std::uint32_t int4_at(std::string_view in, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(in[at + i]);
  return value;
}

// Fills in the four bytes at `at` with how many bytes there are from `from` on.
void set_size(std::string& out, std::size_t at, std::size_t from) {
  const auto size = static_cast<std::uint32_t>(out.size() - from);
  for (std::size_t i = 0; i < 4; ++i) out[at + i] = static_cast<char>(size >> (24 - 8 * i));
}

void append_text(std::string& out, std::string_view text) { out.append(text) += '\0'; }

// Begins a message; returns where its size is to be filled in.
std::size_t begin_message(std::string& out, char type) {
  out += type;
  append_int4(out, 0);
  return out.size() - 4;
}

void end_message(std::string& out, std::size_t size_at) { set_size(out, size_at, size_at); }

// The severity and message of an ErrorResponse: fields of a letter and a text each.
std::string error_text(std::string_view fields) {
  std::string text;
  while (!fields.empty() && fields.front() != '\0') {
    const std::string_view value = fields.substr(1, fields.find('\0', 1) - 1);
    if (fields.front() == 'S' || fields.front() == 'M') text.append(value).append(" ");
    fields.remove_prefix(value.size() + 2);
  }
  return text;
}

}  // namespace

void append_startup(std::string& out) {
  constexpr std::uint32_t kProtocol3 = 3U << 16;
  const std::size_t begin = out.size();
  append_int4(out, 0);
  append_int4(out, kProtocol3);
  append_text(out, "user");
  append_text(out, kPostgresUser);
  append_text(out, "database");
  append_text(out, "postgres");
  out += '\0';
  set_size(out, begin, begin);
}

void append_query(std::string& out, std::string_view sql) {
  const std::size_t message = begin_message(out, 'Q');
  append_text(out, sql);
  end_message(out, message);
}

void append_parse(std::string& out, std::string_view name, std::string_view sql,
                  std::initializer_list<std::uint32_t> types) {
  const std::size_t message = begin_message(out, 'P');
  append_text(out, name);
  append_text(out, sql);
  append_int2(out, static_cast<std::uint16_t>(types.size()));
  for (const std::uint32_t type : types) append_int4(out, type);
  end_message(out, message);
}

void append_sync(std::string& out) { end_message(out, begin_message(out, 'S')); }

BoundStatement::BoundStatement(std::string& out, std::string_view name, std::uint16_t arguments)
    : out_(out), begins_at_(begin_message(out, 'B')) {
  append_text(out_, "");  // the portal without a name
  append_text(out_, name);
  append_int2(out_, 1);  // one format for all arguments:
  append_int2(out_, 1);  // binary
  append_int2(out_, arguments);
}

BoundStatement::~BoundStatement() {
  append_int2(out_, 1);  // one format for all results:
  append_int2(out_, 1);  // binary
  end_message(out_, begins_at_);
  const std::size_t execute = begin_message(out_, 'E');
  append_text(out_, "");
  append_int4(out_, 0);  // all rows
  end_message(out_, execute);
  append_sync(out_);
}

void BoundStatement::add_int8(std::int64_t value) {
  append_int4(out_, 8);
  append_int4(out_, static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32));
  append_int4(out_, static_cast<std::uint32_t>(value));
}

void BoundStatement::add_bytes(std::string_view bytes) {
  append_int4(out_, static_cast<std::uint32_t>(bytes.size()));
  out_.append(bytes);
}

void BoundStatement::begin_array(std::uint32_t element_type, std::size_t size) {
  array_at_ = out_.size();
  append_int4(out_, 0);  // bytes, filled in by end_array()
  append_int4(out_, 1);  // one dimension
  append_int4(out_, 0);  // no NULL in it
  append_int4(out_, element_type);
  append_int4(out_, static_cast<std::uint32_t>(size));
  append_int4(out_, 1);  // the index of the first element
}

void BoundStatement::end_array() { set_size(out_, array_at_, array_at_ + 4); }

bool MessageReader::next() {
  if (in_.size() < at_ + kHeaderBytes) return false;
  const std::size_t size = int4_at(in_, at_ + 1) + 1;
  if (in_.size() < at_ + size) return false;
  type_ = in_[at_];
  payload_ = in_.substr(at_ + kHeaderBytes, size - kHeaderBytes);
  at_ += size;
  if (type_ == 'E') throw BenchError("PostgreSQL: " + error_text(payload_));
  return true;
}

std::string_view MessageReader::column(std::size_t index) const {
  constexpr std::uint32_t kNull = 0xFFFF'FFFF;
  std::size_t at = 2;  // behind the number of columns
  for (;; --index) {
    const std::uint32_t size = int4_at(payload_, at);
    at += 4;
    if (index == 0) return size == kNull ? std::string_view() : payload_.substr(at, size);
    if (size != kNull) at += size;
  }
}

std::size_t cut_until_ready(std::string_view in) {
  MessageReader reader(in);
  while (reader.next()) {
    if (reader.type() == 'Z') return reader.taken();
  }
  return 0;
}

std::string await_ready(int fd, std::string_view out, int times) {
  const timeval limit = {60, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (::send(fd, out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) {
    throw BenchError("PostgreSQL takes no request");
  }
  std::string in;
  std::size_t taken = 0;
  std::array<char, 4096> bytes;
  while (times > 0) {
    const ssize_t n = ::recv(fd, bytes.data(), bytes.size(), 0);
    check_interrupt();
    if (n <= 0) throw BenchError("PostgreSQL does not answer");
    in.append(bytes.data(), static_cast<std::size_t>(n));
    for (std::size_t more = 0;
         times > 0 && (more = cut_until_ready(std::string_view(in).substr(taken))) > 0; --times) {
      taken += more;
    }
  }
  return in;
}

}  // namespace carillon::bench
