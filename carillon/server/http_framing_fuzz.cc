// SPDX-License-Identifier: Apache-2.0
// Whatever a client sends and however it is cut: no crash, and the same requests as in one piece,
// so that the end of a request does not depend on how its bytes came.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/check.h"
#include "carillon/server/http_request_reader.h"

namespace {

using carillon::server::HttpRequest;
using carillon::server::HttpRequestReader;

constexpr std::size_t kMaxHeader = 512;
constexpr std::size_t kNoLimit = std::size_t{1} << 20;
constexpr std::uint64_t kMaxBody = 300;

struct Seen {
  std::vector<std::string> requests;
  bool refused = false;
  bool in_head = false;  // A header has begun and not ended.
};

/// The same requests, and the same end; but of a header that has not ended it may be found later
/// that it is none: Beast does not look at each of its bytes again.
bool same(const Seen& a, const Seen& b) {
  return a.requests == b.requests && (a.refused == b.refused || a.in_head || b.in_head);
}

std::string as_text(const HttpRequest& request) {
  return request.method + " " + request.raw_target + " " + request.host + " " +
         request.content_type + (request.keep_alive ? " keep " : " close ") + request.body;
}

Seen read(std::string_view text, std::size_t step, std::size_t max_header) {
  using Event = HttpRequestReader::Event;
  HttpRequestReader reader(max_header);
  Seen seen;
  std::string left;
  for (std::size_t from = 0; from < text.size() && !seen.refused; from += step) {
    left += text.substr(from, step);
    std::string_view bytes = left;
    for (Event event = Event::kHead; event != Event::kNeedMore && !seen.refused;) {
      event = reader.read(bytes);
      switch (event) {
        case Event::kNeedMore: break;
        case Event::kHead: reader.allow_body(kMaxBody); break;
        case Event::kRefused: seen.refused = true; break;
        case Event::kComplete:
          CARILLON_CHECK(reader.request().body.size() <= kMaxBody, reader.request().body.size());
          CARILLON_CHECK(!reader.request().method.empty(), "no method");
          seen.requests.push_back(as_text(reader.request()));
          reader.next();
          break;
      }
    }
    left.erase(0, left.size() - bytes.size());
    // A header that has not ended is bounded, and so is what of a body waits to be decoded.
    CARILLON_CHECK(seen.refused || left.size() <= max_header + step, left.size());
  }
  seen.in_head = !seen.refused && reader.has_begun() && !reader.has_head();
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t step = 1 + bytes[0] % 64;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  // (Near its limit, how long a header is depends on where it is cut, by some bytes.)
  (void)read(text, step, kMaxHeader);
  const Seen whole = read(text, std::max<std::size_t>(text.size(), 1), kNoLimit);
  const Seen cut = read(text, step, kNoLimit);
  CARILLON_CHECK(same(whole, cut), "in one piece ", whole.requests.size(), " requests",
                 whole.refused ? " and a refusal" : "", ", in pieces of ", step, ": ",
                 cut.requests.size(), cut.refused ? " and a refusal" : "");
  return 0;
}
