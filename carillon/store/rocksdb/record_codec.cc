// SPDX-License-Identifier: Apache-2.0
// Long because all values are written by one Writer and read by one Reader.
#include "carillon/store/rocksdb/record_codec.h"

#include <limits>
#include <memory>
#include <utility>

namespace carillon::store {
namespace {

using broker::JobId;
using broker::JobRecord;
using broker::JobState;
using broker::PartitionRecord;
using broker::ScheduleProgress;
using broker::ScheduleSettings;
using broker::TubeRecord;

// Values that have nothing new in them are written as they always were.
constexpr std::uint8_t kFirstVersion = 1;
constexpr std::uint8_t kValueVersion = 2;

// Second byte of a job's record: state in the two low bits, then which optional fields follow.
constexpr std::uint8_t kStateMask = 0x03;
constexpr std::uint8_t kSettledBit = 0x04;
constexpr std::uint8_t kHasDue = 0x08;
constexpr std::uint8_t kHasDelay = 0x10;
constexpr std::uint8_t kHasBuryOrder = 0x20;
constexpr std::uint8_t kHasHistory = 0x40;
constexpr std::uint8_t kReservedBits = 0x80;

// Third byte of a job's record of version 2: which extras follow.
constexpr std::uint8_t kMovedBit = 0x01;
constexpr std::uint8_t kHasKey = 0x02;
constexpr std::uint8_t kHasContentType = 0x04;
constexpr std::uint8_t kHasAttempts = 0x08;
constexpr std::uint8_t kHasBackoff = 0x10;
constexpr std::uint8_t kJitterBit = 0x20;
constexpr std::uint8_t kHasDate = 0x40;
constexpr std::uint8_t kHasSchedule = 0x80;

// Second byte of a schedule's progress: which optional fields follow.
constexpr std::uint8_t kHasNext = 0x01;
constexpr std::uint8_t kHasQueued = 0x02;
constexpr std::uint8_t kHasLast = 0x04;

template <class Unsigned>
char* store_big_endian(char* at, Unsigned value) noexcept {
  for (int shift = static_cast<int>(sizeof(Unsigned)) * 8 - 8; shift >= 0; shift -= 8) {
    *at++ = static_cast<char>(value >> shift);
  }
  return at;
}

template <class Unsigned>
Unsigned load_big_endian(const char* at) noexcept {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value = static_cast<Unsigned>(value << 8) | static_cast<std::uint8_t>(at[i]);
  }
  return value;
}

constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;

constexpr std::uint64_t zigzag(std::uint64_t two_complement) noexcept {
  return (two_complement << 1) ^ (std::uint64_t{0} - (two_complement >> 63));
}
constexpr std::uint64_t unzigzag(std::uint64_t value) noexcept {
  return (value >> 1) ^ (std::uint64_t{0} - (value & 1));
}

// Writes LEB128 numbers.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void byte(std::uint8_t value) { out_.push_back(static_cast<char>(value)); }
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      byte(static_cast<std::uint8_t>(value | 0x80));
      value >>= 7;
    }
    byte(static_cast<std::uint8_t>(value));
  }
  void signed_number(std::int64_t value) { number(zigzag(static_cast<std::uint64_t>(value))); }
  void bytes(std::string_view value) {
    number(value.size());
    out_.append(value);
  }

 private:
  std::string& out_;
};

// Reads them back; after the first fault everything reads as zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  std::uint8_t byte() {
    if (in_.empty()) return fail();
    const auto value = static_cast<std::uint8_t>(in_.front());
    in_.remove_prefix(1);
    return value;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t next = byte();
      if (!ok_) return 0;
      const std::uint64_t low = next & 0x7FU;
      if (shift == 63 && low > 1) return fail();  // more than 64 bits
      value |= low << shift;
      if ((next & 0x80U) == 0) {
        if (next == 0 && shift > 0) return fail();  // not the shortest form
        return value;
      }
    }
    return fail();
  }
  std::uint32_t number32() {
    const std::uint64_t value = number();
    if (value > std::numeric_limits<std::uint32_t>::max()) return fail();
    return static_cast<std::uint32_t>(value);
  }
  std::int64_t signed_number() { return static_cast<std::int64_t>(unzigzag(number())); }
  std::string_view bytes() {
    const std::uint64_t size = number();
    if (size > in_.size()) {
      fail();
      return {};
    }
    const std::string_view value = in_.substr(0, size);
    in_.remove_prefix(size);
    return value;
  }

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::string_view rest() const noexcept { return in_; }
  [[nodiscard]] bool ended() const noexcept { return ok_ && in_.empty(); }

 private:
  std::uint8_t fail() {
    ok_ = false;
    in_ = {};
    return 0;
  }

  std::string_view in_;
  bool ok_ = true;
};

