// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a benchmark is at, for whoever waits for it.

#include <string_view>

namespace carillon::bench {

/// On a terminal one line that changes, with the time since the first call; in a log nothing but
/// what comes at the end. Empty: the line goes away.
void show_progress(std::string_view what);

}  // namespace carillon::bench
