// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// An HTTP request that has been read, and the response to it.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/broker/body.h"
#include "carillon/protocol/http/query.h"

namespace carillon::server {

/// The parts of a request that anything here looks at.
struct HttpRequest {
  std::string method;
  std::string raw_target;
  protocol::http::Target target;
  std::string host;
  std::string authorization;
  std::string content_type;  ///< As it was sent, parameters included.
  std::string accept_encoding;
  std::string origin;
  std::string fetch_site;  ///< Sec-Fetch-Site
  std::string if_none_match;
  std::string expect;
  std::uint64_t content_length = 0;  ///< 0 if it is not said.
  bool has_body = false;
  bool chunked = false;
  bool is_http_1_1 = true;
  bool keep_alive = true;  ///< What the client would like.
  std::string body;

  [[nodiscard]] bool is_head() const noexcept { return method == "HEAD"; }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = {};  ///< Empty: there is no body.
  std::string body = {};
  std::vector<std::pair<std::string_view, std::string>> headers = {};
  broker::Body job_body = {};  ///< Sent behind `body`, without a copy.
};

}  // namespace carillon::server
