// SPDX-License-Identifier: Apache-2.0
#pragma once

// A hash table that never stops to rehash: it grows and shrinks by one list at a time (linear
// hashing; W. Litwin, VLDB 1980). What lies in it is linked by the user's nodes, so it allocates
// nothing for them, and they stay where they are.
//
//     lists  0 1 2 3 | 4 5                 first_ = 4, count_ = 6: lists 0 and 1 have been split,
//            ^split    ^their other halves  into 0 and 4, 1 and 5; the next insert splits list 2
//
// A list is found by the low bits of the hash: by one more of them if it has been split already.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "carillon/blocks/internal/mix_hash.h"
#include "carillon/blocks/internal/pages.h"

namespace carillon::internal {

// The base of what lies in a table.
template <class Node>
struct TableNode {
  Node* table_next = nullptr;
  std::uint64_t hash = 0;
};

// Threads: as a container. Lifetime: the nodes are the user's; the destructor frees the lists only.
template <class Node>
class LinearTable {
 public:
  static constexpr std::size_t kFewest = 16;

  LinearTable() noexcept = default;
  LinearTable(const LinearTable&) = delete;
  LinearTable& operator=(const LinearTable&) = delete;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  // Lists are numbered from 0 to here.
  [[nodiscard]] std::size_t lists() const noexcept { return count_; }

  // The node of that hash for which equal(node), or null.
  template <class Equal>
  [[nodiscard]] Node* find(std::uint64_t hash, Equal&& equal) const {
    Node* node = list(number_of(hash));
    while (node != nullptr && !(node->hash == hash && equal(*node))) {
      node = node->table_next;
    }
    return node;
  }

  // Pre: node.hash is set. Does not look for an equal one.
  void insert(Node& node) noexcept {
    Node*& first = list(number_of(node.hash));
    node.table_next = first;
    first = &node;
    if (++size_ > count_) {
      split();
    }
  }

  // Pre: the node is in here.
  void remove(Node& node) noexcept {
    Node** link = &list(number_of(node.hash));
    while (*link != &node) {
      link = &(*link)->table_next;
    }
    *link = node.table_next;
    // At most four at a time, which keeps up: there are never more than four lists a node.
    --size_;
    for (int i = 0; i < 4 && size_ < count_ / 4; ++i) {
      merge();
    }
  }

  // Null if list `number` is empty.
  [[nodiscard]] Node* first_in(std::size_t number) const noexcept { return list(number); }
  // visit(node) for each in list `number`; it may remove and free the node it is given, and no
  // other. A removal may merge the last lists into earlier ones, never the other way: so who goes
  // through the lists backwards meets each node. Ends early if it is this one that is merged.
  template <class Visit>
  void for_each_in(std::size_t number, Visit&& visit) {
    for (Node* node = number < count_ ? list(number) : nullptr; node != nullptr;) {
      Node* next = node->table_next;
      visit(*node);
      node = number < count_ ? next : nullptr;
    }
  }
  // The same for all.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t number = count_; number-- > 0;) {
      for_each_in(number, visit);
    }
  }

 private:
  [[nodiscard]] std::size_t number_of(std::uint64_t hash) const noexcept {
    const std::size_t number = hash & (2 * first_ - 1);
    return number < count_ ? number : number & (first_ - 1);
  }

  // Segment i > 0 has the lists [kFewest << (i - 1), kFewest << i).
  [[nodiscard]] static std::size_t segment_of(std::size_t number) noexcept {
    return static_cast<std::size_t>(std::bit_width(number / kFewest));
  }
  [[nodiscard]] static std::size_t begin_of(std::size_t segment) noexcept {
    return kFewest << (segment - 1);
  }
  [[nodiscard]] Node*& list(std::size_t number) noexcept {
    if (number < kFewest) {
      return few_[number];
    }
    const std::size_t segment = segment_of(number);
    return reinterpret_cast<Node**>(segments_[segment].get())[number - begin_of(segment)];
  }
  [[nodiscard]] Node* list(std::size_t number) const noexcept {
    return const_cast<LinearTable*>(this)->list(number);
  }

  void split() noexcept {
    const std::size_t segment = segment_of(count_);
    if (segments_[segment] == nullptr) {
      // Zeroed by the system, page by page as they are used: nobody waits for it. Without memory
      // the table goes on with the lists it has.
      segments_[segment] = make_pages(begin_of(segment) * sizeof(Node*));
      if (segments_[segment] == nullptr) {
        return;
      }
    }
    const std::size_t added = count_++;
    Node** link = &list(added - first_);
    Node** moved = &list(added);
    while (Node* node = *link) {
      if ((node->hash & (2 * first_ - 1)) == added) {
        *link = node->table_next;
        *moved = node;
        moved = &node->table_next;
        *moved = nullptr;
      } else {
        link = &node->table_next;
      }
    }
    if (count_ == 2 * first_) {
      first_ = count_;
    }
  }

  void merge() noexcept {
    if (count_ == kFewest) {
      return;
    }
    if (count_ == first_) {
      first_ /= 2;
    }
    const std::size_t last = --count_;
    Node** link = &list(last - first_);
    while (*link != nullptr) {
      link = &(*link)->table_next;
    }
    *link = list(last);
    list(last) = nullptr;
    const std::size_t segment = segment_of(last);
    if (last == begin_of(segment)) {
      segments_[segment].reset();
    }
  }

  std::size_t size_ = 0;
  std::size_t count_ = kFewest;
  // The largest power of two that is not above count_.
  std::size_t first_ = kFewest;
  std::array<Node*, kFewest> few_{};
  std::array<Pages, 61> segments_;
};

}  // namespace carillon::internal