Error malformed(std::string_view what, std::string_view value) {
  std::string message = "malformed ";
  message.append(what).append(" of ").append(std::to_string(value.size())).append(" bytes");
  return Error{ErrorCode::kCorrupt, std::move(message)};
}

// Which version it is.
Result<std::uint8_t> read_version(Reader& reader, std::string_view what, std::string_view value) {
  const std::uint8_t version = reader.byte();
  if (!reader.ok()) return malformed(what, value);
  if (version == kFirstVersion || version == kValueVersion) return version;
  return Error{ErrorCode::kCorrupt, std::string(what) + " has version " + std::to_string(version) +
                                        ", this build reads up to " +
                                        std::to_string(kValueVersion)};
}

std::uint8_t extras_flags(const broker::JobExtras& extras) {
  std::uint8_t flags = 0;
  if (!extras.key.empty()) flags |= kHasKey;
  if (!extras.content_type.empty()) flags |= kHasContentType;
  if (extras.max_attempts != 0) flags |= kHasAttempts;
  if (extras.backoff_base_ms != 0 || extras.backoff_cap_ms != 0) flags |= kHasBackoff;
  if (extras.backoff_jitter) flags |= kJitterBit;
  if (extras.due_at_ms) flags |= kHasDate;
  if (!extras.schedule.empty()) flags |= kHasSchedule;
  return flags;
}

void write_extras(const broker::JobExtras& extras, std::uint8_t flags, Writer& writer) {
  if ((flags & kHasKey) != 0) writer.bytes(extras.key);
  if ((flags & kHasContentType) != 0) writer.bytes(extras.content_type);
  if ((flags & kHasAttempts) != 0) writer.number(extras.max_attempts);
  if ((flags & kHasBackoff) != 0) {
    writer.signed_number(extras.backoff_base_ms);
    writer.signed_number(extras.backoff_cap_ms);
  }
  if ((flags & kHasDate) != 0) writer.signed_number(*extras.due_at_ms);
  if ((flags & kHasSchedule) != 0) writer.bytes(extras.schedule);
}

broker::JobExtras read_extras(std::uint8_t flags, Reader& reader) {
  broker::JobExtras extras;
  if ((flags & kHasKey) != 0) extras.key = std::string(reader.bytes());
  if ((flags & kHasContentType) != 0) extras.content_type = std::string(reader.bytes());
  if ((flags & kHasAttempts) != 0) extras.max_attempts = reader.number32();
  if ((flags & kHasBackoff) != 0) {
    extras.backoff_base_ms = reader.signed_number();
    extras.backoff_cap_ms = reader.signed_number();
  }
  extras.backoff_jitter = (flags & kJitterBit) != 0;
  if ((flags & kHasDate) != 0) extras.due_at_ms = reader.signed_number();
  if ((flags & kHasSchedule) != 0) extras.schedule = std::string(reader.bytes());
  return extras;
}

}  // namespace

Key& Key::u8(std::uint8_t value) noexcept {
  bytes_[size_++] = static_cast<char>(value);
  return *this;
}
Key& Key::u16(std::uint16_t value) noexcept {
  store_big_endian(bytes_ + size_, value);
  size_ += sizeof value;
  return *this;
}
Key& Key::u32(std::uint32_t value) noexcept {
  store_big_endian(bytes_ + size_, value);
  size_ += sizeof value;
  return *this;
}
Key& Key::u64(std::uint64_t value) noexcept {
  store_big_endian(bytes_ + size_, value);
  size_ += sizeof value;
  return *this;
}
Key& Key::i64(std::int64_t value) noexcept {
  return u64(static_cast<std::uint64_t>(value) ^ kSignBit);
}

