// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_desk.h"

#include <memory>

namespace carillon::server {

std::function<void(std::size_t, broker::Reply)> gather_replies(std::size_t count, OnReplies done) {
  struct Gathering {
    std::vector<broker::Reply> replies;
    std::size_t missing;
    OnReplies done;
  };
  auto gathering = std::make_shared<Gathering>();
  gathering->replies.resize(count);
  gathering->missing = count;
  gathering->done = std::move(done);
  return [gathering = std::move(gathering)](std::size_t partition, broker::Reply reply) {
    gathering->replies[partition] = std::move(reply);
    if (--gathering->missing == 0) gathering->done(std::move(gathering->replies));
  };
}

void HttpDesk::ask_all(const broker::Command& command, OnReplies on_replies) {
  const std::size_t count = partitions_.count();
  const OnReply take = gather_replies(count, std::move(on_replies));
  for (std::size_t partition = 0; partition < count; ++partition) ask(partition, command, take);
}

}  // namespace carillon::server
