// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A small blocking HTTP/1.1 client of one's own server, for the command line: a request, its
/// response, the end. No redirects, no proxies.

#include <string>
#include <string_view>

#include "carillon/base/result.h"
#include "carillon/base/time.h"
#include "carillon/server/client_stream.h"
#include "carillon/server/endpoint.h"

namespace carillon::server {

struct HttpCall {
  std::string method = "GET";
  std::string target;  ///< Path and query, encoded.
  std::string content_type = "application/json";
  std::string body;
  std::string token;  ///< Sent as a bearer token; empty: none.
};

struct HttpAnswer {
  int status = 0;
  std::string content_type;
  std::string body;
};

/// Connects, asks, and reads the whole answer, of at most 1 GiB. With `tls` it is https.
///
/// Errors: kUnavailable: cannot connect, no answer within `timeout` (of each step), or the
///         connection ended; kCorrupt: what came is not HTTP; kInvalidArgument: a line feed in
///         method, target, type or token.
[[nodiscard]] Result<HttpAnswer> ask_http(const Endpoint& endpoint, Span timeout,
                                          const HttpCall& call,
                                          const ClientTlsContext* tls = nullptr);

/// `text` as a part of a path or a value of a query: what is not unreserved in RFC 3986 is encoded.
[[nodiscard]] std::string url_encoded(std::string_view text);

}  // namespace carillon::server