Key job_key(PartitionIndex partition, JobId id) noexcept { return Key().u16(partition).u64(id); }

Key far_key(PartitionIndex partition, broker::TubeNumber tube, std::int64_t due_ms,
            JobId id) noexcept {
  return Key().u16(partition).u32(tube).i64(due_ms).u64(id);
}

Key far_end_key(PartitionIndex partition, broker::TubeNumber tube) noexcept {
  if (tube == std::numeric_limits<broker::TubeNumber>::max()) return partition_end(partition);
  return Key().u16(partition).u32(tube + 1);
}

std::string key_key(PartitionIndex partition, broker::TubeNumber tube, std::string_view key) {
  std::string out(Key().u16(partition).u32(tube).view());
  out.append(key);
  return out;
}

Key partition_begin(PartitionIndex partition) noexcept { return Key().u16(partition); }

Key partition_end(PartitionIndex partition) noexcept {
  if (partition == std::numeric_limits<PartitionIndex>::max()) return Key().u8(0xFF).u16(0xFFFF);
  return Key().u16(static_cast<PartitionIndex>(partition + 1));
}

Key format_key() noexcept { return Key().u8('f'); }
Key group_key() noexcept { return Key().u8('g'); }
Key partition_key(PartitionIndex partition) noexcept { return Key().u8('p').u16(partition); }
Key tube_key(PartitionIndex partition, broker::TubeNumber tube) noexcept {
  return Key().u8('t').u16(partition).u32(tube);
}

std::string schedule_key(PartitionIndex partition, std::string_view name) {
  std::string out(Key().u8('s').u16(partition).view());
  out.append(name);
  return out;
}
std::string progress_key(PartitionIndex partition, std::string_view name) {
  std::string out(Key().u8('r').u16(partition).view());
  out.append(name);
  return out;
}

Result<JobId> parse_job_key(std::string_view key) {
  if (key.size() != 10) return malformed("key", key);
  return load_big_endian<std::uint64_t>(key.data() + 2);
}

Result<FarKeyParts> parse_far_key(std::string_view key) {
  if (key.size() != 22) return malformed("key", key);
  FarKeyParts parts;
  parts.tube = load_big_endian<std::uint32_t>(key.data() + 2);
  parts.due_ms =
      static_cast<std::int64_t>(load_big_endian<std::uint64_t>(key.data() + 6) ^ kSignBit);
  parts.id = load_big_endian<std::uint64_t>(key.data() + 14);
  return parts;
}

std::string to_hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    out.push_back(kDigits[static_cast<std::uint8_t>(c) >> 4]);
    out.push_back(kDigits[static_cast<std::uint8_t>(c) & 15]);
  }
  return out;
}

std::string encode_format(const FormatRecord& record) {
  std::string out;
  Writer writer(out);
  writer.number(record.version);
  writer.number(record.partition_count);
  return out;
}

Result<FormatRecord> decode_format(std::string_view value) {
  Reader reader(value);
  FormatRecord record;
  record.version = reader.number32();
  if (!reader.ok() || record.version == 0) return malformed("format record", value);
  if (record.version > kFormatVersion) return record;
  record.partition_count = reader.number32();
  if (!reader.ended() || record.partition_count == 0) return malformed("format record", value);
  return record;
}

std::string encode_group(std::uint64_t group) {
  std::string out;
  Writer(out).number(group);
  return out;
}

Result<std::uint64_t> decode_group(std::string_view value) {
  Reader reader(value);
  const std::uint64_t group = reader.number();
  if (!reader.ended()) return malformed("group number", value);
  return group;
}

