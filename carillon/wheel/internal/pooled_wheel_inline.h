// SPDX-License-Identifier: Apache-2.0
#pragma once

// The definitions for pooled_wheel.h, which includes this at its end.

#include <memory>
#include <new>
#include <utility>

#include "carillon/wheel/pooled_wheel.h"

namespace carillon {

template <class Payload, class Shape>
BasicPooledWheel<Payload, Shape>::~BasicPooledWheel() {
  if constexpr (!kQuietPayload) {
    this->max_size_ = 0;
    doom_all();
    destroy_doomed(nullptr);
  }
  if (destroyed_ != nullptr) {
    *destroyed_ = true;
  }
}

template <class Payload, class Shape>
template <class... Arguments>
  requires std::is_constructible_v<Payload, Arguments...>
inline WheelHandle BasicPooledWheel<Payload, Shape>::schedule(Tick deadline,
                                                              Arguments&&... arguments) {
  if (full()) [[unlikely]] {
    return Handle{};
  }
  if constexpr (!kHasPayload) {
    const auto [index, generation] = this->insert(deadline);
    return {index, generation};
  } else if constexpr (std::is_nothrow_constructible_v<Payload, Arguments...>) {
    const auto [index, generation] = this->insert(deadline);
    ::new (static_cast<void*>(payload_at(index))) Payload(std::forward<Arguments>(arguments)...);
    return {index, generation};
  } else {
    Payload payload(std::forward<Arguments>(arguments)...);
    return schedule(deadline, std::move(payload));
  }
}

// Moves the payload out, so that what its destructor does happens when the wheel is done with it.
template <class Payload, class Shape>
inline Payload BasicPooledWheel<Payload, Shape>::take_payload(std::uint32_t index) noexcept {
  if constexpr (kHasPayload) {
    Payload* const place = payload_at(index);
    Payload payload(std::move(*place));
    std::destroy_at(place);
    return payload;
  } else {
    return Payload{};
  }
}

template <class Payload, class Shape>
inline Payload BasicPooledWheel<Payload, Shape>::take(std::uint32_t index, Node& node) noexcept {
  Payload payload = take_payload(index);
  this->release(index, node);
  return payload;
}

template <class Payload, class Shape>
inline bool BasicPooledWheel<Payload, Shape>::cancel(Handle handle) noexcept {
  Node* const node = find(handle);
  if (node == nullptr) {
    return false;
  }
  if constexpr (kQuietPayload) {
    this->release(handle.index, *node);
  } else {
    [[maybe_unused]] const Payload gone = take(handle.index, *node);
  }
  return true;
}

template <class Payload, class Shape>
std::optional<Payload> BasicPooledWheel<Payload, Shape>::extract(Handle handle) noexcept {
  Node* const node = find(handle);
  if (node == nullptr) {
    return std::nullopt;
  }
  return take(handle.index, *node);
}

template <class Payload, class Shape>
inline bool BasicPooledWheel<Payload, Shape>::reschedule(Handle handle, Tick deadline) {
  Node* const node = find(handle);
  if (node == nullptr) {
    return false;
  }
  this->move(handle.index, *node, deadline);
  return true;
}

template <class Payload, class Shape>
std::optional<Tick> BasicPooledWheel<Payload, Shape>::deadline(Handle handle) const noexcept {
  const Node* const node = find(handle);
  return node == nullptr ? std::nullopt : std::optional(node->deadline);
}

template <class Payload, class Shape>
template <class Sink>
AdvanceResult BasicPooledWheel<Payload, Shape>::advance(Tick target, Sink&& sink,
                                                        std::size_t budget) {
  AdvanceResult result;
  // While something is due next_start_ is not after now_.
  if (target < this->next_start_ && target >= this->now_) [[likely]] {
    this->now_ = target;
    return result;
  }
  if (target < this->now_) {
    result.more = this->has_due();
    return result;
  }
  if (this->due_.empty() && !this->load_due(target)) {
    return result;
  }
  const Watch watch(destroyed_);
  for (;;) {
    if (!this->has_due()) {
      // Once `target` itself has expired nothing more is due, unless time ends there.
      if ((result.expired > 0 && this->now_ >= target) || !this->load_due(target)) {
        break;
      }
    }
    if (result.expired == budget) {
      result.more = true;
      break;
    }
    ++result.expired;
    {
      const std::uint32_t index = this->take_due();
      Node& node = this->nodes_[index];
      const Handle handle{index, node.generation};
      const Tick deadline = node.deadline;
      sink(Expired{handle, deadline, take(index, node)});
    }
    if (watch.destroyed()) {
      break;
    }
  }
  return result;
}

template <class Payload, class Shape>
inline std::optional<Tick> BasicPooledWheel<Payload, Shape>::next_deadline() const noexcept {
  if (empty()) {
    return std::nullopt;
  }
  if (this->earliest_exact_) {
    return this->earliest_;
  }
  // Searching drops stale entries, sorts slots ahead and puts moved timers where they belong, and
  // none of that can be observed. A wheel that holds a timer is no const object.
  return const_cast<BasicPooledWheel*>(this)->find_earliest();
}

template <class Payload, class Shape>
void BasicPooledWheel<Payload, Shape>::clear() noexcept {
  doom_all();
  if constexpr (!kQuietPayload) {
    const Watch watch(destroyed_);
    destroy_doomed(&watch);
  }
}

// From here on no handle is valid. Payloads that would notice wait for destroy_doomed(), and their
// nodes are not given out until then.
template <class Payload, class Shape>
void BasicPooledWheel<Payload, Shape>::doom_all() noexcept {
  for (std::uint32_t index = 0; this->size_ > 0; ++index) {
    Node& node = this->nodes_[index];
    if (node.parked != 0 && node.parked != Core::kDoomed) {
      --this->size_;
      ++node.generation;
      if constexpr (kQuietPayload) {
        node.parked = 0;
        this->put_back(index, node);
      } else {
        node.parked = Core::kDoomed;
        ++this->doomed_;
        ++this->out_of_use_;
      }
    }
  }
  this->earliest_exact_ = false;
  this->reset();
}

// `watch` tells when a destructor has destroyed the wheel; null if it is being destroyed already.
template <class Payload, class Shape>
void BasicPooledWheel<Payload, Shape>::destroy_doomed(const Watch* watch) noexcept {
  // A destructor may clear the wheel: then that call destroys all, and this loop ends.
  for (std::uint32_t index = 0; this->doomed_ > 0; ++index) {
    Node& node = this->nodes_[index];
    if (node.parked != Core::kDoomed) {
      continue;
    }
    {
      [[maybe_unused]] const Payload gone = take_payload(index);
      node.parked = 0;
      --this->doomed_;
      --this->out_of_use_;
      this->put_back(index, node);
    }
    if (watch != nullptr && watch->destroyed()) {
      return;
    }
  }
}

template <class Payload, class Shape>
void BasicPooledWheel<Payload, Shape>::reserve(std::size_t count) {
  count = std::min(count, max_size());
  this->reserve_nodes(count);
  // Twice the entries that are live, and a chunk begun in each slot.
  this->reserve_chunks(2 * (count / Core::kChunkEntries + 1) + this->slots_.size());
}

template <class Payload, class Shape>
template <class Visit>
void BasicPooledWheel<Payload, Shape>::for_each(Visit&& visit) const {
  for (std::uint32_t index = 0; index < this->used_; ++index) {
    const Node& node = this->nodes_[index];
    if (node.parked != 0 && node.parked != Core::kDoomed) {
      const Handle handle{index, node.generation};
      if constexpr (kHasPayload) {
        visit(handle, node.deadline, std::as_const(*payload_at(index)));
      } else {
        visit(handle, node.deadline, Payload{});
      }
    }
  }
}

}  // namespace carillon
