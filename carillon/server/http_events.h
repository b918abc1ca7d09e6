// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Server-sent events: who listens, and what is said to all of them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "carillon/broker/command.h"
#include "carillon/server/http_exchange.h"

namespace carillon::server {

/// Threads:  the network thread.
/// Limits:   a listener that does not read is told nothing until it does; what it missed is gone.
class HttpEvents {
 public:
  /// Turns the response of `exchange` into a stream of events.
  void subscribe(HttpExchange& exchange) {
    exchange.begin_stream("text/event-stream");
    if (exchange.request().is_head()) return;
    // A comment, so that the client knows at once that it is connected.
    exchange.stream(": carillon\n\n");
    if (greeting_) exchange.stream(greeting_());
    listeners_.insert_or_assign(exchange.session_id(), &exchange);
    exchange.on_input_ended([this, &exchange] {
      unsubscribe(exchange.session_id());
      exchange.end_stream();
    });
    if (on_first_ && listeners_.size() == 1) on_first_();
  }
  /// The session ends.
  void unsubscribe(broker::SessionId session) { listeners_.erase(session); }
  [[nodiscard]] std::size_t size() const noexcept { return listeners_.size(); }
  /// Called when there is a listener after there was none.
  void on_first(std::function<void()> call) { on_first_ = std::move(call); }

  /// Makes the events that a listener is told when it comes.
  void greet(std::function<std::string()> greeting) { greeting_ = std::move(greeting); }

  /// An event as it is sent. `json` is one line.
  [[nodiscard]] static std::string event_of(std::string_view event, std::string_view json) {
    std::string text;
    text.append("event: ").append(event).append("\ndata: ").append(json).append("\n\n");
    return text;
  }
  void publish(std::string_view event, std::string_view json) {
    const std::string text = event_of(event, json);
    for (const auto& [session, exchange] : listeners_) {
      if (exchange->unsent() < kMaxUnsent) exchange->stream(text);
    }
  }

 private:
  static constexpr std::size_t kMaxUnsent = std::size_t{256} << 10;

  std::unordered_map<broker::SessionId, HttpExchange*> listeners_;
  std::function<void()> on_first_;
  std::function<std::string()> greeting_;
};

}  // namespace carillon::server