void encode_job(const JobRecord& record, JobMark mark, std::string& out) {
  const bool has_history = record.history != broker::JobHistory{};
  std::uint8_t flags = static_cast<std::uint8_t>(record.state) & kStateMask;
  if (mark == JobMark::kSettled) flags |= kSettledBit;
  if (record.due_ms != 0) flags |= kHasDue;
  if (record.delay_ms != 0) flags |= kHasDelay;
  if (record.bury_order != 0) flags |= kHasBuryOrder;
  if (has_history) flags |= kHasHistory;

  std::uint8_t more = mark == JobMark::kMoved ? kMovedBit : 0;
  if (record.extras) more |= extras_flags(*record.extras);

  Writer writer(out);
  writer.byte(more == 0 ? kFirstVersion : kValueVersion);
  writer.byte(flags);
  if (more != 0) writer.byte(more);
  writer.number(record.tube);
  writer.number(record.priority);
  writer.number(record.body_size);
  writer.signed_number(record.ttr_ms);
  writer.signed_number(record.created_ms);
  // Relative to the creation: shorter. The subtraction may wrap; so does the addition that undoes
  // it.
  if (record.due_ms != 0) {
    writer.number(zigzag(static_cast<std::uint64_t>(record.due_ms) -
                         static_cast<std::uint64_t>(record.created_ms)));
  }
  if (record.delay_ms != 0) writer.signed_number(record.delay_ms);
  if (record.bury_order != 0) writer.number(record.bury_order);
  if (has_history) {
    writer.number(record.history.reserves);
    writer.number(record.history.timeouts);
    writer.number(record.history.releases);
    writer.number(record.history.buries);
    writer.number(record.history.kicks);
  }
  if (record.extras) write_extras(*record.extras, more, writer);
}

Result<DecodedJob> decode_job(std::string_view value, JobId id) {
  Reader reader(value);
  const Result<std::uint8_t> version = read_version(reader, "job", value);
  if (!version) return version.error();
  const std::uint8_t flags = reader.byte();
  const std::uint8_t more = *version == kFirstVersion ? 0 : reader.byte();
  DecodedJob job;
  JobRecord& record = job.record;
  record.id = id;
  record.state = static_cast<JobState>(flags & kStateMask);
  if ((flags & kSettledBit) != 0) job.mark = JobMark::kSettled;
  if ((more & kMovedBit) != 0) job.mark = JobMark::kMoved;
  record.tube = reader.number32();
  record.priority = reader.number32();
  record.body_size = reader.number32();
  record.ttr_ms = reader.signed_number();
  record.created_ms = reader.signed_number();
  if ((flags & kHasDue) != 0) {
    record.due_ms = static_cast<std::int64_t>(unzigzag(reader.number()) +
                                              static_cast<std::uint64_t>(record.created_ms));
  }
  if ((flags & kHasDelay) != 0) record.delay_ms = reader.signed_number();
  if ((flags & kHasBuryOrder) != 0) record.bury_order = reader.number();
  if ((flags & kHasHistory) != 0) {
    record.history.reserves = reader.number32();
    record.history.timeouts = reader.number32();
    record.history.releases = reader.number32();
    record.history.buries = reader.number32();
    record.history.kicks = reader.number32();
  }
  if ((more & ~kMovedBit) != 0) {
    record.extras = std::make_shared<const broker::JobExtras>(read_extras(more, reader));
  }
  // One record, one encoding: what is there by its flag is not zero.
  const bool same_extras = !record.extras || extras_flags(*record.extras) ==
                                                 (more & static_cast<std::uint8_t>(~kMovedBit));
  const bool one_mark = (flags & kSettledBit) == 0 || (more & kMovedBit) == 0;
  const bool newer = *version == kFirstVersion || more != 0;
  const bool canonical = same_extras && one_mark && newer &&
                         ((flags & kHasDue) != 0) == (record.due_ms != 0) &&
                         ((flags & kHasDelay) != 0) == (record.delay_ms != 0) &&
                         ((flags & kHasBuryOrder) != 0) == (record.bury_order != 0) &&
                         ((flags & kHasHistory) != 0) == (record.history != broker::JobHistory{});
  if (!reader.ok() || !canonical || (flags & kReservedBits) != 0 ||
      record.state == JobState::kReserved) {
    return malformed("job", value);
  }
  job.rest = reader.rest();
  return job;
}

