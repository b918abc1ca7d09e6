// SPDX-License-Identifier: Apache-2.0
#include "carillon/wheel/internal/index_set.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>

#include "carillon/base/random.h"

namespace carillon::internal {
namespace {

// On which words of each level begin and end.
constexpr std::uint32_t kEdges[] = {0,       1,       63,         64,         4'095,     4'096,
                                    262'143, 262'144, 16'777'215, 16'777'216, 50'000'000};

TEST(IndexSet, GivesTheLowestFirstAcrossAllLevels) {
  IndexSet set(50'000'001);
  set.reserve(50'000'001);
  for (std::size_t i = std::size(kEdges); i-- > 0;) set.put(kEdges[i]);
  for (const std::uint32_t index : kEdges) {
    EXPECT_EQ(set.first(), index);
    set.take(index);
  }
  // Each word that was emptied is found again.
  for (const std::uint32_t index : kEdges) {
    set.put(index);
    EXPECT_EQ(set.first(), index);
    set.take(index);
  }
}

TEST(IndexSet, AgreesWithAStdSet) {
  constexpr std::uint32_t kLimit = 300'000;
  for (const std::uint32_t span : {70U, 5'000U, kLimit}) {
    Random random(span);
    IndexSet set(kLimit);
    set.reserve(kLimit);
    std::set<std::uint32_t> model;
    for (int step = 0; step < 100'000; ++step) {
      const auto index = static_cast<std::uint32_t>(random.below(span));
      if (random.below(2) == 0 && model.insert(index).second) {
        set.put(index);
      } else if (!model.empty()) {
        ASSERT_EQ(set.first(), *model.begin());
        set.take(*model.begin());
        model.erase(model.begin());
      }
    }
  }
}

TEST(IndexSet, GrowsWithoutForgetting) {
  IndexSet set(std::size_t{1} << 26);
  set.reserve(1);
  set.put(0);
  std::size_t bytes = set.bytes();
  for (std::size_t count = 64; count <= std::size_t{1} << 24; count *= 64) {
    set.reserve(count);
    EXPECT_GE(set.bytes(), bytes);
    bytes = set.bytes();
    set.put(static_cast<std::uint32_t>(count - 1));
  }
  for (const std::uint32_t index : {0U, 63U, 4'095U, 262'143U, 16'777'215U}) {
    EXPECT_EQ(set.first(), index);
    set.take(index);
  }
}

}  // namespace
}  // namespace carillon::internal
