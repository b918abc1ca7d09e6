// SPDX-License-Identifier: Apache-2.0
#include "redis_connection.h"

#include <hiredis/hiredis.h>
#include <sys/time.h>

#include <utility>

namespace carillon::redis_lock {
namespace {

timeval to_timeval(Span span) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(span).count();
  constexpr std::int64_t kMicros = 1'000'000;
  return {micros / kMicros, micros % kMicros};
}

Reply to_reply(const redisReply& from) {
  const std::string text(from.str == nullptr ? "" : from.str, from.str == nullptr ? 0 : from.len);
  switch (from.type) {
    case REDIS_REPLY_NIL: return {Reply::Kind::kNothing};
    case REDIS_REPLY_INTEGER: return {Reply::Kind::kNumber, from.integer};
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_STRING: return {Reply::Kind::kText, 0, text};
    case REDIS_REPLY_ERROR: return {Reply::Kind::kFailed, 0, text};
    default: return {Reply::Kind::kFailed, 0, "an answer of another kind"};
  }
}

}  // namespace

void RedisConnection::Free::operator()(redisContext* context) const noexcept { redisFree(context); }

RedisConnection::RedisConnection(std::string unix_socket, Span patience)
    : unix_socket_(std::move(unix_socket)), patience_(patience) {}

Reply RedisConnection::ask(const std::vector<std::string>& words) {
  const timeval patience = to_timeval(patience_);
  if (context_ == nullptr) {
    context_.reset(redisConnectUnixWithTimeout(unix_socket_.c_str(), patience));
    if (context_ == nullptr) return {Reply::Kind::kFailed, 0, "out of memory"};
    redisSetTimeout(context_.get(), patience);
  }
  std::vector<const char*> texts;
  std::vector<std::size_t> sizes;
  for (const std::string& word : words) {
    texts.push_back(word.data());
    sizes.push_back(word.size());
  }
  void* answer = nullptr;
  if (context_->err == 0) {
    answer = redisCommandArgv(context_.get(), static_cast<int>(words.size()), texts.data(),
                              sizes.data());
  }
  if (answer == nullptr) {
    // Another connection next time: the answer to this question may still come on this one, and
    // would be taken for that to the next.
    Reply failed{Reply::Kind::kFailed, 0, context_->errstr};
    context_.reset();
    return failed;
  }
  const std::unique_ptr<redisReply, void (*)(redisReply*)> reply(
      static_cast<redisReply*>(answer), [](redisReply* r) { freeReplyObject(r); });
  return to_reply(*reply);
}

}  // namespace carillon::redis_lock
