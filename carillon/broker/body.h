// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The opaque bytes of a job: one allocation, shared by the job, the replies that carry it and the
/// batch that stores it, freed with the last of them.

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace carillon::broker {

/// A handle to immutable bytes; 8 bytes, null when the bytes are not in memory.
///
/// Threads: distinct handles to the same bytes may be used from different threads.
/// Cost:    copying is one atomic increment; creating is one allocation of size + 8 bytes.
/// Limits:  2^32 - 1 bytes.
class Body {
 public:
  Body() = default;
  /// Copies `bytes`.
  explicit Body(std::string_view bytes) : Body(make(static_cast<std::uint32_t>(bytes.size()))) {
    if (!bytes.empty()) std::memcpy(mutable_data(), bytes.data(), bytes.size());
  }
  /// Uninitialised bytes, to be filled through mutable_data() before the handle is shared.
  [[nodiscard]] static Body make(std::uint32_t size) {
    Body body;
    void* memory = ::operator new(sizeof(Header) + size);
    body.header_ = new (memory) Header{1, size};
    return body;
  }

  Body(const Body& other) noexcept : header_(other.header_) {
    if (header_ != nullptr) header_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  Body(Body&& other) noexcept : header_(std::exchange(other.header_, nullptr)) {}
  Body& operator=(Body other) noexcept {
    std::swap(header_, other.header_);
    return *this;
  }
  ~Body() {
    if (header_ != nullptr && header_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      header_->~Header();
      ::operator delete(header_);
    }
  }

  /// Whether there are bytes (perhaps none of them: an empty body is not a null handle).
  explicit operator bool() const noexcept { return header_ != nullptr; }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return header_ == nullptr ? 0 : header_->size;
  }
  [[nodiscard]] std::string_view view() const noexcept {
    return header_ == nullptr
               ? std::string_view()
               : std::string_view(reinterpret_cast<const char*>(header_ + 1), header_->size);
  }
  /// Pre: not null, not shared yet.
  [[nodiscard]] char* mutable_data() noexcept { return reinterpret_cast<char*>(header_ + 1); }

 private:
  struct Header {
    std::atomic<std::uint32_t> owners;
    std::uint32_t size;
  };
  Header* header_ = nullptr;
};

}  // namespace carillon::broker
