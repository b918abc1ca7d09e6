// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests: requests as text, so that expectations read like transcripts.

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/protocol/beanstalk/parser.h"

namespace carillon::protocol::beanstalk {

/// "name id=.. pri=.. delay=.. ttr=.. timeout=.. count=.. tube=.. [body]" with what applies to the
/// command; "name ! REFUSAL" for a refusal, "! REFUSAL" if it is not known which command it was.
inline std::string describe(const Request& request) {
  static constexpr std::string_view kNames[kCommandNameCount] = {"",
                                                                 "put",
                                                                 "peek",
                                                                 "peek-ready",
                                                                 "peek-delayed",
                                                                 "peek-buried",
                                                                 "reserve",
                                                                 "reserve-with-timeout",
                                                                 "reserve-job",
                                                                 "delete",
                                                                 "release",
                                                                 "bury",
                                                                 "kick",
                                                                 "kick-job",
                                                                 "touch",
                                                                 "stats",
                                                                 "stats-job",
                                                                 "stats-tube",
                                                                 "use",
                                                                 "watch",
                                                                 "ignore",
                                                                 "list-tubes",
                                                                 "list-tube-used",
                                                                 "list-tubes-watched",
                                                                 "pause-tube",
                                                                 "quit",
                                                                 "login"};
  static constexpr std::string_view kRefusals[] = {"BAD_FORMAT",    "UNKNOWN_COMMAND",
                                                   "EXPECTED_CRLF", "JOB_TOO_BIG",
                                                   "OUT_OF_MEMORY", "OTHER_PROTOCOL"};
  std::string text(kNames[static_cast<std::size_t>(request.name)]);
  if (request.refusal) {
    if (!text.empty()) text += ' ';
    return text.append("! ").append(kRefusals[static_cast<std::size_t>(*request.refusal)]);
  }
  const auto field = [&text](std::string_view name, std::uint64_t value) {
    text.append(" ").append(name).append("=").append(std::to_string(value));
  };
  switch (request.name) {
    case CommandName::kPut:
      field("pri", request.priority);
      field("delay", request.delay_s);
      field("ttr", request.ttr_s);
      text.append(" [").append(request.body.view()).append("]");
      break;
    case CommandName::kReserveWithTimeout: field("timeout", request.timeout_s); break;
    case CommandName::kPeek:
    case CommandName::kReserveJob:
    case CommandName::kDelete:
    case CommandName::kKickJob:
    case CommandName::kTouch:
    case CommandName::kStatsJob: field("id", request.id); break;
    case CommandName::kRelease:
      field("id", request.id);
      field("pri", request.priority);
      field("delay", request.delay_s);
      break;
    case CommandName::kBury:
      field("id", request.id);
      field("pri", request.priority);
      break;
    case CommandName::kKick: field("count", request.count); break;
    case CommandName::kPauseTube:
      text.append(" tube=").append(request.tube);
      field("delay", request.delay_s);
      break;
    case CommandName::kUse:
    case CommandName::kWatch:
    case CommandName::kIgnore:
    case CommandName::kStatsTube: text.append(" tube=").append(request.tube); break;
    case CommandName::kLogin: text.append(" token=").append(request.token); break;
    default: break;
  }
  return text;
}

/// Feeds `bytes` to `parser` as one piece and adds the requests to `requests`. The piece is copied
/// into memory of exactly its size first, so that a sanitizer sees any read beyond it.
inline void feed(Parser& parser, std::string_view bytes, std::vector<std::string>& requests) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  std::string_view rest(exact.data(), exact.size());
  Request request;
  while (parser.next(rest, request)) requests.push_back(describe(request));
}

/// The same, filling bodies in place wherever the parser offers it.
inline void feed_in_place(Parser& parser, std::string_view bytes,
                          std::vector<std::string>& requests) {
  const std::span<char> room = parser.body_room();
  const std::size_t count = std::min(room.size(), bytes.size());
  if (count > 0) {
    std::memcpy(room.data(), bytes.data(), count);
    parser.body_filled(count);
  }
  feed(parser, bytes.substr(count), requests);
}

inline std::vector<std::string> parse(std::string_view bytes,
                                      std::uint32_t max_job_size = kDefaultMaxJobSize) {
  Parser parser(max_job_size);
  std::vector<std::string> requests;
  feed(parser, bytes, requests);
  return requests;
}

}  // namespace carillon::protocol::beanstalk
