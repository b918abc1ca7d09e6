// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Tells whoever supervises this process what it is about, by systemd's protocol (sd_notify(3)).

#include <string_view>

namespace carillon::server {

/// Sends `state` ("READY=1") to the socket that the variable NOTIFY_SOCKET names; without one, does
/// nothing. Best effort. Threads: any; reads the environment.
void notify_supervisor(std::string_view state) noexcept;

}  // namespace carillon::server
