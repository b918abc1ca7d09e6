// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_request_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <limits>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::server {
namespace {

namespace beast = boost::beast::http;
using protocol::http::Problem;
using protocol::http::ProblemKind;
using protocol::http::Target;

/// Beast finds out that there is no room when it has read this much more than it should.
constexpr std::uint32_t kMostHeader = std::uint32_t{1} << 20;

std::string text_of(boost::beast::string_view text) { return {text.data(), text.size()}; }

bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : int{c}; };
           return lower(x) == lower(y);
         });
}

}  // namespace

/// Beast's string_body takes memory for the whole length when it has been announced.
struct GrowingBody {
  using value_type = std::string;  // NOLINT(readability-identifier-naming): Beast's names.

  class reader {  // NOLINT(readability-identifier-naming)
   public:
    template <bool is_request, class Fields>
    explicit reader(beast::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, boost::system::error_code& error) {
      error = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      const std::size_t before = body_.size();
      for (const boost::asio::const_buffer part : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(part.data()), part.size());
      }
      return body_.size() - before;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

class HttpRequestReader::Parser : public beast::request_parser<GrowingBody> {
 public:
  explicit Parser(std::size_t max_header) {
    header_limit(static_cast<std::uint32_t>(std::min<std::size_t>(max_header, kMostHeader)));
    // None, until allow_body(). (boost::none would be less than any length here.)
    body_limit(std::numeric_limits<std::uint64_t>::max());
    eager(false);
  }
};

HttpRequestReader::HttpRequestReader(std::size_t max_header) : max_header_(max_header) {}
HttpRequestReader::~HttpRequestReader() = default;

void HttpRequestReader::next() {
  parser_.reset();
  request_ = {};
  begun_ = false;
  has_head_ = false;
}

void HttpRequestReader::allow_body(std::uint64_t limit) {
  CARILLON_CHECK(has_head_, "a body before its head");
  body_limit_ = limit;
  parser_->body_limit(limit);
  parser_->eager(true);
}

std::size_t HttpRequestReader::body_size() const noexcept {
  return parser_ == nullptr ? 0 : parser_->get().body().size();
}

HttpRequestReader::Event HttpRequestReader::refuse_head(std::string_view what) {
  return refuse({ProblemKind::kHeaderTooLarge,
                 std::string(what),
                 {},
                 fmt::format("http-max-header is {}", max_header_)});
}

Problem HttpRequestReader::body_too_large() const {
  return {ProblemKind::kTooLarge, "the body is larger", "body",
          fmt::format("http-max-body is {}", body_limit_)};
}

HttpRequestReader::Event HttpRequestReader::refuse(Problem problem) {
  problem_ = std::move(problem);
  refused_ = true;
  return Event::kRefused;
}

HttpRequestReader::Event HttpRequestReader::read(std::string_view& bytes) {
  if (refused_) return Event::kRefused;
  if (!begun_) {
    // RFC 9112, 2.2: empty lines in front of a request are passed over.
    while (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
    if (bytes.empty() || bytes == "\r") return Event::kNeedMore;
    parser_ = std::make_unique<Parser>(max_header_);
    begun_ = true;
  }
  // Beast looks at the length when the head ends, which is before there is a limit.
  if (has_head_ && request_.content_length > body_limit_) return refuse(body_too_large());
  if (has_head_ && parser_->is_done()) {
    request_.body = std::move(parser_->get().body());
    return Event::kComplete;
  }
  for (;;) {
    boost::system::error_code error;
    const std::size_t taken =
        parser_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    bytes.remove_prefix(taken);
    if (error && error != beast::error::need_more) {
      if (error == beast::error::header_limit || error == beast::error::buffer_overflow) {
        return refuse_head("the request line and the headers are larger");
      }
      if (error == beast::error::body_limit) {
        return refuse(body_too_large());
      }
      if (error == beast::error::bad_version) {
        return refuse({ProblemKind::kVersion, "the version is another"});
      }
      return refuse({ProblemKind::kMalformedRequest, error.message()});
    }
    if (!has_head_ && parser_->is_header_done()) {
      has_head_ = true;
      if (std::optional<Problem> problem = take_head()) return refuse(std::move(*problem));
      return Event::kHead;
    }
    if (has_head_ && parser_->is_done()) {
      request_.body = std::move(parser_->get().body());
      return Event::kComplete;
    }
    if (error || bytes.empty() || taken == 0) break;
  }
  // What Beast leaves in the buffer is part of a line, and counts for the limit only when it ends;
  // or the extension of a chunk, or the trailer, which count for none.
  if (bytes.size() > max_header_) {
    return refuse_head(has_head_ ? "the extension of a chunk, or the trailer, is larger"
                                 : "the request line and the headers are larger");
  }
  return Event::kNeedMore;
}

std::optional<Problem> HttpRequestReader::take_head() {
  using beast::field;
  const auto& head = parser_->get();
  request_.method = text_of(head.method_string());
  request_.raw_target = text_of(head.target());
  request_.is_http_1_1 = head.version() == 11;
  request_.keep_alive = parser_->keep_alive();
  request_.chunked = parser_->chunked();
  request_.content_length = parser_->content_length().value_or(0);
  request_.has_body = request_.chunked || request_.content_length > 0;
  const std::pair<field, std::string HttpRequest::*> kWanted[] = {
      {field::host, &HttpRequest::host},
      {field::authorization, &HttpRequest::authorization},
      {field::content_type, &HttpRequest::content_type},
      {field::accept_encoding, &HttpRequest::accept_encoding},
      {field::origin, &HttpRequest::origin},
      {field::if_none_match, &HttpRequest::if_none_match},
      {field::expect, &HttpRequest::expect}};
  for (const auto& [name, where] : kWanted) {
    if (head.count(name) > 1 && name != field::accept_encoding && name != field::if_none_match) {
      return Problem{ProblemKind::kMalformedRequest, "a header is there twice",
                     text_of(boost::beast::http::to_string(name)), "once"};
    }
    request_.*where = text_of(head[name]);
  }
  request_.fetch_site = text_of(head["Sec-Fetch-Site"]);
  if (head.version() != 11 && head.version() != 10) {
    return Problem{ProblemKind::kVersion, "the version is another"};
  }
  if (head.count(field::transfer_encoding) > 0 &&
      !equals_ignoring_case(text_of(head[field::transfer_encoding]), "chunked")) {
    return Problem{ProblemKind::kNotHere, "only the transfer coding chunked is known",
                   "Transfer-Encoding", "chunked"};
  }
  if (request_.is_http_1_1 && head.count(field::host) == 0) {
    return Problem{ProblemKind::kMalformedRequest, "there is no Host header", "Host"};
  }
  if (!request_.is_http_1_1) request_.expect.clear();  // RFC 9110, 10.1.1.
  if (!request_.expect.empty() && !equals_ignoring_case(request_.expect, "100-continue")) {
    return Problem{ProblemKind::kExpectationFailed, "something else is expected", "Expect",
                   "100-continue"};
  }
  std::optional<Target> target = Target::parse(request_.raw_target);
  if (!target) {
    return Problem{ProblemKind::kMalformedRequest,
                   "the target is not a path with an optional query, percent-encoded"};
  }
  request_.target = std::move(*target);
  return std::nullopt;
}

}  // namespace carillon::server
