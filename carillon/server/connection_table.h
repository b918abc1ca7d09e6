// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The connections of a server by session.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/server/connection.h"

namespace carillon::server {

/// Finds a connection by its session's number with one look at an array: the number holds the place
/// (24 bits) and how often that has been used (40 bits), so it is never given out twice.
///
/// Threads: one object, one thread. Limits: 2^24 - 1 connections at a time.
class ConnectionTable {
 public:
  /// The number that insert() has to be called with next.
  [[nodiscard]] broker::SessionId next_id() {
    if (free_.empty()) {
      CARILLON_CHECK(places_.size() <= kPlaceMask, places_.size(), " connections");
      free_.push_back(places_.size());
      places_.emplace_back();
    }
    const std::size_t place = free_.back();
    return (places_[place].uses + 1) << kPlaceBits | place;
  }
  void insert(broker::SessionId id, std::unique_ptr<Connection> connection) {
    CARILLON_CHECK(id == next_id(), "session ", id);
    Place& place = places_[free_.back()];
    free_.pop_back();
    ++place.uses;
    place.id = id;
    place.connection = std::move(connection);
    ++size_;
  }
  [[nodiscard]] Connection* find(broker::SessionId id) noexcept {
    Place* place = place_of(id);
    return place == nullptr ? nullptr : place->connection.get();
  }
  /// Pre: it is there.
  void erase(broker::SessionId id) {
    Place* place = place_of(id);
    CARILLON_CHECK(place != nullptr, "session ", id);
    // First out of the table: its destruction may look for it there.
    const std::unique_ptr<Connection> gone = std::move(place->connection);
    place->id = 0;
    place->lists = 0;
    free_.push_back(id & kPlaceMask);
    --size_;
  }
  void clear() {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].id != 0) erase(places_[i].id);
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  template <class Visit>
  void for_each(Visit visit) {
    for (Place& place : places_) {
      if (place.connection != nullptr) visit(*place.connection);
    }
  }

  /// Lists of sessions that a connection can be on, once each.
  enum class List : std::uint8_t { kToWork = 1, kHeldUp = 2 };
  /// Notes that it is on the list now; returns whether it exists and was not.
  bool enlist(broker::SessionId id, List list) noexcept {
    Place* place = place_of(id);
    if (place == nullptr || (place->lists & static_cast<std::uint8_t>(list)) != 0) return false;
    place->lists |= static_cast<std::uint8_t>(list);
    return true;
  }
  void strike_off(broker::SessionId id, List list) noexcept {
    if (Place* place = place_of(id))
      place->lists &= static_cast<std::uint8_t>(~static_cast<std::uint8_t>(list));
  }

 private:
  static constexpr unsigned kPlaceBits = 24;
  static constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << kPlaceBits) - 1;

  struct Place {
    broker::SessionId id = 0;  // 0: free.
    std::uint64_t uses = 0;
    std::uint8_t lists = 0;
    std::unique_ptr<Connection> connection;
  };

  Place* place_of(broker::SessionId id) noexcept {
    const std::size_t place = id & kPlaceMask;
    return place < places_.size() && id != 0 && places_[place].id == id ? &places_[place] : nullptr;
  }

  std::vector<Place> places_;
  std::vector<std::size_t> free_;
  std::size_t size_ = 0;
};

}  // namespace carillon::server
