// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the requests about jobs ask for: bodies and parameters, decoded and checked.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/broker/body.h"
#include "carillon/broker/command.h"
#include "carillon/broker/job.h"
#include "carillon/protocol/http/fields.h"
#include "carillon/protocol/http/problem.h"

namespace carillon::protocol::http {

/// As far as beanstalkd's clients can say a delay or a time to run: 2^32 - 1 seconds.
inline constexpr std::int64_t kMaxSpanMs = 4'294'967'295'000;
inline constexpr std::int64_t kMaxPriority = 4'294'967'295;
inline constexpr std::size_t kMaxKeySize = 200;
inline constexpr std::size_t kMaxContentTypeSize = 200;
inline constexpr std::int64_t kMaxWaitMs = 300'000;
inline constexpr std::int64_t kMaxReserve = 1'000;
inline constexpr std::size_t kMaxReserveTubes = 100;
inline constexpr std::size_t kMaxBatch = 10'000;
inline constexpr std::size_t kMaxReceiptSize = 64;

/// One job to be put.
struct PutRequest {
  broker::Body body;
  std::uint32_t priority = 1024;
  std::int64_t delay_ms = 0;
  std::int64_t ttr_ms = 60'000;
  broker::JobExtras extras;  ///< If they have a due time, there is no delay.
  broker::OnConflict on_conflict = broker::OnConflict::kReturn;
};

/// Of a job as JSON: its body, which has to be there; and its attempts and backoff.
void read_job_body(Fields& fields, std::size_t max_job_size, broker::Body& out);
void read_job_extras(Fields& fields, broker::JobExtras& extras);

/// A job as JSON: everything is in the object at `at`.
[[nodiscard]] std::optional<Problem> decode_put(std::span<const Value> values, std::uint32_t at,
                                                const std::string& path, std::size_t max_job_size,
                                                PutRequest& request);
/// A job as raw bytes: the body is these, and everything else is in the query.
[[nodiscard]] std::optional<Problem> decode_raw_put(std::span<const Value> query,
                                                    std::string_view bytes,
                                                    std::string_view content_type,
                                                    std::size_t max_job_size, PutRequest& request);

/// A key: 1 to kMaxKeySize bytes of UTF-8 without control characters.
[[nodiscard]] bool is_key(std::string_view text) noexcept;
inline constexpr std::string_view kKeyLimit = "1 to 200 bytes of UTF-8 without control characters";

/// A content type that can be sent back in a header.
[[nodiscard]] bool is_content_type(std::string_view text) noexcept;

struct ReserveRequest {
  std::vector<std::string> tubes;
  std::int64_t max = 1;
  std::int64_t wait_ms = 0;
  std::int64_t ttr_ms = 0;  ///< Of these reservations; 0: each job's own.
};
[[nodiscard]] std::optional<Problem> decode_reserve(std::span<const Value> values,
                                                    ReserveRequest& request);

/// What a worker shows to speak for a job it has: which start of the server it got it from, and
/// which attempt of the job that was.
struct Receipt {
  std::uint64_t epoch = 0;
  std::uint32_t attempt = 0;
  bool operator==(const Receipt&) const = default;
};
[[nodiscard]] std::string to_string(const Receipt& receipt);
[[nodiscard]] std::optional<Receipt> parse_receipt(std::string_view text) noexcept;

/// ack, release, bury and touch of a reserved job.
struct AnswerRequest {
  broker::JobId id = 0;
  Receipt receipt;
  std::optional<std::int64_t> delay_ms;   ///< release; not given: by the job's backoff.
  std::optional<std::uint32_t> priority;  ///< release, bury; not given: as it is.
  std::int64_t ttr_ms = 0;                ///< touch: from now on; 0: the job's own.
};
enum class AnswerMembers : std::uint8_t { kReceipt, kReceiptAndPriority, kReceiptAndTtr, kAll };
/// The id is in the path.
[[nodiscard]] std::optional<Problem> decode_answer(std::span<const Value> values,
                                                   AnswerMembers members, AnswerRequest& request);
/// {"jobs": [{"id", "receipt"}, ...]}
[[nodiscard]] std::optional<Problem> decode_ack_batch(std::span<const Value> values,
                                                      std::vector<AnswerRequest>& requests);

/// A new time, a new priority, or both.
struct ChangeRequest {
  std::optional<std::int64_t> delay_ms;
  std::optional<std::int64_t> due_at_ms;
  std::optional<std::uint32_t> priority;
};
[[nodiscard]] std::optional<Problem> decode_change(std::span<const Value> values,
                                                   ChangeRequest& request);

/// The parameters of a listing.
struct ListRequest {
  broker::ListQuery query;
  std::size_t partition = 0;  ///< Of the cursor.
};
[[nodiscard]] std::optional<Problem> decode_list(std::span<const Value> query,
                                                 std::size_t partitions, ListRequest& request);
/// Where a listing goes on; opaque to clients.
[[nodiscard]] std::string to_cursor(std::size_t partition, const broker::ListCursor& cursor);

/// The parameters of a listing of tubes, by name.
struct TubesRequest {
  std::string prefix;
  std::string after;  ///< The last name of the page before.
  std::size_t limit = 1'000;
};
[[nodiscard]] std::optional<Problem> decode_tubes(std::span<const Value> query,
                                                  TubesRequest& request);

/// {"states": ["ready", ...]}: all of them but reserved, which nothing clears.
[[nodiscard]] std::optional<Problem> decode_clear(std::span<const Value> values,
                                                  broker::JobStates& states);

/// The members of a tube's settings that the broker knows.
void read_tube_settings(Fields& fields, broker::TubeSettings& settings);
/// {"max_jobs": 1000}
[[nodiscard]] std::optional<Problem> decode_tube_settings(std::span<const Value> values,
                                                          broker::TubeSettings& settings);

/// {"for_ms": 60000}
[[nodiscard]] std::optional<Problem> decode_pause(std::span<const Value> values,
                                                  std::int64_t& for_ms);
/// {"count": 10}
[[nodiscard]] std::optional<Problem> decode_kick(std::span<const Value> values,
                                                 std::int64_t& count);

}  // namespace carillon::protocol::http
