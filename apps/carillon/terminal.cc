// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <utility>

namespace carillon::app {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";

sigset_t set_of_signals() noexcept {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : kSignals) ::sigaddset(&set, signal);
  return set;
}

void write_all(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR && errno != EAGAIN) return;
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
}

}  // namespace

Result<Terminal> Terminal::open() {
  for (const auto& [fd, name] :
       {std::pair(STDIN_FILENO, "input"), std::pair(STDOUT_FILENO, "output")}) {
    if (::isatty(fd) == 1) continue;
    return Error{ErrorCode::kInvalidArgument, std::string("standard ") + name + " is no terminal"};
  }
  Terminal terminal;
  if (::tcgetattr(STDIN_FILENO, &terminal.found_) != 0) {
    return Error{ErrorCode::kInvalidArgument, "the terminal cannot be read"};
  }
  const sigset_t signals = set_of_signals();
  ::sigprocmask(SIG_BLOCK, &signals, &terminal.mask_found_);
  terminal.signals_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (terminal.signals_ < 0) {
    ::sigprocmask(SIG_SETMASK, &terminal.mask_found_, nullptr);
    return Error{ErrorCode::kIo, "signals cannot be read"};
  }
  terminal.enter();
  return terminal;
}

Terminal::Terminal(Terminal&& other) noexcept
    : found_(other.found_),
      mask_found_(other.mask_found_),
      signals_(std::exchange(other.signals_, -1)) {}

Terminal::~Terminal() {
  if (signals_ < 0) return;
  leave();
  ::close(signals_);
  ::sigprocmask(SIG_SETMASK, &mask_found_, nullptr);
}

void Terminal::enter() noexcept {
  termios raw = found_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
  write_all(kEnter);
}

void Terminal::leave() noexcept {
  write_all(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &found_);
}

/// Ctrl-Z: gives the terminal back until the shell goes on with us.
void Terminal::stop() noexcept {
  leave();
  ::raise(SIGSTOP);
  enter();
}

TerminalSize Terminal::size() const noexcept {
  winsize window{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0) return {};
  return {window.ws_col, window.ws_row};
}

void Terminal::show(std::string_view lines) noexcept {
  // Line by line, each cleared behind its end, and then what is below: no flicker.
  std::string out = "\x1b[H";
  for (const char c : lines) {
    if (c == '\n') {
      out += "\x1b[K\r\n";
    } else {
      out += c;
    }
  }
  out += "\x1b[K\x1b[J";
  write_all(out);
}

Terminal::Happened Terminal::wait(Span at_most) noexcept {
  std::array<pollfd, 2> watched = {pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{signals_, POLLIN, 0}};
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(std::max<Span>(at_most, Span{}));
  const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(ms.count()));
  if (ready <= 0) return {};
  if ((watched[1].revents & POLLIN) != 0) {
    signalfd_siginfo info{};
    if (::read(signals_, &info, sizeof info) != sizeof info) return {};
    const auto signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTSTP) stop();
    const bool goes_on = signal == SIGTSTP || signal == SIGCONT || signal == SIGWINCH;
    return {goes_on ? Event::kResized : Event::kEnd, 0, false, goes_on ? 0 : signal};
  }
  std::array<char, 16> keys{};
  const ssize_t got = ::read(STDIN_FILENO, keys.data(), keys.size());
  if (got <= 0) return {Event::kEnd, 0, false, SIGHUP};
  if (got >= 3 && keys[0] == '\x1b' && keys[1] == '[') return {Event::kKey, keys[2], true, 0};
  return {Event::kKey, keys[0], false, 0};
}

}  // namespace carillon::app
