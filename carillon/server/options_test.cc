// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace carillon::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const Option& option(std::string_view name) {
  const auto table = option_table();
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Option& o) { return o.name == name; });
  EXPECT_NE(found, table.end()) << name;
  return *found;
}

std::string error_of(std::string_view config) {
  ServerOptions options;
  const Result<void> result = parse_config(config, "c.toml", options);
  return result ? "" : result.error().message;
}

TEST(ServerOptions, DefaultsAreWithinTheirOwnLimits) {
  const ServerOptions defaults;
  std::set<std::string_view> names;
  for (const Option& o : option_table()) {
    EXPECT_TRUE(names.insert(o.name).second) << o.name;
    EXPECT_FALSE(o.help.empty()) << o.name;
    if (o.is_list() || o.value(defaults).empty()) continue;
    ServerOptions options;
    EXPECT_TRUE(o.set(options, o.value(defaults))) << o.name;
    EXPECT_EQ(o.value(options), o.value(defaults)) << o.name;
  }
  EXPECT_TRUE(check_options(defaults));
}

TEST(ServerOptions, ListsAreListsOrOneOrNone) {
  ServerOptions options;
  ASSERT_TRUE(
      parse_config("http-listen = 'none'\nhttps-listen = ['[::1]', ':7']\n"
                   "http-allowed-host = ['a.example', 'b.example']",
                   "c.toml", options));
  EXPECT_EQ(option("http-listen").value(options), "none");
  EXPECT_EQ(option("https-listen").value(options), "[::1]:11380 127.0.0.1:7");
  EXPECT_EQ(option("http-allowed-host").value(options), "a.example b.example");
  EXPECT_THAT(error_of("http-listen = []"), HasSubstr("\"none\""));
  EXPECT_THAT(error_of("listen = 'none'\nlisten = []"), HasSubstr("c.toml:2"));
}

TEST(ServerOptions, HttpBeyondTheLoopbackNeedsTokensOrToBeMeant) {
  const auto says = [](std::string_view text) {
    ServerOptions options;
    EXPECT_TRUE(parse_config(text, "c.toml", options));
    const Result<void> checked = check_options(options);
    return checked ? std::string() : checked.error().message;
  };
  for (const char* local : {"'127.0.0.1:1'", "'127.9.9.9'", "'[::1]'", "'localhost'", "':0'",
                            "'unix:/tmp/x'", "'none'"}) {
    EXPECT_EQ(says(std::string("http-listen = ") + local), "") << local;
  }
  for (const char* remote : {"'0.0.0.0:1'", "'[::]:1'", "'10.0.0.1'", "'localhost.example'"}) {
    const std::string listen = std::string("http-listen = ") + remote + "\n";
    EXPECT_THAT(says(listen), HasSubstr("http-tokens")) << remote;
    EXPECT_EQ(says(listen + "http-insecure = true"), "");
    EXPECT_EQ(says(listen + "http-tokens = 'file'"), "");
  }
  EXPECT_THAT(says("https-listen = ':1'"), HasSubstr("tls-cert and tls-key"));
  EXPECT_THAT(says("tls-key = 'k'"), HasSubstr("without the other"));
  const std::string tls = "tls-key = 'k'\ntls-cert = 'c'\nhttps-listen = '0.0.0.0:1'\n";
  EXPECT_THAT(says(tls), HasSubstr("http-tokens"));
  EXPECT_EQ(says(tls + "tls-client-ca = 'a'"), "");
}

TEST(ServerOptions, ListensOnLoopbackUnlessTold) {
  EXPECT_EQ(option("listen").value(ServerOptions{}), "127.0.0.1:11300");
}

TEST(ServerOptions, ConfigSetsEveryKind) {
  ServerOptions options;
  const Result<void> result = parse_config(R"(
    listen = ["127.0.0.1:1", "unix:/tmp/x"]
    data = "jobs"
    memory = false
    partitions = 4
    max-job-size = "1MiB"
    max-unsent = 2048
    drain-timeout = "90s"
    log-level = "error"
  )",
                                           "c.toml", options);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(option("listen").value(options), "127.0.0.1:1 unix:/tmp/x");
  EXPECT_EQ(options.data, "jobs");
  EXPECT_EQ(options.partitions, 4U);
  EXPECT_EQ(options.max_job_size, 1U << 20);
  EXPECT_EQ(options.max_unsent, 2048U);
  EXPECT_EQ(options.drain_timeout, 90s);
  EXPECT_EQ(options.log_level, "error");
}

TEST(ServerOptions, OneAddressNeedsNoList) {
  ServerOptions options;
  ASSERT_TRUE(parse_config("listen = ':7'", "c.toml", options));
  EXPECT_EQ(option("listen").value(options), "127.0.0.1:7");
}

