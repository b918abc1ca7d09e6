// SPDX-License-Identifier: Apache-2.0
#include "bench/common/environment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>

namespace carillon::bench {
namespace {

// What `command` prints, without the newline at its end; empty if it fails.
std::string output_of(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string text;
  for (int byte = std::fgetc(pipe); byte != EOF; byte = std::fgetc(pipe)) {
    text += static_cast<char>(byte);
  }
  if (::pclose(pipe) != 0) return {};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string model = "unknown";
  int count = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    ++count;
    model = line.substr(line.find(':') + 2);
  }
  return fmt::format("{} x {}", count, model);
}

}  // namespace

Environment describe_environment(const std::filesystem::path& dir) {
  Environment e;
  const std::string git = "git -C '" CARILLON_BENCH_SOURCE_DIR "' ";
  e.commit = output_of(git + "rev-parse --short=12 HEAD 2>/dev/null");
  if (e.commit.empty()) {
    e.commit = "unknown";
  } else if (!output_of(git + "status --porcelain --untracked-files=no 2>/dev/null").empty()) {
    e.commit += "-dirty";
  }
  e.cpu = cpu_model();
  e.compiler = CARILLON_BENCH_COMPILER;
  e.preset = CARILLON_BENCH_PRESET;
  e.build_type = CARILLON_BENCH_BUILD_TYPE;
  if (!dir.empty()) e.filesystem = filesystem_of(dir);
  e.date = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  e.load_before = 0;
  std::ifstream("/proc/loadavg") >> e.load_before;
  return e;
}

std::string filesystem_of(const std::filesystem::path& path) {
  const std::string absolute = std::filesystem::weakly_canonical(path).string();
  std::ifstream mounts("/proc/self/mountinfo");
  std::string type = "unknown";
  std::size_t longest = 0;
  for (std::string line; std::getline(mounts, line);) {
    // ID parent major:minor root MOUNT-POINT options ... - TYPE source ...
    std::istringstream fields(line);
    std::string field;
    std::string mount_point;
    for (int i = 0; i < 5; ++i) fields >> mount_point;
    while (fields >> field && field != "-") {
    }
    fields >> field;
    const bool inside =
        absolute == mount_point || mount_point == "/" || absolute.starts_with(mount_point + "/");
    if (inside && mount_point.size() >= longest) {
      longest = mount_point.size();
      type = field;
    }
  }
  return type;
}

std::string find_program(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    return ::access(program.c_str(), X_OK) == 0 ? program : std::string();
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(std::string(path == nullptr ? "" : path) + ":/usr/bin:/usr/sbin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/" + program;
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

}  // namespace carillon::bench
