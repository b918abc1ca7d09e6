// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The settings of a webhook as JSON: what the API takes and shows, and what is stored with a tube
/// (broker::TubeSettings::document): `{"webhook": {"url": ...}}`.

#include <optional>
#include <string>
#include <string_view>

#include "carillon/base/result.h"
#include "carillon/protocol/http/fields.h"
#include "carillon/protocol/http/json_writer.h"
#include "carillon/protocol/http/problem.h"
#include "carillon/server/webhook/pump.h"
#include "carillon/server/webhook/settings.h"

namespace carillon::server {

inline constexpr std::size_t kMaxWebhookSecrets = 2;
inline constexpr std::size_t kLeastSecretSize = 16;
inline constexpr std::size_t kMaxSecretSize = 256;
inline constexpr std::size_t kMaxWebhookHeaders = 16;
inline constexpr std::size_t kMaxHeaderNameSize = 64;
inline constexpr std::size_t kMaxHeaderValueSize = 1'024;

/// Reads the object `webhook` that a client sent. Members that are not there have their defaults;
/// without `secrets` or `headers` those of `present` stay, so that what a client was shown can be
/// sent back.
[[nodiscard]] std::optional<protocol::http::Problem> decode_webhook(protocol::http::Fields webhook,
                                                                    const WebhookSettings* present,
                                                                    WebhookSettings& settings);

/// Writes it as an object. Secrets are for the store only: nobody is shown them.
void write_webhook(const WebhookSettings& settings, bool with_secrets,
                   protocol::http::JsonWriter& out);

/// How it is doing, as an object.
void write_webhook_state(const WebhookSettings& settings, const WebhookState& state,
                         protocol::http::JsonWriter& out);

/// The document of a tube with this webhook; nothing, of a tube without.
[[nodiscard]] std::string webhook_document(const std::optional<WebhookSettings>& webhook);
/// The webhook that a document holds, if it holds one. Errors: it is none of ours.
[[nodiscard]] Result<std::optional<WebhookSettings>> webhook_of(const std::string& document);

}  // namespace carillon::server
