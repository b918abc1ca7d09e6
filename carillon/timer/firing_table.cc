// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "carillon/timer/internal/core.h"

namespace carillon::internal {

void FiringTable::reserve(std::size_t count) {
  while (free_count_ < count) {
    constexpr std::size_t kBlock = 128;
    blocks_.reserve(blocks_.size() + 1);
    auto block = std::make_unique<FiringRecord[]>(kBlock);
    std::size_t heads = heads_.empty() ? kBlock : heads_.size();
    while (heads < capacity_ + kBlock) {
      heads *= 2;
    }
    if (heads != heads_.size()) {
      std::vector<FiringRecord*> old(heads, nullptr);
      old.swap(heads_);
      for (FiringRecord* record : old) {
        while (record != nullptr) {
          FiringRecord* const next = record->next_in_table;
          FiringRecord*& head = heads_[head_of(record->timer)];
          record->next_in_table = head;
          head = record;
          record = next;
        }
      }
    }
    for (std::size_t i = kBlock; i-- > 0;) {
      give_back(block[i]);
    }
    capacity_ += kBlock;
    blocks_.push_back(std::move(block));
  }
}

FiringRecord& FiringTable::add(TimerKind kind, WheelHandle timer) noexcept {
  FiringRecord& record = *free_;
  free_ = record.next_free;
  --free_count_;
  record.timer = timer;
  record.kind = kind;
  record.periodic = nullptr;
  FiringRecord*& head = heads_[head_of(timer)];
  record.next_in_table = head;
  record.in_table = true;
  head = &record;
  return record;
}

FiringRecord* FiringTable::find(TimerKind kind, WheelHandle timer) const noexcept {
  if (heads_.empty()) {
    return nullptr;
  }
  FiringRecord* record = heads_[head_of(timer)];
  while (record != nullptr && (record->timer != timer || record->kind != kind)) {
    record = record->next_in_table;
  }
  return record;
}

void FiringTable::hide(FiringRecord& record) noexcept {
  if (!record.in_table) {
    return;
  }
  FiringRecord** link = &heads_[head_of(record.timer)];
  while (*link != &record) {
    link = &(*link)->next_in_table;
  }
  *link = record.next_in_table;
  record.in_table = false;
}

void FiringTable::clear() noexcept {
  heads_.clear();
  heads_.shrink_to_fit();
  blocks_.clear();
  blocks_.shrink_to_fit();
  capacity_ = 0;
  free_ = nullptr;
  free_count_ = 0;
}

}  // namespace carillon::internal
