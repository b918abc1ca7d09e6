// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests of the poster: a server on loopback that does with each connection what it is told.

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "carillon/base/mutex.h"
#include "carillon/server/webhook/http_poster.h"

namespace carillon::server {

/// A connection as the server has it. Blocking; an error is an exception, which ends the script.
class ServerSide {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  ServerSide(Socket socket, boost::asio::ssl::context* tls) : socket_(std::move(socket)) {
    if (tls == nullptr) return;
    tls_.emplace(socket_, *tls);
    tls_->handshake(boost::asio::ssl::stream_base::server);
  }

  struct Request {
    std::string line;
    std::map<std::string, std::string> fields;
    std::string body;
  };
  /// Up to the end of the head.
  Request read_head() {
    while (input_.find("\r\n\r\n") == std::string::npos) receive();
    const std::size_t end = input_.find("\r\n\r\n");
    Request request;
    std::size_t from = input_.find("\r\n");
    request.line = input_.substr(0, from);
    while (from < end) {
      const std::size_t to = input_.find("\r\n", from + 2);
      const std::string field = input_.substr(from + 2, to - from - 2);
      const std::size_t colon = field.find(": ");
      request.fields[field.substr(0, colon)] = field.substr(colon + 2);
      from = to;
    }
    input_.erase(0, end + 4);
    return request;
  }
  Request read_request() {
    Request request = read_head();
    const std::size_t size = std::stoul(request.fields.at("Content-Length"));
    while (input_.size() < size) receive();
    request.body = input_.substr(0, size);
    input_.erase(0, size);
    return request;
  }
  void send(const std::string& bytes) {
    if (tls_) {
      boost::asio::write(*tls_, boost::asio::buffer(bytes));
    } else {
      boost::asio::write(socket_, boost::asio::buffer(bytes));
    }
  }
  void answer(int status, const std::string& fields = {}) {
    send("HTTP/1.1 " + std::to_string(status) + " X\r\n" + fields + "Content-Length: 0\r\n\r\n");
  }
  /// Until the client closes.
  void wait_for_end() {
    try {
      while (true) receive();
    } catch (const std::exception&) {
    }
  }

 private:
  void receive() {
    char bytes[4'096];
    const std::size_t got = tls_ ? tls_->read_some(boost::asio::buffer(bytes))
                                 : socket_.read_some(boost::asio::buffer(bytes));
    input_.append(bytes, got);
  }

  Socket socket_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
  std::string input_;
};

/// Lifetime: its clients have to be gone, or their connections closed, before it is destroyed.
class ScriptedServer {
 public:
  using Script = std::function<void(ServerSide&)>;

  explicit ScriptedServer(Script script, boost::asio::ssl::context* tls = nullptr)
      : script_(std::move(script)),
        tls_(tls),
        acceptor_(loop_, {boost::asio::ip::make_address("127.0.0.1"), 0}),
        thread_([this] { accept(); }) {}
  ~ScriptedServer() {
    stopping_ = true;
    // Wakes the accept.
    boost::system::error_code ignored;
    boost::asio::ip::tcp::socket(loop_).connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  [[nodiscard]] std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  [[nodiscard]] int connections() const { return connections_; }

 private:
  void accept() {
    while (true) {
      boost::asio::ip::tcp::socket socket = acceptor_.accept();
      if (stopping_) return;
      ++connections_;
      threads_.emplace_back([this, socket = std::move(socket)]() mutable {
        try {
          ServerSide side(std::move(socket), tls_);
          script_(side);
        } catch (const std::exception&) {
          // The client has gone.
        }
      });
    }
  }

  const Script script_;
  boost::asio::ssl::context* const tls_;
  boost::asio::io_context loop_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> connections_ = 0;
  std::vector<std::thread> threads_;  // Of the accepting thread until it has ended.
  std::thread thread_;
};

/// A poster whose outcomes are waited for.
class PosterUnderTest {
 public:
  explicit PosterUnderTest(HttpPosterOptions options) {
    Result<std::unique_ptr<HttpPoster>> started =
        HttpPoster::start(options, calendar_, [this](PostId id, PostOutcome outcome) {
          const MutexLock lock(mutex_);
          outcomes_[id].push_back(std::move(outcome));
          arrived_.notify_all();
        });
    if (!started) throw std::runtime_error(started.error().message);
    poster_ = std::move(*started);
  }
  explicit PosterUnderTest(std::initializer_list<std::string_view> allowed)
      : PosterUnderTest(options_of(allowed)) {}

  static HttpPosterOptions options_of(std::initializer_list<std::string_view> allowed) {
    HttpPosterOptions options;
    options.policy = policy_of(allowed);
    return options;
  }
  static AddressPolicy policy_of(std::initializer_list<std::string_view> blocks) {
    std::vector<AddressBlock> allowed;
    for (const std::string_view text : blocks) allowed.push_back(AddressBlock::parse(text).value());
    return AddressPolicy(std::move(allowed));
  }

  HttpPoster& operator*() { return *poster_; }
  HttpPoster* operator->() { return poster_.get(); }
  /// Ends it as its destructor does.
  void stop() { poster_.reset(); }

  /// To `url`, a job of number `id`.
  static Post make(PostId id, const std::string& url, std::string_view body = "body") {
    PostTarget target;
    target.url = WebhookUrl::parse(url).value();
    target.timeout = std::chrono::seconds(20);
    Post post;
    post.id = id;
    post.target = std::make_shared<const PostTarget>(std::move(target));
    post.tube = "tube";
    post.job = 100 + id;
    post.body = broker::Body(body);
    return post;
  }

  PostOutcome outcome_of(PostId id) {
    const MutexLock lock(mutex_);
    while (outcomes_[id].empty()) arrived_.wait(mutex_);
    return outcomes_[id].front();
  }
  std::size_t outcomes(PostId id) {
    const MutexLock lock(mutex_);
    return outcomes_[id].size();
  }
  PostOutcome post(PostId id, const std::string& url, std::string_view body = "body") {
    poster_->post(make(id, url, body));
    return outcome_of(id);
  }
  ManualCalendar& calendar() { return calendar_; }

 private:
  ManualCalendar calendar_{WallTime(std::chrono::seconds(1'700'000'000))};
  Mutex mutex_;
  CondVar arrived_;
  std::map<PostId, std::vector<PostOutcome>> outcomes_ CARILLON_GUARDED_BY(mutex_);
  std::unique_ptr<HttpPoster> poster_;
};

}  // namespace carillon::server
