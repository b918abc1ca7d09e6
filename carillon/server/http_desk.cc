// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_desk.h"

#include <memory>

namespace carillon::server {

void HttpDesk::ask_all(const broker::Command& command,
                       std::function<void(std::vector<broker::Reply>)> on_replies) {
  struct Gathering {
    std::vector<broker::Reply> replies;
    std::size_t missing;
    std::function<void(std::vector<broker::Reply>)> done;
  };
  const std::size_t count = partitions_.count();
  auto gathering = std::make_shared<Gathering>();
  gathering->replies.resize(count);
  gathering->missing = count;
  gathering->done = std::move(on_replies);
  for (std::size_t i = 0; i < count; ++i) {
    ask(i, command, [gathering](std::size_t partition, broker::Reply reply) {
      gathering->replies[partition] = std::move(reply);
      if (--gathering->missing == 0) gathering->done(std::move(gathering->replies));
    });
  }
}

}  // namespace carillon::server
