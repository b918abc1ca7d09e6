// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Keys and values of the RocksDB folder: their bytes, written and strictly read. The grammar and
/// the rule for changing it: docs/internals/storage.md.
///
/// A value begins with its own version byte, so that a folder may hold values of several versions
/// while it is being rewritten. There are no checksums: RocksDB has them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "carillon/base/result.h"
#include "carillon/broker/job.h"
#include "carillon/broker/schedule.h"
#include "carillon/broker/store.h"

namespace carillon::store {

using PartitionIndex = std::uint16_t;

// Keys. Numbers are big-endian, so that byte order is numeric order; signed ones have their sign
// bit flipped.

/// A short key on the stack.
class Key {
 public:
  [[nodiscard]] std::string_view view() const noexcept { return {bytes_, size_}; }

  Key& u8(std::uint8_t value) noexcept;
  Key& u16(std::uint16_t value) noexcept;
  Key& u32(std::uint32_t value) noexcept;
  Key& u64(std::uint64_t value) noexcept;
  Key& i64(std::int64_t value) noexcept;

 private:
  char bytes_[24];
  std::uint8_t size_ = 0;
};

/// near, state, cold: partition, id.
[[nodiscard]] Key job_key(PartitionIndex partition, broker::JobId id) noexcept;
/// far: partition, tube, due, id.
[[nodiscard]] Key far_key(PartitionIndex partition, broker::TubeNumber tube, std::int64_t due_ms,
                          broker::JobId id) noexcept;
/// far: the first key behind those of `tube`.
[[nodiscard]] Key far_end_key(PartitionIndex partition, broker::TubeNumber tube) noexcept;
/// keys: partition, tube, the key that a far job has.
[[nodiscard]] std::string key_key(PartitionIndex partition, broker::TubeNumber tube,
                                  std::string_view key);
/// The first key of `partition`, and the first behind it, in every family whose keys begin with it.
[[nodiscard]] Key partition_begin(PartitionIndex partition) noexcept;
[[nodiscard]] Key partition_end(PartitionIndex partition) noexcept;
/// meta: the folder's own record; the number of the last write; a partition's record; a tube's.
[[nodiscard]] Key format_key() noexcept;
[[nodiscard]] Key group_key() noexcept;
[[nodiscard]] Key partition_key(PartitionIndex partition) noexcept;
[[nodiscard]] Key tube_key(PartitionIndex partition, broker::TubeNumber tube) noexcept;

/// meta: what was said of a schedule, and how far it is.
[[nodiscard]] std::string schedule_key(PartitionIndex partition, std::string_view name);
[[nodiscard]] std::string progress_key(PartitionIndex partition, std::string_view name);

/// Reads back what job_key and far_key wrote. kCorrupt if the size is wrong.
Result<broker::JobId> parse_job_key(std::string_view key);
struct FarKeyParts {
  broker::TubeNumber tube = 0;
  std::int64_t due_ms = 0;
  broker::JobId id = 0;
};
Result<FarKeyParts> parse_far_key(std::string_view key);

/// `bytes` as hexadecimal, for messages.
[[nodiscard]] std::string to_hex(std::string_view bytes);

// Values.

/// What the folder says of itself.
struct FormatRecord {
  std::uint32_t version = 0;
  std::uint32_t partition_count = 0;
  bool operator==(const FormatRecord&) const = default;
};

/// The version that this build writes, and the newest that it reads.
inline constexpr std::uint32_t kFormatVersion = 2;

[[nodiscard]] std::string encode_format(const FormatRecord& record);
/// The version can be read of every future format; a newer one is returned with partition_count 0.
Result<FormatRecord> decode_format(std::string_view value);

[[nodiscard]] std::string encode_group(std::uint64_t group);
Result<std::uint64_t> decode_group(std::string_view value);

/// What a record of the family `state` is of; kPut in the others, but kMoved in far.
enum class JobMark : std::uint8_t {
  kPut,      ///< A near job.
  kSettled,  ///< One that came from afar.
  kMoved,    ///< One that is far, and not where it was put.
};

/// Appends a job's record without its id (the key has it). In near and cold the body follows it.
void encode_job(const broker::JobRecord& record, JobMark mark, std::string& out);

struct DecodedJob {
  broker::JobRecord record;
  JobMark mark = JobMark::kPut;
  std::string_view rest;  ///< What follows the record: the body.
};
/// `id` is what the key says.
Result<DecodedJob> decode_job(std::string_view value, broker::JobId id);
/// A record followed by exactly the body it announces.
Result<DecodedJob> decode_job_with_body(std::string_view value, broker::JobId id);
/// A record followed by nothing.
Result<DecodedJob> decode_job_alone(std::string_view value, broker::JobId id);

[[nodiscard]] std::string encode_place(const broker::FarPlace& place);
Result<broker::FarPlace> decode_place(std::string_view value);

[[nodiscard]] std::string encode_tube(const broker::TubeRecord& record);
Result<broker::TubeRecord> decode_tube(std::string_view value);

/// Without the name, which the key has.
[[nodiscard]] std::string encode_schedule(const broker::ScheduleSettings& settings);
Result<broker::ScheduleSettings> decode_schedule(std::string_view value, std::string_view name);
[[nodiscard]] std::string encode_progress(const broker::ScheduleProgress& progress);
Result<broker::ScheduleProgress> decode_progress(std::string_view value);

[[nodiscard]] std::string encode_partition(const broker::PartitionRecord& record);
Result<broker::PartitionRecord> decode_partition(std::string_view value);

}  // namespace carillon::store
