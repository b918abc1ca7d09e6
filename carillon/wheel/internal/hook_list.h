// SPDX-License-Identifier: Apache-2.0
#pragma once

// The circular doubly linked list of which the slots of the intrusive wheels are made. A list is
// its sentinel, a ListNode that points to itself when empty. Circular, because then unlinking has
// no special case and no branch: a node in the middle and the last one of a slot are the same.

namespace carillon::internal {

struct ListNode {
  ListNode* next = nullptr;
  ListNode* prev = nullptr;

  // Takes this node out of whatever list it is in. Its own links are left dangling.
  void unlink() noexcept {
    next->prev = prev;
    prev->next = next;
  }

  // The rest is for sentinels.

  void make_empty() noexcept { next = prev = this; }
  [[nodiscard]] bool empty() const noexcept { return next == this; }

  void append(ListNode& node) noexcept {
    node.prev = prev;
    node.next = this;
    prev->next = &node;
    prev = &node;
  }

  void prepend(ListNode& node) noexcept {
    node.prev = this;
    node.next = next;
    next->prev = &node;
    next = &node;
  }

  // Moves all of `other` behind what is here, in order, and leaves `other` empty.
  void append_all(ListNode& other) noexcept {
    if (other.empty()) {
      return;
    }
    other.next->prev = prev;
    prev->next = other.next;
    other.prev->next = this;
    prev = other.prev;
    other.make_empty();
  }
};

}  // namespace carillon::internal
