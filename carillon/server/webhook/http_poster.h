// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Posts over HTTP/1.1, plain or TLS, on a thread of its own: whatever a server does or fails to do
/// costs the rest of this process nothing.
///
/// A name is resolved first, its addresses are judged, and one that was permitted is connected to:
/// nothing resolves it a second time. Certificates are verified against the system's authorities,
/// or those of a file, and have to be of the host. Redirects are not followed: the target of one
/// has not been judged, and a POST that becomes a GET delivers nothing. Connections are kept and
/// used again.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "carillon/base/clock.h"
#include "carillon/base/result.h"
#include "carillon/server/webhook/address_policy.h"
#include "carillon/server/webhook/host_resolver.h"
#include "carillon/server/webhook/post.h"

namespace boost::asio::ssl {
class context;
}

namespace carillon::server {

struct HttpPosterOptions {
  AddressPolicy policy;
  /// Certificates (PEM) of authorities, instead of the system's. Empty: the system's.
  std::string authorities;
  /// Connections at a time, idle ones included. Idle ones give way to new ones; posts in work are
  /// bounded by who makes them.
  std::size_t max_connections = 1'000;
  /// An idle connection is closed after this.
  Span idle_for = std::chrono::seconds(30);
  std::string user_agent = "carillon";
  HostResolver::Lookup lookup = HostResolver::look_up;
};

class HttpPosterCore;

/// Threads:  post() and cancel(): any. Outcomes are reported on the poster's thread.
/// Lifetime: the calendar must outlive it. Destroying it cancels what is in work, reports that, and
///           waits for its thread.
class HttpPoster final : public WebhookPoster {
 public:
  using OnOutcome = std::function<void(PostId, PostOutcome)>;

  /// Starts the thread. Errors: authorities that cannot be read.
  [[nodiscard]] static Result<std::unique_ptr<HttpPoster>> start(const HttpPosterOptions& options,
                                                                 const Calendar& calendar,
                                                                 OnOutcome on_outcome);
  ~HttpPoster() override;

  void post(Post post) override;
  void cancel(PostId id) override;

  /// From the next post on: its policy, authorities and max_connections. Connections that are idle
  /// are closed, since they were made by the rules before; posts in work end as they began.
  /// `tls`: of make_tls(), from the authorities.
  void change(const HttpPosterOptions& options, std::shared_ptr<boost::asio::ssl::context> tls);
  /// What TLS connections are made with. Errors: authorities that are none.
  [[nodiscard]] static Result<std::shared_ptr<boost::asio::ssl::context>> make_tls(
      const std::string& authorities);

 private:
  explicit HttpPoster(std::unique_ptr<HttpPosterCore> core);

  std::unique_ptr<HttpPosterCore> core_;
  std::thread thread_;
};

}  // namespace carillon::server
