// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the verbs of `schedule` share.

#include <CLI/CLI.hpp>
#include <string>

#include "apps/carillon/verbs.h"
#include "carillon/base/result.h"
#include "carillon/calendar/recurrence.h"

namespace carillon::app {

/// Reads a recurrence, by the clocks of a zone unless that is empty; errors name the option.
[[nodiscard]] Result<calendar::Recurrence> recurrence_of(const std::string& spec,
                                                         const std::string& time_zone);

/// set, ls, show, rm, run.
void add_schedule_server_verbs(CLI::App& schedule, int& status, const Connecting& connecting);

}  // namespace carillon::app
