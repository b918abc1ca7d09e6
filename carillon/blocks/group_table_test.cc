// SPDX-License-Identifier: Apache-2.0
#include "carillon/blocks/internal/group_table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <new>
#include <set>
#include <stdexcept>

#include "carillon/base/random.h"
#include "carillon/blocks/internal/mix_hash.h"

namespace carillon::internal {
namespace {

// A key, the hash it was given, and something that a leak or a double free shows.
struct Entry {
  Entry(int k, std::uint64_t h) : key(k), hash(h), copy(std::make_unique<int>(k)) {}
  int key;
  std::uint64_t hash;
  std::unique_ptr<int> copy;
};
struct HashOf {
  std::uint64_t operator()(const Entry& entry) const noexcept { return entry.hash; }
};
using Table = GroupTable<Entry, HashOf>;

constexpr auto kNone = [](const Entry&) { return false; };
constexpr auto kAll = [](const Entry&) { return true; };

std::uint64_t hash_of(int key) { return mix_hash(static_cast<std::uint64_t>(key)); }

const Entry* find(const Table& table, int key, std::uint64_t hash) {
  return table.find(hash, [&](const Entry& entry) { return entry.key == key; });
}

// As the limiters do: a little upkeep for each insert.
void insert(Table& table, int key, std::uint64_t hash) {
  Table::Memory unused;
  table.tend(2, unused, kNone);
  table.insert(hash, [&](void* address) { new (address) Entry(key, hash); });
}

void finish_moving(Table& table) {
  while (table.moves()) {
    Table::Memory unused;
    table.tend(1, unused, kNone);
  }
}

// Against std::map, while it grows and shrinks; with hashes that collide, too.
TEST(GroupTable, AgreesWithAMapWhileItGrowsAndShrinks) {
  for (const std::uint64_t distinct : {~std::uint64_t{0}, std::uint64_t{7}, std::uint64_t{300}}) {
    Random random(distinct);
    Table table;
    std::map<int, std::uint64_t> model;
    const auto hash_of_key = [&](int key) { return mix_hash(hash_of(key) % distinct); };
    const int keys = distinct < 10 ? 400 : 4000;
    std::size_t most = 0;
    for (int step = 0; step < 60'000; ++step) {
      const bool growing = step / 10'000 % 2 == 0;
      const int key = static_cast<int>(random.below(static_cast<std::uint64_t>(keys)));
      if (random.below(20) < (growing ? 16U : 1U)) {
        if (!model.contains(key)) {
          model[key] = hash_of_key(key);
          insert(table, key, model[key]);
        }
      } else {
        // An entry is erased by the upkeep only: this one alone is over.
        const auto is_it = [&](const Entry& entry) { return entry.key == key; };
        std::size_t erased = table.sweep(0, Table::kWhole, is_it);
        for (bool more = erased == 0 && table.moves(); more; more = table.moves()) {
          Table::Memory unused;
          erased += table.tend(3, unused, is_it);
        }
        ASSERT_EQ(erased, model.erase(key));
        Table::Memory unused;
        table.tend(1, unused, kNone);
      }
      ASSERT_EQ(table.size(), model.size());
      const int other = static_cast<int>(random.below(static_cast<std::uint64_t>(keys)));
      const Entry* found = find(table, other, hash_of_key(other));
      ASSERT_EQ(found != nullptr, model.contains(other));
      ASSERT_TRUE(found == nullptr || (found->key == other && *found->copy == other));
      most = std::max(most, table.groups());
    }
    for (const auto& [key, hash] : model) {
      ASSERT_NE(find(table, key, hash), nullptr);
    }
    EXPECT_GT(most, static_cast<std::size_t>(keys / 10));
    EXPECT_LT(table.groups(), most) << "it shrinks";
  }
}

// A search ends, and finds what there is, when hundreds have gone past a group.
TEST(GroupTable, AThousandOfOneHash) {
  Table table;
  for (int key = 0; key < 1000; ++key) {
    insert(table, key, 7);
  }
  for (int key = 0; key < 1000; ++key) {
    ASSERT_NE(find(table, key, 7), nullptr);
  }
  EXPECT_EQ(find(table, 1000, 7), nullptr);
  EXPECT_EQ(table.sweep(0, Table::kWhole, [](const Entry& entry) { return entry.key % 2 == 0; }) +
                table.size(),
            1000U);
  finish_moving(table);
  for (int key = 1; key < 1000; key += 2) {
    ASSERT_NE(find(table, key, 7), nullptr);
  }
}

// What was inserted between is found, in whichever array it is, and what is over does not move.
TEST(GroupTable, FindsEntriesWhileTheyMove) {
  Table table;
  int key = 0;
  while (!table.moves() || table.groups() < 1000) {
    insert(table, key, hash_of(key));
    ++key;
  }
  std::size_t erased = 0;
  std::size_t steps = 0;
  const auto is_fifth = [](const Entry& entry) { return entry.key % 5 == 0; };
  for (; table.moves(); ++steps) {
    for (int other = static_cast<int>(steps) % 7; other < key; other += 7) {
      const bool lives = find(table, other, hash_of(other)) != nullptr;
      ASSERT_TRUE(lives || other % 5 == 0);
    }
    Table::Memory unused;
    erased += table.tend(16, unused, is_fifth);
  }
  EXPECT_GT(steps, 30U) << "a few groups at a time";
  erased += table.sweep(0, Table::kWhole, is_fifth);
  EXPECT_EQ(erased, static_cast<std::size_t>((key + 4) / 5));
  EXPECT_EQ(table.size(), static_cast<std::size_t>(key) - erased);
}

// Also when the table grows or shrinks between its parts.
TEST(GroupTable, ASweepInPartsMeetsEachEntry) {
  for (const std::uint64_t parts : {1U, 3U, 64U, 1000U}) {
    Table table;
    for (int key = 0; key < 5000; ++key) {
      insert(table, key, hash_of(key));
    }
    const auto is_old = [](const Entry& entry) { return entry.key < 5000; };
    std::size_t erased = 0;
    const std::uint64_t part = Table::kWhole / parts;
    int key = 5000;
    for (std::uint64_t from = 0; from < Table::kWhole; from += part) {
      erased += table.sweep(from, std::min(from + part, Table::kWhole), is_old);
      for (int i = 0; i < 20; ++i, ++key) {
        Table::Memory unused;
        erased += table.tend(2, unused, is_old);
        insert(table, key, hash_of(key));
      }
    }
    do {
      Table::Memory unused;
      erased += table.tend(1, unused, is_old);
    } while (table.moves());
    EXPECT_EQ(erased, 5000U);
    EXPECT_EQ(table.size(), static_cast<std::size_t>(key - 5000));
  }
}

TEST(GroupTable, AnEntryThatCannotBeMadeLeavesNoTrace) {
  Table table;
  for (int key = 0; key < 100; ++key) {
    insert(table, key, 7);
  }
  EXPECT_THROW(table.insert(7, [](void*) { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(table.size(), 100U);
  insert(table, 100, 7);
  EXPECT_NE(find(table, 100, 7), nullptr);
}

TEST(GroupTable, GivesItsMemoryBackWhenItIsEmpty) {
  Table table;
  for (int key = 0; key < 100'000; ++key) {
    insert(table, key, hash_of(key));
  }
  EXPECT_LT(table.groups(), 100'000U / 3) << "at least three of seven are in use";
  EXPECT_EQ(table.sweep(0, Table::kWhole, kAll) + table.size(), 100'000U);
  for (int i = 0; i < 2000 && table.groups() > Table::kFewestGroups; ++i) {
    Table::Memory unused;
    table.tend(64, unused, kAll);
  }
  EXPECT_EQ(table.size(), 0U);
  EXPECT_EQ(table.groups(), Table::kFewestGroups);
}

}  // namespace
}  // namespace carillon::internal
