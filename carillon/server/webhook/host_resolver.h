// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Host names to addresses, by the system's resolver, on threads of their own: one name that takes
/// long holds up the others only when there are as many such names as threads.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "carillon/base/result.h"
#include "carillon/server/webhook/address_policy.h"

namespace carillon::server {

/// Threads:  resolve() and the answers: one thread, the one that `post` runs calls on. Threads that
///           look names up are started as they are needed.
/// Lifetime: destroying it waits for nobody: what is still being looked up is not answered, and its
///           thread ends when the system's resolver returns.
/// Limits:   kMaxThreads names at a time; who asks for one that is being looked up gets its answer.
class HostResolver {
 public:
  static constexpr std::size_t kMaxThreads = 16;

  using Addresses = Result<std::vector<IpAddress>>;
  /// Looks a name up, blocking. Called from several threads.
  using Lookup = std::function<Addresses(const std::string& host)>;
  using Answer = std::function<void(const Addresses&)>;

  /// `post` runs a call later on the owner's thread; called from any.
  HostResolver(Lookup lookup, std::function<void(std::function<void()>)> post);
  ~HostResolver();
  HostResolver(const HostResolver&) = delete;
  HostResolver& operator=(const HostResolver&) = delete;

  /// The answer comes later, never from inside.
  void resolve(const std::string& host, Answer answer);

  /// By getaddrinfo: what nsswitch.conf says, so /etc/hosts as well. IPv4 and IPv6, in its order.
  [[nodiscard]] static Addresses look_up(const std::string& host);

 private:
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);
  void on_answer(const std::string& host, const Addresses& addresses);

  const std::shared_ptr<Shared> shared_;
  std::unordered_map<std::string, std::vector<Answer>> asking_;
};

}  // namespace carillon::server