TEST(ServerOptions, UnknownKeyIsAnErrorThatNamesItAndItsLine) {
  const std::string message = error_of("memory = true\nmax-jobsize = 1\n");
  EXPECT_THAT(message, HasSubstr("c.toml:2"));
  EXPECT_THAT(message, HasSubstr("'max-jobsize'"));
}

TEST(ServerOptions, ValueOutOfRangeIsAnErrorThatNamesTheOptionAndTheLimit) {
  EXPECT_THAT(error_of("partitions = 65"), HasSubstr("partitions: 65 is out of range (1 to 64)"));
  EXPECT_THAT(error_of("partitions = 0"), HasSubstr("1 to 64"));
  EXPECT_THAT(error_of("partitions = -1"), HasSubstr("'-1' is not a number (1 to 64)"));
  EXPECT_THAT(error_of("max-job-size = '2GiB'"), HasSubstr("0 to 1GiB"));
  EXPECT_THAT(error_of("horizon = '1ms'"), HasSubstr("horizon: 1ms is out of range (1s to 1d)"));
  EXPECT_THAT(error_of("log-level = 'loud'"), HasSubstr("debug, info, warning, error, off"));
  EXPECT_THAT(error_of("listen = ['x:99999']"), HasSubstr("listen"));
  EXPECT_THAT(error_of("listen = []"), HasSubstr("listen: is empty"));
  EXPECT_THAT(error_of("data = ''"), HasSubstr("data: is empty"));
}

TEST(ServerOptions, WrongTypeIsAnErrorThatNamesTheOption) {
  EXPECT_THAT(error_of("memory = 1"), HasSubstr("memory: has to be true or false"));
  EXPECT_THAT(error_of("partitions = '4'"), HasSubstr("partitions: has to be a number"));
  EXPECT_THAT(error_of("horizon = 300"), HasSubstr("horizon: has to be a string"));
  EXPECT_THAT(error_of("data = true"), HasSubstr("data: has to be a string"));
  EXPECT_THAT(error_of("max-unsent = [1]"), HasSubstr("max-unsent"));
  for (const char* listen : {"listen = 5", "listen = true", "listen = [1]", "listen = [[':1']]"}) {
    EXPECT_THAT(error_of(listen), HasSubstr("c.toml:1: listen: has to be an address such as"));
  }
  EXPECT_THAT(error_of("listen = '5'"), HasSubstr("listen: address '5': a port alone is written"));
}

TEST(ServerOptions, BrokenFileIsAnErrorThatNamesTheLine) {
  EXPECT_THAT(error_of("memory = true\n= 3\n"), HasSubstr("c.toml:2"));
  ServerOptions options;
  EXPECT_THAT(load_config("/nowhere/c.toml", options).error().message,
              HasSubstr("/nowhere/c.toml"));
}

TEST(ServerOptions, MemoryAndDataExcludeEachOther) {
  ServerOptions options;
  options.memory = true;
  EXPECT_TRUE(check_options(options));
  options.data = "jobs";
  EXPECT_THAT(check_options(options).error().message, HasSubstr("memory and data"));
  // Even if it is the default that is asked for.
  ServerOptions said;
  ASSERT_TRUE(parse_config("memory = true\ndata = 'carillon-data'", "c.toml", said));
  EXPECT_THAT(check_options(said).error().message, HasSubstr("memory and data"));
}

TEST(ServerOptions, WhatMeansNothingInMemoryIsNamed) {
  ServerOptions options;
  ASSERT_TRUE(parse_config("memory = true\nhorizon = '5m'\naccept-loss = false\nmax-tubes = 7",
                           "c.toml", options));
  EXPECT_TRUE(check_options(options));
  EXPECT_THAT(idle_options(options), testing::ElementsAre("horizon has no effect with memory",
                                                          "accept-loss has no effect with memory"));
  options.memory = false;
  EXPECT_THAT(idle_options(options), testing::IsEmpty());
}

TEST(ServerOptions, NulBytesAreRefusedAndTheKeyNamed) {
  EXPECT_THAT(error_of(R"(data = "a\u0000b")"), HasSubstr("data: has a NUL byte"));
  EXPECT_THAT(error_of(R"(listen = "unix:/tmp/a\u0000b")"), HasSubstr("listen: has a NUL byte"));
  EXPECT_THAT(error_of(R"(listen = [":1", "a\u0000b:1"])"), HasSubstr("listen: has a NUL byte"));
  EXPECT_THAT(error_of(R"(log-level = "info\u0000")"), HasSubstr("log-level: has a NUL byte"));
}

TEST(ServerOptions, WhatIsNoFileOfSettingsIsAnErrorThatNamesIt) {
  ServerOptions options;
  EXPECT_THAT(load_config("", options).error().message, HasSubstr("''"));
  const std::string folder = testing::TempDir();
  EXPECT_THAT(load_config(folder, options).error().message, HasSubstr(folder));
  EXPECT_THAT(load_config("/dev/zero", options).error().message, HasSubstr("regular file"));
}

}  // namespace
}  // namespace carillon::server
