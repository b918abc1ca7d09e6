// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A callable that is moved and never copied, so that it may own what cannot be copied: what a
/// Timer runs. libstdc++ 12 has no std::move_only_function.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "carillon/base/check.h"

namespace carillon {

template <class Signature>
class UniqueFunction;

/// A callable of signature `R(A...)`, or nothing.
///
/// Lifetime: owns the callable, and destroys it when it is destroyed or assigned to.
/// Errors:   to call an empty one is a bug and stops the program. What the callable throws passes
///           through.
/// Cost:     32 bytes. A callable of at most kInlineSize bytes that moves without throwing lies
///           inside; others are allocated once, when it is made. A move copies 32 bytes, and calls
///           the move constructor of a callable inside that is not trivially copyable.
template <class R, class... A>
class UniqueFunction<R(A...)> {
 public:
  static constexpr std::size_t kInlineSize = 3 * sizeof(std::uintptr_t);

  /// Does a callable of type F lie inside?
  template <class F>
  static constexpr bool kFits = sizeof(F) <= kInlineSize && alignof(F) <= alignof(void*) &&
                                std::is_nothrow_move_constructible_v<F>;

  UniqueFunction() noexcept = default;

  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, UniqueFunction> &&
             std::is_invocable_r_v<R, std::decay_t<F>&, A...>)
  UniqueFunction(F&& callable) {  // NOLINT(google-explicit-constructor): it stands for the callable
    using Target = std::decay_t<F>;
    if constexpr (kFits<Target>) {
      ::new (static_cast<void*>(storage_)) Target(std::forward<F>(callable));
    } else {
      ::new (static_cast<void*>(storage_)) Outside{new Target(std::forward<F>(callable))};
    }
    operations_ = &kOperations<Target>;
  }

  UniqueFunction(UniqueFunction&& other) noexcept { take(other); }
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  UniqueFunction(const UniqueFunction&) = delete;
  UniqueFunction& operator=(const UniqueFunction&) = delete;
  ~UniqueFunction() { reset(); }

  /// Destroys the callable, if there is one.
  void reset() noexcept {
    if (operations_ != nullptr && operations_->destroy != nullptr) {
      std::exchange(operations_, nullptr)->destroy(storage_);
    }
    operations_ = nullptr;
  }

  explicit operator bool() const noexcept { return operations_ != nullptr; }

  R operator()(A... arguments) {
    CARILLON_CHECK(operations_ != nullptr, "an empty UniqueFunction was called");
    return operations_->invoke(storage_, std::forward<A>(arguments)...);
  }

  /// The callable, if it is a `T`; null otherwise.
  template <class T>
  [[nodiscard]] T* target() noexcept {
    return operations_ == &kOperations<T> ? address<T>(storage_) : nullptr;
  }
  template <class T>
  [[nodiscard]] const T* target() const noexcept {
    return const_cast<UniqueFunction*>(this)->template target<T>();
  }

 private:
  static constexpr std::size_t kWord = sizeof(std::uintptr_t);
  // What lies inside for a callable that does not.
  struct Outside {
    void* target;
  };
  struct Operations {
    R (*invoke)(std::byte*, A&&...);
    // Null: to copy the bytes does it.
    void (*relocate)(std::byte* from, std::byte* to) noexcept;
    // Null: there is nothing to do.
    void (*destroy)(std::byte*) noexcept;
    // That are in use, if to copy them does it.
    std::size_t words;
  };

  template <class T>
  static T* address(std::byte* storage) noexcept {
    if constexpr (kFits<T>) {
      return std::launder(reinterpret_cast<T*>(storage));
    } else {
      return static_cast<T*>(std::launder(reinterpret_cast<Outside*>(storage))->target);
    }
  }

  template <class T>
  static R invoke(std::byte* storage, A&&... arguments) {
    return std::invoke(*address<T>(storage), std::forward<A>(arguments)...);
  }
  template <class T>
  static void relocate(std::byte* from, std::byte* to) noexcept {
    T* source = address<T>(from);
    ::new (static_cast<void*>(to)) T(std::move(*source));
    source->~T();
  }
  template <class T>
  static void destroy(std::byte* storage) noexcept {
    if constexpr (kFits<T>) {
      address<T>(storage)->~T();
    } else {
      delete address<T>(storage);
    }
  }

  template <class T>
  static constexpr Operations make_operations() noexcept {
    Operations operations{&invoke<T>, nullptr, nullptr, 1};
    if constexpr (kFits<T> && !std::is_empty_v<T>) {
      operations.words = (sizeof(T) + kWord - 1) / kWord;
    } else if constexpr (kFits<T>) {
      operations.words = 0;
    }
    if constexpr (kFits<T> && !std::is_trivially_copyable_v<T>) {
      operations.relocate = &relocate<T>;
    }
    if constexpr (!kFits<T> || !std::is_trivially_destructible_v<T>) {
      operations.destroy = &destroy<T>;
    }
    return operations;
  }
  // One for each type; not one for each alike, so that its address tells the type.
  template <class T>
  static inline const Operations kOperations = make_operations<T>();

  void take(UniqueFunction& other) noexcept {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ == nullptr) {
      return;
    }
    if (operations_->relocate != nullptr) {
      operations_->relocate(other.storage_, storage_);
      return;
    }
    // Word by word, as they were written: to read two at once that were written one by one a few
    // instructions ago stalls the processor for ten nanoseconds.
    const std::size_t words = operations_->words;
    copy_word(other, 0, words);
    copy_word(other, 1, words);
    copy_word(other, 2, words);
  }
  void copy_word(const UniqueFunction& other, std::size_t number, std::size_t words) noexcept {
    if (number < words) {
      const std::size_t offset = number * kWord;
      std::memcpy(storage_ + offset, other.storage_ + offset, kWord);
    }
  }

  alignas(void*) std::byte storage_[kInlineSize];
  const Operations* operations_ = nullptr;
};

}  // namespace carillon
