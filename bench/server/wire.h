// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The little of beanstalk's protocol and of RESP that the load needs: writing requests and cutting
/// replies. Nothing here allocates beyond the string it appends to.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace carillon::bench {

/// A fixed set of job bodies of printable random bytes, so that no store gains by compressing.
///
/// Threads: const after construction.
class Bodies {
 public:
  explicit Bodies(std::size_t body_bytes);
  [[nodiscard]] std::string_view at(std::uint64_t sequence) const noexcept {
    return bodies_[sequence % bodies_.size()];
  }

 private:
  std::vector<std::string> bodies_;
};

/// Appends `put 1024 <delay_s> 60 <bytes>` with its body. One line of reply.
void append_put(std::string& out, std::uint32_t delay_s, std::string_view body);

/// Appends a delayed job in Redis' way: `ZADD delayed <due_ms> <id>` and `HSET jobs <id> <body>`.
/// Two lines of reply.
void append_redis_put(std::string& out, std::uint64_t id, std::int64_t due_ms,
                      std::string_view body);

void append_delete(std::string& out, std::uint64_t id);

enum class ReplyKind { kInserted, kReserved, kDeleted, kTimedOut, kRedisInteger, kOther };

/// One reply, whose `line` and `body` point into what it was cut from.
struct Reply {
  ReplyKind kind = ReplyKind::kOther;
  std::uint64_t id = 0;  ///< Of kInserted and kReserved; the value of kRedisInteger.
  std::string_view line;
  std::string_view body;  ///< Of kReserved.
};

/// Cuts the first reply off `in`. Returns the bytes it took, 0 if `in` holds no whole reply yet.
[[nodiscard]] std::size_t cut_reply(std::string_view in, Reply& reply) noexcept;

}  // namespace carillon::bench
