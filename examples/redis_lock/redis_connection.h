// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A connection to Redis by hiredis, for one question at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "carillon/base/time.h"

struct redisContext;  // NOLINT(readability-identifier-naming): of hiredis

namespace carillon::redis_lock {

/// What came back.
struct Reply {
  enum class Kind : std::uint8_t { kNothing, kNumber, kText, kFailed };

  Kind kind = Kind::kFailed;
  std::int64_t number = 0;
  std::string text = {};  ///< Of kFailed: why.
};

/// Connects when it is first asked something, and again after an error.
///
/// Threads: one at a time. Lifetime: any.
/// Errors:  kFailed: Redis could not be reached, did not answer within `patience`, or answered with
///          an error. What was asked may have been done all the same.
/// Pre:     SIGPIPE is ignored in this process; hiredis writes to sockets that may be closed.
class RedisConnection {
 public:
  RedisConnection(std::string unix_socket, Span patience);

  Reply ask(const std::vector<std::string>& words);

 private:
  struct Free {
    void operator()(redisContext* context) const noexcept;
  };

  std::string unix_socket_;
  Span patience_;
  std::unique_ptr<redisContext, Free> context_;
};

}  // namespace carillon::redis_lock
