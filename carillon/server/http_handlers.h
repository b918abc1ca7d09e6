// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the server does for each route: one function each, in a file for each kind of resource.
/// A new route is a line in protocol/http/routes, a function here, its line in http_handlers.cc,
/// and its description in web/openapi.json; the tests find what is missing.

#include <optional>
#include <string>

#include "carillon/broker/reply.h"
#include "carillon/protocol/http/problem.h"
#include "carillon/protocol/http/routes.h"
#include "carillon/server/http_exchange.h"

namespace carillon::server {

using HttpHandler = void (*)(HttpExchange&);
[[nodiscard]] HttpHandler handler_of(protocol::http::Operation operation) noexcept;

// http_puts.cc
void put_job(HttpExchange& exchange);
void put_batch(HttpExchange& exchange);

// http_reserve.cc
void reserve_jobs(HttpExchange& exchange);

// http_answers.cc: what a worker says of a job it has.
void ack_batch(HttpExchange& exchange);
void ack_job(HttpExchange& exchange);
void release_job(HttpExchange& exchange);
void bury_job(HttpExchange& exchange);
void touch_job(HttpExchange& exchange);

// http_jobs.cc: by the id, or by tube and key.
void get_job(HttpExchange& exchange);
void get_job_body(HttpExchange& exchange);
void delete_job(HttpExchange& exchange);
void change_job(HttpExchange& exchange);
void kick_job(HttpExchange& exchange);

// http_listing.cc
void list_jobs(HttpExchange& exchange);

// http_tubes.cc
void list_tubes(HttpExchange& exchange);
void get_tube(HttpExchange& exchange);
void pause_tube(HttpExchange& exchange);
void resume_tube(HttpExchange& exchange);
void kick_tube(HttpExchange& exchange);
void clear_tube(HttpExchange& exchange);
void set_tube(HttpExchange& exchange);

// http_schedules.cc
void list_schedules(HttpExchange& exchange);
void get_schedule(HttpExchange& exchange);
void set_schedule(HttpExchange& exchange);
void delete_schedule(HttpExchange& exchange);
void run_schedule(HttpExchange& exchange);

// http_server_state.cc
void get_stats(HttpExchange& exchange);
void get_events(HttpExchange& exchange);
void get_wheel(HttpExchange& exchange);
void get_health(HttpExchange& exchange);
void get_readiness(HttpExchange& exchange);

// http_metrics.cc
void get_metrics(HttpExchange& exchange);

/// What an answer means that is the same for every command: the store could not, or there is no
/// room. Nothing if it is none of those.
[[nodiscard]] std::optional<protocol::http::Problem> failure_of(const broker::Reply& reply);
[[nodiscard]] protocol::http::Problem no_such_job();
/// To whoever would put a job in drain mode.
[[nodiscard]] protocol::http::Problem is_draining();

}  // namespace carillon::server
