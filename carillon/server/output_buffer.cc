// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/output_buffer.h"

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::server {
namespace {

/// Memory that an emptied buffer may keep.
constexpr std::size_t kKeepText = 4 * 1024;
constexpr std::size_t kKeepHung = 16;
/// Sent bytes in front of unsent ones are moved out of the way from this many on.
constexpr std::size_t kCompactFrom = 64 * 1024;

}  // namespace

void OutputBuffer::append_body(broker::Body body) {
  if (body.size() < kCopyBelow) {
    text_ += body.view();
    return;
  }
  bodies_left_ += body.size();
  hung_.push_back({text_.size(), std::move(body)});
}

std::size_t OutputBuffer::describe(std::span<iovec> vectors) const {
  std::size_t count = 0;
  const auto add = [&](const char* bytes, std::size_t size) {
    if (size == 0) return true;
    if (count == vectors.size()) return false;
    vectors[count++] = {const_cast<char*>(bytes), size};
    return true;
  };
  std::size_t text_at = text_sent_;
  std::size_t body_at = body_sent_;
  for (std::size_t i = next_hung_; i < hung_.size(); ++i) {
    const Hung& hung = hung_[i];
    if (!add(text_.data() + text_at, hung.at - text_at)) return count;
    text_at = hung.at;
    if (!add(hung.body.view().data() + body_at, hung.body.size() - body_at)) return count;
    body_at = 0;
  }
  add(text_.data() + text_at, text_.size() - text_at);
  return count;
}

void OutputBuffer::consume(std::size_t count) {
  CARILLON_CHECK(count <= size(), count, " of ", size(), " bytes sent");
  while (count > 0) {
    const bool any_hung = next_hung_ < hung_.size();
    const std::size_t text_end = any_hung ? hung_[next_hung_].at : text_.size();
    const std::size_t text_now = std::min(count, text_end - text_sent_);
    text_sent_ += text_now;
    count -= text_now;
    if (count == 0 || !any_hung) break;
    Hung& hung = hung_[next_hung_];
    const std::size_t body_now = std::min<std::size_t>(count, hung.body.size() - body_sent_);
    body_sent_ += body_now;
    bodies_left_ -= body_now;
    count -= body_now;
    if (body_sent_ == hung.body.size()) {
      hung.body = broker::Body();
      ++next_hung_;
      body_sent_ = 0;
    }
  }
  compact();
}

void OutputBuffer::compact() {
  if (empty()) {
    text_.clear();
    hung_.clear();
    text_sent_ = next_hung_ = body_sent_ = 0;
    if (text_.capacity() > kKeepText) std::string().swap(text_);
    if (hung_.capacity() > kKeepHung) std::vector<Hung>().swap(hung_);
    return;
  }
  if (text_sent_ < kCompactFrom || text_sent_ < text_.size() / 2) return;
  text_.erase(0, text_sent_);
  hung_.erase(hung_.begin(), hung_.begin() + static_cast<std::ptrdiff_t>(next_hung_));
  for (Hung& hung : hung_) hung.at -= text_sent_;
  text_sent_ = next_hung_ = 0;
}

}  // namespace carillon::server
