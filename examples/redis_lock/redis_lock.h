// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A lock that is a key in Redis with a time to live, kept by a LeaseKeeper.
///
///     SET key token NX PX life     granted, if there is no such key
///     a script                     extends the life, if the value is still the token
///     a script                     deletes the key, if the value is still the token
///
/// The token is random for each process, and numbered by the generation of the lease: an extension
/// or a deletion that is late finds that the value is another's, or that of a later lease of its
/// own, and does nothing.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "carillon/blocks/lease_keeper.h"
#include "redis_connection.h"

namespace carillon::redis_lock {

enum class Answer : std::uint8_t {
  kYes,
  kNo,
  /// Redis has not said. It may have done it all the same.
  kFailed,
};

/// The three commands.
///
/// Threads: safe; one question at a time.
class LockKey {
 public:
  LockKey(std::string unix_socket, std::string key, Span patience);

  /// kNo: another has it.
  Answer acquire(const std::string& token, Span life);
  /// kNo: it is not ours any more.
  Answer extend(const std::string& token, Span life);
  /// kNo: it was not ours any more, and is left alone.
  Answer release(const std::string& token);

 private:
  Reply ask(const std::vector<std::string>& words);

  std::string key_;
  std::mutex mutex_;
  RedisConnection connection_;
};

/// One who takes the lock, holds it, and gives it back.
///
/// Threads:  one at a time; `on_lost` is called on a thread of the Timer's.
/// Lifetime: the keeper and its Timer must outlive it. Its destructor unlocks.
class RedisLock {
 public:
  RedisLock(LeaseKeeper& keeper, const std::string& unix_socket, const std::string& key);
  ~RedisLock() { unlock(); }
  RedisLock(const RedisLock&) = delete;
  RedisLock& operator=(const RedisLock&) = delete;

  /// Asks for it, once; first unlocks. False: another has it, or Redis has not said in time.
  bool try_lock(Lease::OnLost on_lost);
  /// Gives it back. False: it was not held (any more).
  bool unlock();
  /// By the clock: to be asked before whatever only the holder may do.
  [[nodiscard]] bool held() const noexcept { return lease_.held(); }
  /// What is in Redis while it is held.
  [[nodiscard]] const std::string& token() const noexcept { return token_; }

 private:
  LeaseKeeper& keeper_;
  // A renewal may still be asking when this goes.
  std::shared_ptr<LockKey> key_;
  Lease lease_;
  std::string token_;
};

}  // namespace carillon::redis_lock
