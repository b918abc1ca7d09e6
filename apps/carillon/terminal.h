// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A terminal that shows one picture after the other, and is left as it was found.

#include <termios.h>
#include <csignal>

#include <cstddef>
#include <optional>
#include <string_view>

#include "carillon/base/result.h"
#include "carillon/base/time.h"

namespace carillon::app {

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

/// Standard input and output as a screen: no echo, no line editing, the alternate screen, no
/// cursor. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT and SIGWINCH are events while it
/// lives.
///
/// Threads: one, and no other in the process.
/// Errors:  kInvalidArgument: one of the two is no terminal.
class Terminal {
 public:
  enum class Event {
    kKey,
    kResized,  ///< Or shown again: draw.
    kTimeout,
    kEnd,  ///< A signal to end, Ctrl-C among them, or the terminal is gone.
  };
  struct Happened {
    Event event = Event::kTimeout;
    char key = 0;  ///< Arrows are 'A' (up) and 'B' (down) with `arrow`.
    bool arrow = false;
    int signal = 0;  ///< That is to end it.
  };

  [[nodiscard]] static Result<Terminal> open();
  Terminal(Terminal&& other) noexcept;
  Terminal& operator=(Terminal&&) = delete;
  ~Terminal();

  [[nodiscard]] TerminalSize size() const noexcept;
  /// Shows `lines`, separated by line feeds, in place of what was there.
  void show(std::string_view lines) noexcept;
  [[nodiscard]] Happened wait(Span at_most) noexcept;

 private:
  Terminal() = default;
  void enter() noexcept;
  void leave() noexcept;
  void stop() noexcept;

  termios found_{};
  sigset_t mask_found_{};
  int signals_ = -1;
};

}  // namespace carillon::app
