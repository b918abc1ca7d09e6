// SPDX-License-Identifier: Apache-2.0
// Whatever the document, it is read or refused with a reason; what is read is written so that it
// reads back the same.

#include <cstddef>
#include <cstdint>
#include <string>

#include "carillon/base/check.h"
#include "carillon/server/webhook/settings_document.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace carillon::server;
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  const auto webhook = webhook_of(text);
  if (!webhook) {
    CARILLON_CHECK(!webhook.error().message.empty(), text);
    return 0;
  }
  const std::string document = webhook_document(*webhook);
  const auto again = webhook_of(document);
  CARILLON_CHECK(again.has_value(), document);
  CARILLON_CHECK(webhook_document(*again) == document, text);
  if (*webhook) {
    carillon::protocol::http::JsonWriter shown;
    write_webhook(**webhook, false, shown);
    const std::string json = shown.take();
    CARILLON_CHECK(json.find("\"secrets\"") == std::string::npos, json);
  }
  return 0;
}
