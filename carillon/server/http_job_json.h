// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Jobs as JSON.

#include <cstdint>
#include <string_view>

#include "carillon/broker/reply.h"
#include "carillon/protocol/http/json_writer.h"

namespace carillon::server {

/// {"id", "tube", "state", ...}: what is known of a job; with its body if `body` is there.
void write_job(const broker::JobView& job, const broker::Body* body,
               protocol::http::JsonWriter& out);

/// A job as a worker gets it, with the receipt. Pre: `reply` is kReserved and has its JobView.
void write_reserved_job(const broker::Reply& reply, std::uint64_t epoch,
                        protocol::http::JsonWriter& out);

/// "body", or "body_base64" if the bytes are not UTF-8.
void write_body(std::string_view bytes, protocol::http::JsonWriter& out);

/// "ready", "delayed", "reserved", "buried".
[[nodiscard]] std::string_view to_string(broker::JobState state) noexcept;

}  // namespace carillon::server
