// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/output.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>

namespace carillon::app {
namespace {

constexpr std::size_t kHelpColumn = 30;

class HelpFormatter final : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kHelpColumn); }

  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(option->get_description());
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, verb->get_name(), wrapped(verb->get_description()), kHelpColumn);
    return out.str();
  }

 private:
  /// With line feeds between words; the base class indents what is behind them.
  static std::string wrapped(const std::string& text) {
    std::istringstream words(text);
    std::string out;
    std::size_t column = 0;
    for (std::string word; words >> word;) {
      if (column > 0 && column + 1 + word.size() > kColumns - kHelpColumn) {
        out += '\n';
        column = 0;
      } else if (column > 0) {
        out += ' ';
        ++column;
      }
      out += word;
      column += word.size();
    }
    return out;
  }
};

}  // namespace

std::string wrapped(const std::string& text, const std::string& first, std::size_t indent) {
  std::istringstream words(text);
  std::string out;
  std::string line = first;
  bool begun = false;
  for (std::string word; words >> word; begun = true) {
    if (begun && line.size() + 1 + word.size() > kColumns) {
      out += line + '\n';
      line = std::string(indent, ' ');
      begun = false;
    }
    if (begun) line += ' ';
    line += word;
  }
  return out + line + '\n';
}

std::shared_ptr<CLI::FormatterBase> make_help_formatter() {
  return std::make_shared<HelpFormatter>();
}

void take_standard_descriptors() noexcept {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The wrong way round, so that using it is EBADF as it would have been.
    const int opened = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != fd) close(opened);
  }
}

void print_error(std::string_view message) noexcept {
  // Not by stdio or fmt, which throws. One call, so that lines of several processes do not mix.
  char end = '\n';
  const std::array<iovec, 2> parts = {iovec{const_cast<char*>(message.data()), message.size()},
                                      iovec{&end, 1}};
  [[maybe_unused]] const ssize_t written = writev(STDERR_FILENO, parts.data(), parts.size());
}

void print_long_error(const std::string& message) {
  std::istringstream lines(message);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    text += line.size() <= kColumns ? line + '\n' : wrapped(line, "", 2);
  }
  if (!text.empty()) text.pop_back();
  print_error(text);
}

bool flush_output() noexcept {
  static bool failed = false;
  if (failed) return false;
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  failed = true;
  // The buffer of an earlier failed write is gone, and its errno with it.
  char message[160];
  std::snprintf(message, sizeof message, "carillon: standard output cannot be written%s%s",
                errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : "");
  print_error(message);
  return false;
}

}  // namespace carillon::app
