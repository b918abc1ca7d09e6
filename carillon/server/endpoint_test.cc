// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace carillon::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(Endpoint, ReadsEveryForm) {
  const auto read = [](std::string_view text) { return Endpoint::parse(text)->to_string(); };
  EXPECT_EQ(read("127.0.0.1:7"), "127.0.0.1:7");
  EXPECT_EQ(read("localhost"), "localhost:11300");
  EXPECT_EQ(read(":7"), "127.0.0.1:7");
  EXPECT_EQ(read("[::1]:7"), "[::1]:7");
  EXPECT_EQ(read("[::1]"), "[::1]:11300");
  EXPECT_EQ(read("host:0"), "host:0");
  EXPECT_EQ(read("unix:/tmp/a:b"), "unix:/tmp/a:b");
  EXPECT_EQ(read("10.0.0.1"), "10.0.0.1:11300");
  EXPECT_EQ(read("[fe80::1%lo]:7"), "[fe80::1%lo]:7");
  EXPECT_EQ(read("0x.example"), "0x.example:11300");
  EXPECT_EQ(read("7eleven:7"), "7eleven:7");
}

TEST(Endpoint, RefusesWhatIsNoneAndQuotesIt) {
  for (const char* text :
       {"", "host:", "host:x", "host:65536", "host:-1", "::1", "[::1", "[::1]7", "unix:"}) {
    const Result<Endpoint> endpoint = Endpoint::parse(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(endpoint.error().message, HasSubstr("'" + std::string(text) + "'"));
  }
}

TEST(Endpoint, ANumberIsNoHostAndAShortIpv4AddressNone) {
  for (const char* text : {"0", "5", "11300", "0:7", "2130706433:7", "0x7f000001", "0x7f000001:7",
                           "127.1", "127.1:7", "1.2.3", "1.2.3.256", "1.2.3.4.5", "010.0.0.1",
                           "localhost.7", "0.", "[0]:7", "[127.0.0.1]:7", "[]:7", "[host]:7"}) {
    const Result<Endpoint> endpoint = Endpoint::parse(text);
    ASSERT_FALSE(endpoint) << text;
    EXPECT_EQ(endpoint.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(endpoint.error().message, HasSubstr("'" + std::string(text) + "'"));
  }
  EXPECT_THAT(Endpoint::parse("11300").error().message, HasSubstr(":PORT"));
}

TEST(Endpoint, PortZeroListensOnAFreeOneAndSaysWhich) {
  Result<std::vector<ListeningSocket>> sockets = listen_on(*Endpoint::parse("127.0.0.1:0"));
  ASSERT_TRUE(sockets);
  ASSERT_EQ(sockets->size(), 1U);
  EXPECT_NE(sockets->front().at.port, 0);
  EXPECT_TRUE(connect_to(sockets->front().at, 5s));
  // It is taken now.
  const Result<std::vector<ListeningSocket>> again = listen_on(sockets->front().at);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, HasSubstr(sockets->front().at.to_string()));
}

TEST(Endpoint, ConnectingWhereNobodyListensIsAnError) {
  Result<std::vector<ListeningSocket>> sockets = listen_on(*Endpoint::parse("127.0.0.1:0"));
  ASSERT_TRUE(sockets);
  const Endpoint at = sockets->front().at;
  sockets->clear();
  const Result<FileDescriptor> socket = connect_to(at, 5s);
  ASSERT_FALSE(socket);
  EXPECT_EQ(socket.error().code, ErrorCode::kUnavailable);
}

class UnixEndpoint : public testing::Test {
 protected:
  UnixEndpoint() {
    std::string name = testing::TempDir() + "carillon-XXXXXX";
    folder_ = mkdtemp(name.data());
    at_.path = folder_ / "socket";
  }
  ~UnixEndpoint() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
  Endpoint at_;
};

TEST_F(UnixEndpoint, IsListenedOnAndConnectedTo) {
  const Result<std::vector<ListeningSocket>> sockets = listen_on(at_);
  ASSERT_TRUE(sockets) << sockets.error().message;
  EXPECT_TRUE(connect_to(at_, 5s));
}

TEST_F(UnixEndpoint, ASocketFileLeftBehindIsReplaced) {
  ASSERT_TRUE(listen_on(at_));  // Closed at once; the file stays, as after a kill.
  ASSERT_TRUE(std::filesystem::exists(at_.path));
  EXPECT_TRUE(listen_on(at_));
}

TEST_F(UnixEndpoint, OneInUseIsAnError) {
  const Result<std::vector<ListeningSocket>> sockets = listen_on(at_);
  ASSERT_TRUE(sockets);
  const Result<std::vector<ListeningSocket>> again = listen_on(at_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
}

TEST_F(UnixEndpoint, OneWhoseQueueIsFullIsInUse) {
  const FileDescriptor busy(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  at_.path.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* const where = reinterpret_cast<const sockaddr*>(&address);
  ASSERT_EQ(bind(busy.get(), where, sizeof address), 0);
  ASSERT_EQ(listen(busy.get(), 0), 0);
  std::vector<FileDescriptor> waiting;
  do {
    waiting.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0));
    ASSERT_LT(waiting.size(), 100U);
  } while (connect(waiting.back().get(), where, sizeof address) == 0);
  ASSERT_EQ(errno, EAGAIN);
  const Result<std::vector<ListeningSocket>> again = listen_on(at_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::exists(at_.path));
}

TEST_F(UnixEndpoint, OneOfAnotherTypeIsLeftAlone) {
  const FileDescriptor other(socket(AF_UNIX, SOCK_DGRAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  at_.path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_FALSE(listen_on(at_));
  EXPECT_TRUE(std::filesystem::exists(at_.path));
}

TEST_F(UnixEndpoint, ItsPathIsItsOwnUntilAnotherTakesIt) {
  const Result<std::vector<ListeningSocket>> sockets = listen_on(at_);
  ASSERT_TRUE(sockets);
  EXPECT_TRUE(sockets->front().owns_path());
  std::filesystem::rename(at_.path, at_.path + ".old");  // Keeps its inode from being reused.
  EXPECT_FALSE(sockets->front().owns_path());
  ASSERT_TRUE(listen_on(at_));
  EXPECT_FALSE(sockets->front().owns_path());
}

TEST_F(UnixEndpoint, AnotherKindOfFileIsLeftAlone) {
  std::ofstream(at_.path) << "precious";
  const Result<std::vector<ListeningSocket>> sockets = listen_on(at_);
  ASSERT_FALSE(sockets);
  EXPECT_THAT(sockets.error().message, HasSubstr("is not a socket"));
  EXPECT_TRUE(std::filesystem::exists(at_.path));
}

TEST_F(UnixEndpoint, TooLongAPathIsAnErrorThatNamesTheLimit) {
  at_.path = "/tmp/" + std::string(200, 'x');
  EXPECT_THAT(listen_on(at_).error().message, HasSubstr("107"));
}

}  // namespace
}  // namespace carillon::server
