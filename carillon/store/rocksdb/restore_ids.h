// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a restore changes in the copy that it has made.

#include <cstdint>
#include <string>

#include "carillon/base/result.h"

namespace carillon::store {

/// Has every partition of the data folder leave out the next `gap` ids. Durable when it returns.
/// Pre: nobody has the folder open.
[[nodiscard]] Result<void> pass_ids(const std::string& folder, std::uint64_t gap);

}  // namespace carillon::store
