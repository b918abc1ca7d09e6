// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The statistics of the whole server as one JSON document: GET /api/v1/stats and the events.

#include <functional>
#include <string>

#include "carillon/server/http_context.h"

namespace carillon::server {

/// Asks the partitions and gives the document, of one line, to `then`; an empty one if they cannot
/// say. `then` must not refer to a connection unless it finds out whether that is still there.
void gather_stats(HttpContext& context, std::function<void(std::string json)> then);

}  // namespace carillon::server
