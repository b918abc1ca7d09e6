// SPDX-License-Identifier: Apache-2.0
// Whatever the bytes and however they are cut: no crash, the same requests as in one piece, and no
// more memory than was sent.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/protocol/beanstalk/parser_testing.h"

namespace beanstalk = carillon::protocol::beanstalk;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 2) return 0;
  // The first two bytes choose the pieces and the limit, the rest is the conversation.
  const std::size_t step = 1 + bytes[0] % 64;
  const std::uint32_t max_job_size = std::uint32_t{1} << (bytes[1] % 31);
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 2, size - 2);

  const std::vector<std::string> whole = beanstalk::parse(text, max_job_size);
  beanstalk::Parser parser(max_job_size);
  std::vector<std::string> cut;
  for (std::size_t from = 0; from < text.size(); from += step) {
    beanstalk::feed_in_place(parser, text.substr(from, step), cut);
    CARILLON_CHECK(parser.body_room().size() <= 3 * text.size() + (std::size_t{1} << 20));
  }
  CARILLON_CHECK(whole == cut, whole.size(), " requests in one piece, ", cut.size(), " in many");
  return 0;
}
