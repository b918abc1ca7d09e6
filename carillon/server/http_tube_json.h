// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Tubes as JSON.

#include "carillon/broker/reply.h"
#include "carillon/protocol/http/json_writer.h"

namespace carillon::server {

/// {"name", "jobs", ...}: what is counted of a tube, and its settings.
void write_tube(const broker::TubeStats& tube, protocol::http::JsonWriter& out);

}  // namespace carillon::server