Result<DecodedJob> decode_job_with_body(std::string_view value, JobId id) {
  Result<DecodedJob> job = decode_job(value, id);
  if (job && job->rest.size() != job->record.body_size) {
    return Error{ErrorCode::kCorrupt, "job announces a body of " +
                                          std::to_string(job->record.body_size) + " bytes, has " +
                                          std::to_string(job->rest.size())};
  }
  return job;
}

Result<DecodedJob> decode_job_alone(std::string_view value, JobId id) {
  Result<DecodedJob> job = decode_job(value, id);
  if (job && !job->rest.empty()) return malformed("job", value);
  return job;
}

std::string encode_place(const broker::FarPlace& place) {
  std::string out;
  Writer writer(out);
  writer.byte(kValueVersion);
  writer.number(place.id);
  writer.signed_number(place.due_ms);
  writer.byte(place.moved ? 1 : 0);
  return out;
}

Result<broker::FarPlace> decode_place(std::string_view value) {
  Reader reader(value);
  const Result<std::uint8_t> version = read_version(reader, "place", value);
  if (!version) return version.error();
  broker::FarPlace place;
  place.id = reader.number();
  place.due_ms = reader.signed_number();
  const std::uint8_t moved = reader.byte();
  place.moved = moved == 1;
  if (!reader.ended() || *version != kValueVersion || moved > 1) return malformed("place", value);
  return place;
}

std::string encode_tube(const TubeRecord& record) {
  std::string out;
  Writer writer(out);
  const bool more = !record.settings.empty() || record.far_calendar_ms;
  writer.byte(more ? kValueVersion : kFirstVersion);
  writer.number(record.number);
  writer.bytes(record.name);
  writer.number(record.far_count);
  writer.signed_number(record.far_from_ms);
  writer.signed_number(record.paused_until_ms);
  writer.signed_number(record.pause_ms);
  if (more) {
    writer.number(record.settings.max_jobs);
    writer.bytes(record.settings.document);
    writer.byte(record.far_calendar_ms ? 1 : 0);
    if (record.far_calendar_ms) writer.signed_number(*record.far_calendar_ms);
  }
  return out;
}

Result<TubeRecord> decode_tube(std::string_view value) {
  Reader reader(value);
  const Result<std::uint8_t> version = read_version(reader, "tube", value);
  if (!version) return version.error();
  TubeRecord record;
  record.number = reader.number32();
  record.name = std::string(reader.bytes());
  record.far_count = reader.number();
  record.far_from_ms = reader.signed_number();
  record.paused_until_ms = reader.signed_number();
  record.pause_ms = reader.signed_number();
  if (*version != kFirstVersion) {
    record.settings.max_jobs = reader.number();
    record.settings.document = std::string(reader.bytes());
    const std::uint8_t has_calendar = reader.byte();
    if (has_calendar == 1) record.far_calendar_ms = reader.signed_number();
    const bool nothing_new = record.settings.empty() && !record.far_calendar_ms;
    if (has_calendar > 1 || nothing_new) return malformed("tube", value);
  }
  if (!reader.ended()) return malformed("tube", value);
  return record;
}

std::string encode_schedule(const ScheduleSettings& settings) {
  std::string out;
  Writer writer(out);
  const broker::JobExtras none;
  const broker::JobExtras& extras = settings.extras ? *settings.extras : none;
  writer.byte(kValueVersion);
  writer.byte(static_cast<std::uint8_t>(settings.missed));
  writer.byte(static_cast<std::uint8_t>(settings.overlap));
  writer.bytes(settings.tube);
  writer.bytes(settings.spec);
  writer.number(settings.priority);
  writer.signed_number(settings.ttr_ms);
  writer.signed_number(settings.jitter_ms);
  writer.bytes(extras.content_type);
  writer.number(extras.max_attempts);
  writer.signed_number(extras.backoff_base_ms);
  writer.signed_number(extras.backoff_cap_ms);
  writer.byte(extras.backoff_jitter ? 1 : 0);
  out.append(settings.body.view());
  return out;
}

