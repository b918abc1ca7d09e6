// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/response_reader.h"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <cstdint>
#include <utility>

namespace carillon::server {

namespace http = boost::beast::http;
using boost::beast::error_code;

namespace {

constexpr int kLeastFinal = 200;
constexpr int kMostFinal = 599;
constexpr int kSwitchingProtocols = 101;

}  // namespace

/// Beast's parser with a hole for a body.
class ResponseReader::Parser final : public http::basic_parser<false> {
 public:
  Parser() {
    header_limit(kMaxHead);
    body_limit(UINT64_MAX);  // Counted here, since what is too long is no error.
    eager(true);
  }

  int status = 0;
  bool head_complete = false;
  std::size_t body_size = 0;
  std::string retry_after;

 private:
  using View = boost::beast::string_view;

  void on_request_impl(http::verb, View, View, int, error_code&) override {}
  void on_response_impl(int code, View, int, error_code&) override { status = code; }
  void on_field_impl(http::field name, View, View value, error_code&) override {
    if (name == http::field::retry_after && retry_after.empty()) {
      retry_after.assign(value.data(), value.size());
    }
  }
  void on_header_impl(error_code&) override { head_complete = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(View body, error_code&) override {
    body_size += body.size();
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, View extensions, error_code&) override {
    body_size += extensions.size();
  }
  std::size_t on_chunk_body_impl(std::uint64_t, View body, error_code&) override {
    body_size += body.size();
    return body.size();
  }
  void on_finish_impl(error_code&) override {}
};

ResponseReader::ResponseReader() : parser_(std::make_unique<Parser>()) {}
ResponseReader::~ResponseReader() = default;

ResponseReader::State ResponseReader::receive(std::string_view bytes) {
  if (!bytes.empty()) begun_ = true;
  if (state_ == State::kBroken) return state_;
  input_.append(bytes);
  if (state_ != State::kFinished) parse();
  return state_;
}

void ResponseReader::parse() {
  std::size_t taken = 0;
  while (taken < input_.size() && state_ != State::kFinished && state_ != State::kBroken) {
    error_code error;
    const std::size_t used =
        parser_->put(boost::asio::buffer(input_.data() + taken, input_.size() - taken), error);
    taken += used;
    if (error && error != http::error::need_more) {
      fail(error.message());
      return;
    }
    if (parser_->head_complete && state_ == State::kHead) {
      const int status = parser_->status;
      if (status < kLeastFinal && status != kSwitchingProtocols && parser_->is_done()) {
        if (++interim_ > kMaxInterim) {
          fail("too many interim responses");
          return;
        }
        parser_ = std::make_unique<Parser>();
        continue;
      }
      if (status < kLeastFinal || status > kMostFinal) {
        fail("a status that means nothing");
        return;
      }
      state_ = State::kBody;
    }
    if (parser_->is_done()) {
      state_ = State::kFinished;
    } else if (parser_->body_size > kMaxBody) {
      fail("a body that is too long");
      return;
    } else if (used == 0) {
      break;
    }
  }
  input_.erase(0, taken);
  // A chunk's header has a limit of Beast's own, but not one for the lines of a trailer.
  if (state_ == State::kBody && input_.size() > kMaxHead) fail("a trailer that is too long");
}

ResponseReader::State ResponseReader::end_input() {
  if (state_ == State::kFinished || state_ == State::kBroken) return state_;
  error_code error = http::error::partial_message;
  if (parser_->got_some()) parser_->put_eof(error = {});
  if (error) return fail("closed before its end");
  state_ = State::kFinished;
  return state_;
}

ResponseReader::State ResponseReader::fail(std::string why) {
  state_ = State::kBroken;
  error_ = std::move(why);
  input_.clear();
  return state_;
}

ResponseReader::State ResponseReader::state() const noexcept { return state_; }
bool ResponseReader::has_begun() const noexcept { return begun_; }

int ResponseReader::status() const noexcept {
  const int status = parser_->head_complete ? parser_->status : 0;
  return status >= kLeastFinal && status <= kMostFinal ? status : 0;
}

const std::string& ResponseReader::retry_after() const noexcept {
  static const std::string none;
  return status() == 0 ? none : parser_->retry_after;
}

bool ResponseReader::can_reuse_connection() const noexcept {
  return state_ == State::kFinished && input_.empty() && parser_->keep_alive() &&
         !parser_->need_eof();
}

const std::string& ResponseReader::error() const noexcept { return error_; }

}  // namespace carillon::server
