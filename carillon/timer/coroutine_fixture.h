// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of coroutines share: the two plainest types of coroutine there are.

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace carillon::testing {

// Begins at once; the owner destroys it, wherever it is.
class Started {
 public:
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name
    Started get_return_object() {
      return Started(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };

  Started(Started&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Started& operator=(Started&&) = delete;
  ~Started() { destroy(); }

  [[nodiscard]] bool done() const { return handle_.done(); }
  void destroy() {
    if (handle_) {
      std::exchange(handle_, nullptr).destroy();
    }
  }

 private:
  explicit Started(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// Begins when it is awaited; answers a number, or throws.
class Lazy {
 public:
  struct promise_type {  // NOLINT(readability-identifier-naming): the language's name
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
        return self.promise().waiter;
      }
      void await_resume() noexcept {}
    };
    Lazy get_return_object() {
      return Lazy(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Final final_suspend() noexcept { return {}; }
    void return_value(int number) noexcept { value = number; }
    void unhandled_exception() noexcept { thrown = std::current_exception(); }

    std::coroutine_handle<> waiter;
    int value = 0;
    std::exception_ptr thrown;
  };

  Lazy(Lazy&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Lazy& operator=(Lazy&&) = delete;
  ~Lazy() {
    if (handle_) {
      handle_.destroy();
    }
  }

  bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) noexcept {
    handle_.promise().waiter = waiter;
    return handle_;
  }
  int await_resume() {
    if (handle_.promise().thrown) {
      std::rethrow_exception(handle_.promise().thrown);
    }
    return handle_.promise().value;
  }

 private:
  explicit Lazy(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace carillon::testing
