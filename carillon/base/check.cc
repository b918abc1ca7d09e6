// SPDX-License-Identifier: Apache-2.0
#include "carillon/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace carillon::internal {

void check_failed(const char* file, int line, const char* condition,
                  const std::string& message) noexcept {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, condition,
               message.empty() ? "" : ": ", message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace carillon::internal
