// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/address_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace carillon::server {
namespace {

using testing::HasSubstr;

IpAddress address(const std::string& text) {
  const std::optional<IpAddress> parsed = IpAddress::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(IpAddress());
}

AddressPolicy allowing(std::initializer_list<std::string_view> blocks) {
  std::vector<AddressBlock> allowed;
  for (const std::string_view text : blocks) {
    Result<AddressBlock> block = AddressBlock::parse(text);
    EXPECT_TRUE(block) << text;
    if (block) allowed.push_back(*block);
  }
  return AddressPolicy(std::move(allowed));
}

TEST(AddressPolicy, RefusesWhatIsNotPublic) {
  const std::pair<const char*, const char*> cases[] = {
      {"0.0.0.0", "this host"},
      {"0.1.2.3", "this host"},
      {"10.255.255.255", "private"},
      {"100.64.0.1", "shared"},
      {"100.127.255.255", "shared"},
      {"127.0.0.1", "loopback"},
      {"127.255.0.3", "loopback"},
      {"169.254.169.254", "link-local"},
      {"172.16.0.1", "private"},
      {"172.31.255.255", "private"},
      {"192.0.0.8", "protocol"},
      {"192.0.2.1", "documentation"},
      {"192.88.99.1", "tunnel"},
      {"192.168.1.1", "private"},
      {"198.18.0.1", "benchmarking"},
      {"198.19.255.255", "benchmarking"},
      {"198.51.100.9", "documentation"},
      {"203.0.113.9", "documentation"},
      {"224.0.0.1", "multicast"},
      {"239.255.255.250", "multicast"},
      {"240.0.0.1", "reserved"},
      {"255.255.255.255", "reserved"},
      {"::", "this host"},
      {"::1", "loopback"},
      {"::ffff:127.0.0.1", "loopback"},
      {"::ffff:10.0.0.1", "private"},
      {"::127.0.0.1", "not a public"},
      {"64:ff9b::7f00:1", "loopback"},
      {"64:ff9b::a9fe:a9fe", "link-local"},
      {"64:ff9b:1::1", "not a public"},
      {"100::1", "not a public"},
      {"2001::1", "protocol"},
      {"2001:db8::1", "documentation"},
      {"2002:7f00:1::1", "tunnel"},
      {"3fff::1", "documentation"},
      {"4000::1", "not a public"},
      {"fc00::1", "unique local"},
      {"fd12:3456::1", "unique local"},
      {"fe80::1", "link-local"},
      {"fec0::1", "not a public"},
      {"ff02::1", "multicast"},
  };
  const AddressPolicy policy;
  for (const auto& [text, why] : cases) {
    const std::optional<std::string_view> refusal = policy.refusal(address(text));
    ASSERT_TRUE(refusal) << text;
    EXPECT_THAT(std::string(*refusal), HasSubstr(why)) << text;
  }
}

TEST(AddressPolicy, PermitsPublicAddresses) {
  const AddressPolicy policy;
  for (const char* text :
       {"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.1", "172.15.255.255", "172.32.0.0", "192.167.255.255", "198.17.255.255",
        "223.255.255.255", "::ffff:8.8.8.8", "64:ff9b::808:808", "2001:200::1", "2003::1",
        "2606:4700::1111", "2a00::1", "3ffe::1"}) {
    EXPECT_FALSE(policy.refusal(address(text))) << text;
  }
}

TEST(AddressPolicy, PermitsWhatIsAllowedAndNothingElse) {
  const AddressPolicy policy = allowing({"127.0.0.1", "10.1.0.0/16", "fd00::/8"});
  EXPECT_FALSE(policy.refusal(address("127.0.0.1")));
  EXPECT_FALSE(policy.refusal(address("::ffff:127.0.0.1")));
  EXPECT_TRUE(policy.refusal(address("127.0.0.2")));
  EXPECT_FALSE(policy.refusal(address("10.1.255.1")));
  EXPECT_TRUE(policy.refusal(address("10.2.0.1")));
  EXPECT_FALSE(policy.refusal(address("fd00::1")));
  EXPECT_TRUE(policy.refusal(address("fc00::1")));
  EXPECT_TRUE(policy.refusal(address("::1")));
  EXPECT_FALSE(policy.refusal(address("1.1.1.1")));
}

TEST(AddressPolicy, AllOfIpv6IsNotAllOfIpv4) {
  const AddressPolicy six = allowing({"::/0"});
  EXPECT_FALSE(six.refusal(address("::1")));
  EXPECT_TRUE(six.refusal(address("127.0.0.1")));
  const AddressPolicy four = allowing({"0.0.0.0/0"});
  EXPECT_FALSE(four.refusal(address("127.0.0.1")));
  EXPECT_TRUE(four.refusal(address("::1")));
}

TEST(AddressBlock, ReadsAndWritesItself) {
  for (const char* text :
       {"10.0.0.0/8", "127.0.0.1/32", "0.0.0.0/0", "fd00::/8", "::/0", "::1/128"}) {
    const Result<AddressBlock> block = AddressBlock::parse(text);
    ASSERT_TRUE(block) << text;
    EXPECT_EQ(block->to_string(), text);
  }
}

TEST(AddressBlock, RefusesWhatIsNotOne) {
  for (const char* text :
       {"", "/8", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/8x", "10.0.0.1/8", "10/8",
        "127.1", "fd00::/129", "fd00::1/8", "localhost", "fe80::1%lo/64"}) {
    EXPECT_FALSE(AddressBlock::parse(text)) << text;
  }
}

}  // namespace
}  // namespace carillon::server
