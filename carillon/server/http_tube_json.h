// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Tubes as JSON.

#include "carillon/broker/reply.h"
#include "carillon/protocol/http/json_writer.h"

namespace carillon::server {

class Webhooks;

/// {"name", "jobs", ...}: what is counted of a tube, its settings, and how its webhook is doing.
/// `webhooks` may be null. `for_admin`: with where the webhook posts to, which may have a secret in
/// it, and with what went wrong.
void write_tube(const broker::TubeStats& tube, const Webhooks* webhooks, bool for_admin,
                protocol::http::JsonWriter& out);

}  // namespace carillon::server
