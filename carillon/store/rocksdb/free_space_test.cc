// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/free_space.h"

#include <gtest/gtest.h>

#include <limits>

namespace carillon::store {
namespace {

using namespace std::chrono_literals;

TEST(FreeSpace, IsEnoughFromTheLimitOn) {
  std::uint64_t free = 100;
  const FreeSpace space("/", 100, Span(0), [&free] { return free; });
  EXPECT_TRUE(space.enough());
  free = 99;
  EXPECT_FALSE(space.enough());
  EXPECT_EQ(space.bytes(), 99U);
  free = 101;
  EXPECT_TRUE(space.enough());
}

TEST(FreeSpace, RemembersTheAnswerForAnInterval) {
  int asked = 0;
  const FreeSpace space("/", 100, Span(24h), [&asked] {
    ++asked;
    return std::uint64_t{100};
  });
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(space.enough());
  EXPECT_LE(asked, 2) << "once when made, once when first asked for";
}

TEST(FreeSpace, IsNotAskedForWithoutALimit) {
  int asked = 0;
  const FreeSpace space("/", 0, Span(0), [&asked] {
    ++asked;
    return std::uint64_t{0};
  });
  const int before = asked;
  EXPECT_TRUE(space.enough());
  EXPECT_EQ(asked, before);
}

TEST(FreeSpace, ComesFromTheSystemByDefault) {
  const FreeSpace space("/", 1, Span(0), nullptr);
  EXPECT_TRUE(space.enough());
  EXPECT_LT(space.bytes(), std::numeric_limits<std::uint64_t>::max());
  // What cannot be asked is not full.
  EXPECT_TRUE(FreeSpace("/no/such/folder", 1, Span(0), nullptr).enough());
}

}  // namespace
}  // namespace carillon::store
