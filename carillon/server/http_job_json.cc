// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_job_json.h"

#include <string>

#include "carillon/base/check.h"
#include "carillon/protocol/http/base64.h"
#include "carillon/protocol/http/job_requests.h"

namespace carillon::server {

using protocol::http::JsonWriter;

std::string_view to_string(broker::JobState state) noexcept {
  switch (state) {
    case broker::JobState::kReady: return "ready";
    case broker::JobState::kDelayed: return "delayed";
    case broker::JobState::kBuried: return "buried";
    case broker::JobState::kReserved: return "reserved";
  }
  return "unknown";
}

void write_body(std::string_view bytes, JsonWriter& out) {
  if (protocol::http::is_utf8(bytes)) {
    out.field("body", bytes);
  } else {
    out.field("body_base64", protocol::http::to_base64(bytes));
  }
}

namespace {

void write_extras(const broker::SharedExtras& extras, JsonWriter& out) {
  if (extras == nullptr) return;
  if (!extras->key.empty()) out.field("key", extras->key);
  if (!extras->content_type.empty()) out.field("content_type", extras->content_type);
  if (extras->max_attempts != 0) out.field("max_attempts", extras->max_attempts);
  if (extras->backoff_base_ms != 0) {
    out.key("backoff");
    out.begin_object();
    out.field("base_ms", extras->backoff_base_ms);
    out.field("cap_ms", extras->backoff_cap_ms);
    out.field("jitter", extras->backoff_jitter);
    out.end_object();
  }
  if (extras->schedule.empty()) return;
  out.field("schedule", extras->schedule);
  if (extras->due_at_ms) out.time("period_at", *extras->due_at_ms);
}

/// The date it was put for, which it keeps when that has come: the period of an instance.
void write_date(const broker::SharedExtras& extras, JsonWriter& out) {
  if (extras != nullptr && extras->due_at_ms) out.time("due_at", *extras->due_at_ms);
}

}  // namespace

void write_job(const broker::JobView& job, const broker::Body* body, JsonWriter& out) {
  out.begin_object();
  out.id("id", job.stats.id);
  out.field("tube", job.stats.tube);
  out.field("state", to_string(job.stats.state));
  out.field("priority", job.stats.priority);
  out.field("size", job.body_size);
  out.field("attempt", job.attempt);
  out.field("ttr_ms", job.stats.ttr_ms);
  out.time("created_at", job.created_at_ms);
  out.field("age_ms", job.stats.age_ms);
  if (job.due_at_ms) {
    out.time("due_at", *job.due_at_ms);
    out.field("due_in_ms", job.stats.time_left_ms);
  } else {
    write_date(job.extras, out);
  }
  if (job.reserved_until_ms) {
    out.time("reserved_until", *job.reserved_until_ms);
    out.field("time_left_ms", job.stats.time_left_ms);
  }
  write_extras(job.extras, out);
  const broker::JobHistory& history = job.stats.history;
  out.key("history");
  out.begin_object();
  out.field("reserves", history.reserves);
  out.field("timeouts", history.timeouts);
  out.field("releases", history.releases);
  out.field("buries", history.buries);
  out.field("kicks", history.kicks);
  out.end_object();
  if (body != nullptr) write_body(body->view(), out);
  out.end_object();
}

void write_reserved_job(const broker::Reply& reply, std::uint64_t epoch, JsonWriter& out) {
  CARILLON_CHECK(reply.detail != nullptr, "a reservation without what is known of the job");
  const auto& job = std::get<broker::JobView>(*reply.detail);
  out.begin_object();
  out.id("id", reply.id);
  out.field("receipt", protocol::http::to_string(protocol::http::Receipt{epoch, job.attempt}));
  out.field("tube", job.stats.tube);
  out.field("attempt", job.attempt);
  out.field("priority", job.stats.priority);
  out.field("ttr_ms", job.stats.ttr_ms);
  if (job.reserved_until_ms) out.time("reserved_until", *job.reserved_until_ms);
  out.time("created_at", job.created_at_ms);
  write_date(job.extras, out);
  write_extras(job.extras, out);
  write_body(reply.body.view(), out);
  out.end_object();
}

}  // namespace carillon::server
