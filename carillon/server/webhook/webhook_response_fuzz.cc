// SPDX-License-Identifier: Apache-2.0
// Whatever a server sends and however it is cut: no crash, and the same answer as in one piece.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "carillon/base/check.h"
#include "carillon/server/webhook/response_reader.h"

using carillon::server::ResponseReader;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < 1) return 0;
  const std::size_t step = 1 + bytes[0] % 64;
  const std::string_view text(reinterpret_cast<const char*>(bytes) + 1, size - 1);

  ResponseReader whole;
  whole.receive(text);
  whole.end_input();
  ResponseReader cut;
  for (std::size_t from = 0; from < text.size(); from += step) {
    cut.receive(text.substr(from, step));
  }
  cut.end_input();
  CARILLON_CHECK(whole.status() == cut.status(), whole.status(), " and ", cut.status());
  CARILLON_CHECK(whole.status() == 0 || (whole.status() >= 200 && whole.status() <= 599));
  CARILLON_CHECK(whole.retry_after() == cut.retry_after());
  return 0;
}
