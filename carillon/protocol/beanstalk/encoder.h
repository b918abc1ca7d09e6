// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The writing half of beanstalkd's protocol: answers become bytes.
///
/// The statistics are YAML that clients take apart by hand, so it is byte for byte that of
/// beanstalkd 1.13: strings quoted, lists and states not.

#include <cstdint>
#include <string>
#include <string_view>

#include "carillon/broker/reply.h"
#include "carillon/protocol/beanstalk/request.h"
#include "carillon/protocol/beanstalk/server_stats.h"

namespace carillon::protocol::beanstalk {

/// Appends the answer to `out`, but for the body of a job: if the result is true, reply.body and
/// then CRLF have to follow.
///
/// Not for kUsing and kWatching, whose words only the session knows, nor for the statistics of a
/// partition, which are no answer by themselves: those are bugs and stop the program.
bool encode(const broker::Reply& reply, std::string& out);

void encode(Refusal refusal, std::string& out);
void encode(const ServerStats& stats, std::string& out);
void encode(const broker::TubeNames& names, std::string& out);
void encode_using(std::string_view tube, std::string& out);
void encode_watching(std::uint64_t count, std::string& out);
void encode_not_ignored(std::string& out);
void encode_draining(std::string& out);

/// The line that a connection gets, before it is closed, which is one too many.
void encode_refused_connection(std::string& out);

}  // namespace carillon::protocol::beanstalk
