// SPDX-License-Identifier: Apache-2.0
#include "redis_lock.h"

#include <cstdio>
#include <random>
#include <utility>

namespace carillon::redis_lock {
namespace {

constexpr const char* kExtend =
    "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
    "return redis.call('pexpire', KEYS[1], ARGV[2])";
constexpr const char* kRelease =
    "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end "
    "return redis.call('del', KEYS[1])";

std::string millis(Span life) { return std::to_string(life / std::chrono::milliseconds(1)); }

// Of this process, unlike that of any other.
const std::string& process_token() {
  static const std::string kToken = [] {
    std::random_device random;
    char text[33];
    std::snprintf(text, sizeof text, "%08x%08x%08x%08x", random(), random(), random(), random());
    return std::string(text);
  }();
  return kToken;
}

Answer to_answer(const Reply& reply) {
  if (reply.kind == Reply::Kind::kFailed) return Answer::kFailed;
  return reply.kind == Reply::Kind::kText || reply.number == 1 ? Answer::kYes : Answer::kNo;
}

}  // namespace

LockKey::LockKey(std::string unix_socket, std::string key, Span patience)
    : key_(std::move(key)), connection_(std::move(unix_socket), patience) {}

Reply LockKey::ask(const std::vector<std::string>& words) {
  const std::lock_guard lock(mutex_);
  return connection_.ask(words);
}

Answer LockKey::acquire(const std::string& token, Span life) {
  return to_answer(ask({"SET", key_, token, "NX", "PX", millis(life)}));
}
Answer LockKey::extend(const std::string& token, Span life) {
  return to_answer(ask({"EVAL", kExtend, "1", key_, token, millis(life)}));
}
Answer LockKey::release(const std::string& token) {
  return to_answer(ask({"EVAL", kRelease, "1", key_, token}));
}

// A question that is not answered by the time of the next renewal is not waited for.
RedisLock::RedisLock(LeaseKeeper& keeper, const std::string& unix_socket, const std::string& key)
    : keeper_(keeper),
      key_(std::make_shared<LockKey>(unix_socket, key, keeper.options().retry_after)) {}

bool RedisLock::try_lock(Lease::OnLost on_lost) {
  unlock();
  lease_ = keeper_.claim();  // before Redis is asked: the life counts from here
  const std::string token = process_token() + ":" + std::to_string(lease_.generation());
  const Span life = keeper_.options().life;
  const auto renew = [key = key_, token, life](RenewReply reply) {
    switch (key->extend(token, life)) {
      case Answer::kYes: return reply.renewed();
      case Answer::kNo: return reply.refused();     // deleted, or another's
      case Answer::kFailed: return reply.failed();  // it will be asked to try again
    }
  };
  const Answer answer = key_->acquire(token, life);
  if (answer == Answer::kNo) return false;
  if (answer == Answer::kYes && lease_.hold(renew, std::move(on_lost))) {
    token_ = token;
    return true;
  }
  key_->release(token);  // it may have been granted, though no answer came, or too late
  return false;
}

bool RedisLock::unlock() {
  const bool was_held = lease_.release();  // first, so that no renewal begins any more
  const std::string token = std::exchange(token_, {});
  if (!token.empty()) key_->release(token);
  return was_held;
}

}  // namespace carillon::redis_lock