Result<ScheduleSettings> decode_schedule(std::string_view value, std::string_view name) {
  Reader reader(value);
  const Result<std::uint8_t> version = read_version(reader, "schedule", value);
  if (!version) return version.error();
  ScheduleSettings settings;
  settings.name = name;
  const std::uint8_t missed = reader.byte();
  const std::uint8_t overlap = reader.byte();
  settings.tube = std::string(reader.bytes());
  settings.spec = std::string(reader.bytes());
  settings.priority = reader.number32();
  settings.ttr_ms = reader.signed_number();
  settings.jitter_ms = reader.signed_number();
  broker::JobExtras extras;
  extras.content_type = std::string(reader.bytes());
  extras.max_attempts = reader.number32();
  extras.backoff_base_ms = reader.signed_number();
  extras.backoff_cap_ms = reader.signed_number();
  const std::uint8_t jitter = reader.byte();
  if (!reader.ok() || *version == kFirstVersion || name.empty() || settings.tube.empty() ||
      missed > static_cast<std::uint8_t>(broker::Missed::kSkip) ||
      overlap > static_cast<std::uint8_t>(broker::Overlap::kQueue) || jitter > 1) {
    return malformed("schedule", value);
  }
  settings.missed = static_cast<broker::Missed>(missed);
  settings.overlap = static_cast<broker::Overlap>(overlap);
  extras.backoff_jitter = jitter == 1;
  if (!extras.empty()) settings.extras = std::make_shared<broker::JobExtras>(std::move(extras));
  settings.body = broker::Body(reader.rest());
  return settings;
}

std::string encode_progress(const ScheduleProgress& progress) {
  std::string out;
  Writer writer(out);
  writer.byte(kValueVersion);
  writer.byte(static_cast<std::uint8_t>((progress.due_ms ? kHasNext : 0) |
                                        (progress.queued_ms ? kHasQueued : 0) |
                                        (progress.last_ms ? kHasLast : 0)));
  writer.signed_number(progress.as_of_ms);
  if (progress.due_ms) writer.signed_number(*progress.due_ms);
  if (progress.queued_ms) writer.signed_number(*progress.queued_ms);
  if (progress.last_ms) writer.signed_number(*progress.last_ms);
  writer.number(progress.last_job);
  writer.number(progress.runs);
  writer.number(progress.missed);
  writer.number(progress.skipped);
  return out;
}

Result<ScheduleProgress> decode_progress(std::string_view value) {
  Reader reader(value);
  const Result<std::uint8_t> version = read_version(reader, "progress", value);
  if (!version) return version.error();
  ScheduleProgress progress;
  const std::uint8_t fields = reader.byte();
  progress.as_of_ms = reader.signed_number();
  if ((fields & kHasNext) != 0) progress.due_ms = reader.signed_number();
  if ((fields & kHasQueued) != 0) progress.queued_ms = reader.signed_number();
  if ((fields & kHasLast) != 0) progress.last_ms = reader.signed_number();
  progress.last_job = reader.number();
  progress.runs = reader.number();
  progress.missed = reader.number();
  progress.skipped = reader.number();
  if (!reader.ended() || *version == kFirstVersion ||
      (fields & ~(kHasNext | kHasQueued | kHasLast)) != 0) {
    return malformed("progress", value);
  }
  return progress;
}

std::string encode_partition(const PartitionRecord& record) {
  std::string out;
  Writer writer(out);
  writer.byte(kFirstVersion);
  writer.number(record.next_id);
  writer.number(record.next_tube);
  writer.number(record.next_bury_order);
  writer.signed_number(record.latest_ms);
  writer.bytes(record.anchor.boot_id);
  writer.signed_number(record.anchor.offset.count());
  return out;
}

Result<PartitionRecord> decode_partition(std::string_view value) {
  Reader reader(value);
  const Result<std::uint8_t> version = read_version(reader, "partition", value);
  if (!version) return version.error();
  if (*version != kFirstVersion) return malformed("partition", value);
  PartitionRecord record;
  record.next_id = reader.number();
  record.next_tube = reader.number32();
  record.next_bury_order = reader.number();
  record.latest_ms = reader.signed_number();
  record.anchor.boot_id = std::string(reader.bytes());
  record.anchor.offset = Span(reader.signed_number());
  if (!reader.ended()) return malformed("partition", value);
  return record;
}

}  // namespace carillon::store
