// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What is said of a backup that a server has made.

#include <cstdint>
#include <functional>
#include <string>

#include "carillon/base/result.h"

namespace carillon::server {

struct MadeBackup {
  std::string folder;  ///< On the machine of the server.
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

using BackupDone = std::function<void(Result<MadeBackup>)>;

}  // namespace carillon::server
