// SPDX-License-Identifier: Apache-2.0
#include "bench/server/wire.h"

#include <array>
#include <charconv>
#include <cstring>

#include "bench/server/numbers.h"
#include "carillon/base/random.h"

namespace carillon::bench {
namespace {

constexpr std::size_t kDistinctBodies = 256;

// The number that follows the first `prefix_size` bytes, and where it ends.
const char* read_number(std::string_view line, std::size_t prefix_size, std::uint64_t& value) {
  return std::from_chars(line.data() + prefix_size, line.data() + line.size(), value).ptr;
}

void append_bulk(std::string& out, std::string_view text) {
  out += '$';
  append_number(out, text.size());
  out.append("\r\n").append(text).append("\r\n");
}

template <class Integer>
void append_bulk_number(std::string& out, Integer value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  append_bulk(out, std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data())));
}

}  // namespace

Bodies::Bodies(std::size_t body_bytes) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  Random random(200);
  bodies_.resize(kDistinctBodies);
  for (std::string& body : bodies_) {
    body.resize(body_bytes);
    for (char& byte : body) byte = kAlphabet[random.below(kAlphabet.size())];
  }
}

void append_put(std::string& out, std::uint32_t delay_s, std::string_view body) {
  out.append("put 1024 ");
  append_number(out, delay_s);
  out.append(" 60 ");
  append_number(out, body.size());
  out.append("\r\n").append(body).append("\r\n");
}

void append_redis_put(std::string& out, std::uint64_t id, std::int64_t due_ms,
                      std::string_view body) {
  out.append("*4\r\n$4\r\nZADD\r\n$7\r\ndelayed\r\n");
  append_bulk_number(out, due_ms);
  append_bulk_number(out, id);
  out.append("*4\r\n$4\r\nHSET\r\n$4\r\njobs\r\n");
  append_bulk_number(out, id);
  append_bulk(out, body);
}

void append_delete(std::string& out, std::uint64_t id) {
  out.append("delete ");
  append_number(out, id);
  out.append("\r\n");
}

std::size_t cut_reply(std::string_view in, Reply& reply) noexcept {
  const void* newline = in.empty() ? nullptr : std::memchr(in.data(), '\n', in.size());
  if (newline == nullptr) return 0;
  const auto line_size = static_cast<std::size_t>(static_cast<const char*>(newline) - in.data());
  std::string_view line = in.substr(0, line_size);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);

  reply = Reply{ReplyKind::kOther, 0, line, {}};
  std::size_t taken = line_size + 1;
  if (line.starts_with("INSERTED ")) {
    reply.kind = ReplyKind::kInserted;
    read_number(line, 9, reply.id);
  } else if (line.starts_with("RESERVED ")) {
    const char* after_id = read_number(line, 9, reply.id);
    const auto prefix = static_cast<std::size_t>(after_id - line.data()) + 1;
    std::uint64_t body_bytes = 0;
    if (prefix >= line.size()) return taken;  // malformed: the caller sees kOther
    read_number(line, prefix, body_bytes);
    if (in.size() < taken + body_bytes + 2) return 0;
    reply.kind = ReplyKind::kReserved;
    reply.body = in.substr(taken, body_bytes);
    taken += body_bytes + 2;
  } else if (line == "DELETED") {
    reply.kind = ReplyKind::kDeleted;
  } else if (line == "TIMED_OUT") {
    reply.kind = ReplyKind::kTimedOut;
  } else if (line.starts_with(':')) {
    reply.kind = ReplyKind::kRedisInteger;
    read_number(line, 1, reply.id);
  }
  return taken;
}

}  // namespace carillon::bench
