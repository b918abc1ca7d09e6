// SPDX-License-Identifier: Apache-2.0
// An HTTP endpoint on Boost.Beast that takes five requests in ten seconds from each client, and
// answers 429 with Retry-After to the rest. The program is its own client; the limiter's clock is
// moved by hand, so that ten seconds take no time here.

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "carillon/base/clock.h"
#include "carillon/blocks/sliding_window_limiter.h"

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

class Endpoint {
 public:
  explicit Endpoint(const carillon::Clock& clock)
      : limiter_({.limit = 5, .window = 10s, .common = {.max_keys = 100'000, .clock = &clock}}) {}

  // A client is whoever presents the same token; without one, the same address.
  Response answer(const Request& request, const std::string& address) {
    const auto token = request[http::field::authorization];
    const std::string client = token.empty() ? address : std::string(token);
    const carillon::Admission admission = limiter_.try_acquire(client);
    Response response(admission ? http::status::ok : http::status::too_many_requests, 11);
    response.set("RateLimit-Remaining", std::to_string(admission.remaining));
    if (admission) {
      response.body() = "hello\n";
    } else if (admission.table_full) {
      response.result(http::status::service_unavailable);
    } else {
      // Whole seconds on the wire: rounded up, or the client would come back too early.
      const auto seconds = std::chrono::ceil<std::chrono::seconds>(admission.retry_after);
      response.set(http::field::retry_after, std::to_string(seconds.count()));
    }
    response.keep_alive(request.keep_alive());
    response.prepare_payload();
    return response;
  }

 private:
  carillon::SlidingWindowLimiter<> limiter_;
};

// Answers one connection until the client closes it.
void serve(tcp::acceptor& acceptor, Endpoint& endpoint) {
  tcp::socket socket = acceptor.accept();
  const std::string address = socket.remote_endpoint().address().to_string();
  beast::flat_buffer buffer;
  for (;;) {
    Request request;
    beast::error_code error;
    http::read(socket, buffer, request, error);
    if (error) return;
    http::write(socket, endpoint.answer(request, address));
  }
}

}  // namespace

int main() {
  carillon::ManualClock clock;
  Endpoint endpoint(clock);
  asio::io_context io;
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  std::jthread server([&] { serve(acceptor, endpoint); });

  tcp::socket socket(io);
  socket.connect(acceptor.local_endpoint());
  beast::flat_buffer buffer;
  const auto ask = [&](const char* client) {
    Request request(http::verb::get, "/", 11);
    request.set(http::field::host, "127.0.0.1");
    request.set(http::field::authorization, client);
    http::write(socket, request);
    Response response;
    http::read(socket, buffer, response);
    std::printf("%2ds %-5s %u", static_cast<int>(clock.now().time_since_epoch() / 1s), client,
                response.result_int());
    if (response.count(http::field::retry_after) > 0) {
      const std::string after(response[http::field::retry_after]);
      std::printf(", retry after %s s", after.c_str());
    }
    std::printf("\n");
  };
  for (int i = 0; i < 6; ++i, clock.advance(1s)) ask("alice");
  ask("bob");  // another client, another limit
  clock.advance(4s);
  ask("alice");  // her first request is ten seconds old
  socket.shutdown(tcp::socket::shutdown_both);
}
