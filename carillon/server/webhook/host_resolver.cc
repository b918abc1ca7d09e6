// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/host_resolver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <system_error>
#include <thread>
#include <utility>

#include "carillon/base/mutex.h"

namespace carillon::server {

struct HostResolver::Shared {
  Lookup lookup;  // Constant after construction.

  Mutex mutex;
  CondVar wanted;
  std::deque<std::string> hosts CARILLON_GUARDED_BY(mutex);
  std::size_t threads CARILLON_GUARDED_BY(mutex) = 0;
  std::size_t idle CARILLON_GUARDED_BY(mutex) = 0;
  bool stopping CARILLON_GUARDED_BY(mutex) = false;
  // Runs a call on the owner's thread; empty once the owner is gone.
  std::function<void(std::function<void()>)> post CARILLON_GUARDED_BY(mutex);
  HostResolver* owner = nullptr;  // Of the calls that post() runs.
};

HostResolver::HostResolver(Lookup lookup, std::function<void(std::function<void()>)> post)
    : shared_(std::make_shared<Shared>()) {
  shared_->lookup = std::move(lookup);
  shared_->owner = this;
  const MutexLock lock(shared_->mutex);
  shared_->post = std::move(post);
}

HostResolver::~HostResolver() {
  shared_->owner = nullptr;
  const MutexLock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->post = nullptr;
  shared_->wanted.notify_all();
}

void HostResolver::resolve(const std::string& host, Answer answer) {
  std::vector<Answer>& asking = asking_[host];
  asking.push_back(std::move(answer));
  if (asking.size() > 1) return;
  const MutexLock lock(shared_->mutex);
  shared_->hosts.push_back(host);
  if (shared_->idle < shared_->hosts.size() && shared_->threads < kMaxThreads) {
    try {
      std::thread([shared = shared_] { work(shared); }).detach();
      ++shared_->threads;
    } catch (const std::system_error&) {
      // Those that run have to do. If there is none, the caller's timeout ends the wait, and the
      // next name tries again.
    }
  }
  shared_->wanted.notify_one();
}

void HostResolver::work(const std::shared_ptr<Shared>& shared) {
  while (true) {
    std::string host;
    {
      const MutexLock lock(shared->mutex);
      ++shared->idle;
      while (shared->hosts.empty() && !shared->stopping) shared->wanted.wait(shared->mutex);
      --shared->idle;
      if (shared->stopping) return;
      host = std::move(shared->hosts.front());
      shared->hosts.pop_front();
    }
    Addresses addresses = shared->lookup(host);
    const MutexLock lock(shared->mutex);
    if (shared->post) {
      shared->post([shared, host, addresses = std::move(addresses)] {
        if (shared->owner != nullptr) shared->owner->on_answer(host, addresses);
      });
    }
  }
}

void HostResolver::on_answer(const std::string& host, const Addresses& addresses) {
  const auto found = asking_.find(host);
  if (found == asking_.end()) return;
  const std::vector<Answer> asking = std::move(found->second);
  asking_.erase(found);
  for (const Answer& answer : asking) answer(addresses);
}

HostResolver::Addresses HostResolver::look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    const std::string why = error == EAI_SYSTEM ? std::generic_category().message(errno)
                                                : std::string(gai_strerror(error));
    return Error{ErrorCode::kUnavailable, "resolve " + host + ": " + why};
  }
  std::vector<IpAddress> addresses;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    if (each->ai_family == AF_INET) {
      std::array<unsigned char, 4> bytes{};
      std::memcpy(bytes.data(), &reinterpret_cast<sockaddr_in*>(each->ai_addr)->sin_addr, 4);
      addresses.push_back(IpAddress::from_v4(bytes));
    } else if (each->ai_family == AF_INET6) {
      std::array<unsigned char, 16> bytes{};
      std::memcpy(bytes.data(), &reinterpret_cast<sockaddr_in6*>(each->ai_addr)->sin6_addr, 16);
      addresses.push_back(IpAddress::from_v6(bytes));
    }
  }
  freeaddrinfo(list);
  return addresses;
}

}  // namespace carillon::server
