// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/internal/linear_table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "carillon/base/random.h"

namespace carillon::internal {
namespace {

struct Node : TableNode<Node> {
  explicit Node(int k, std::uint64_t h) : key(k) { hash = h; }
  int key;
};

// Against std::map, while it grows and shrinks; with hashes that collide, too.
TEST(LinearTable, AgreesWithAMapWhileItGrowsAndShrinks) {
  for (const std::uint64_t distinct : {~std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{300}}) {
    Random random(distinct);
    LinearTable<Node> table;
    std::map<int, std::unique_ptr<Node>> model;
    const auto hash_of = [&](int key) {
      return mix_hash(static_cast<std::uint64_t>(key)) % distinct;
    };
    const auto find = [&](int key) {
      return table.find(hash_of(key), [&](const Node& node) { return node.key == key; });
    };
    std::size_t most = 0;
    for (int step = 0; step < 60'000; ++step) {
      const bool growing = step / 10'000 % 2 == 0;
      const int key = static_cast<int>(random.below(4000));
      if (random.below(10) < (growing ? 8U : 2U)) {
        if (!model.contains(key)) {
          model[key] = std::make_unique<Node>(key, hash_of(key));
          table.insert(*model[key]);
        }
      } else if (auto found = model.find(key); found != model.end()) {
        table.remove(*found->second);
        model.erase(found);
      }
      ASSERT_EQ(table.size(), model.size());
      const int other = static_cast<int>(random.below(4000));
      ASSERT_EQ(find(other), model.contains(other) ? model[other].get() : nullptr);
      most = std::max(most, table.lists());
    }
    EXPECT_GT(most, 1000U);
    std::set<int> seen;
    table.for_each([&](Node& node) { EXPECT_TRUE(seen.insert(node.key).second); });
    EXPECT_EQ(seen.size(), model.size());
    for (auto& [key, node] : model) {
      table.remove(*node);
    }
    EXPECT_EQ(table.lists(), LinearTable<Node>::kFewest);
  }
}

TEST(LinearTable, ForEachMayRemoveEach) {
  LinearTable<Node> table;
  for (int i = 0; i < 1000; ++i) {
    table.insert(*new Node(i, mix_hash(static_cast<std::uint64_t>(i))));
  }
  int visited = 0;
  table.for_each([&](Node& node) {
    ++visited;
    table.remove(node);
    delete &node;
  });
  EXPECT_EQ(visited, 1000);
  EXPECT_EQ(table.size(), 0U);
}

// However many are in it, an insert moves the nodes of one list at most.
TEST(LinearTable, AddsOneListAnInsert) {
  LinearTable<Node> table;
  std::vector<std::unique_ptr<Node>> nodes;
  for (int i = 0; i < 5000; ++i) {
    const std::size_t before = table.lists();
    nodes.push_back(std::make_unique<Node>(i, mix_hash(static_cast<std::uint64_t>(i))));
    table.insert(*nodes.back());
    ASSERT_LE(table.lists(), before + 1);
    ASSERT_GE(table.lists() + 1, table.size());
  }
}

}  // namespace
}  // namespace carillon::internal
