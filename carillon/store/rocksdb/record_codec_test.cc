// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/record_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "carillon/base/random.h"

namespace carillon::store {
namespace {

using broker::JobRecord;
using broker::JobState;
using broker::PartitionRecord;
using broker::TubeRecord;

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

std::string encoded(const JobRecord& record, JobMark mark = JobMark::kPut) {
  std::string out;
  encode_job(record, mark, out);
  return out;
}

// Small and large numbers alike.
std::uint64_t any_number(Random& random) { return random() >> random.below(64); }

JobRecord any_job(Random& random) {
  JobRecord record;
  record.id = any_number(random);
  record.tube = static_cast<std::uint32_t>(any_number(random));
  record.state = static_cast<JobState>(random.below(3));
  record.priority = static_cast<std::uint32_t>(any_number(random));
  record.body_size = static_cast<std::uint32_t>(any_number(random));
  const auto any_time = [&random] {
    const auto time = static_cast<std::int64_t>(any_number(random));
    return random.one_in(2) ? time : -time;
  };
  record.due_ms = random.one_in(4) ? 0 : any_time();
  record.ttr_ms = any_time();
  record.delay_ms = random.one_in(4) ? 0 : any_time();
  record.created_ms = any_time();
  record.bury_order = random.one_in(2) ? 0 : any_number(random);
  if (random.one_in(2)) {
    record.history = {static_cast<std::uint32_t>(any_number(random)), 0, 7, 0,
                      static_cast<std::uint32_t>(any_number(random))};
  }
  if (random.one_in(2)) {
    broker::JobExtras extras;
    if (random.one_in(2)) extras.key = std::string(1 + random.below(200), 'k');
    if (random.one_in(2)) extras.content_type = "text/plain";
    if (random.one_in(2)) extras.max_attempts = static_cast<std::uint32_t>(any_number(random));
    if (random.one_in(2)) extras.backoff_base_ms = any_time();
    if (random.one_in(2)) extras.backoff_cap_ms = any_time();
    extras.backoff_jitter = random.one_in(2);
    if (random.one_in(2)) extras.due_at_ms = random.one_in(4) ? 0 : any_time();
    if (random.one_in(3)) extras.schedule = "nightly";
    record.extras = std::make_shared<const broker::JobExtras>(extras);
  }
  return record;
}

TEST(RecordCodec, JobsComeBackAsTheyWere) {
  Random random(11);
  for (int i = 0; i < 20'000; ++i) {
    const JobRecord record = any_job(random);
    const auto mark = static_cast<JobMark>(random.below(3));
    const std::string bytes = encoded(record, mark);
    const Result<DecodedJob> decoded = decode_job_alone(bytes, record.id);
    ASSERT_TRUE(decoded) << decoded.error().message;
    EXPECT_EQ(decoded->record, record);
    EXPECT_EQ(decoded->mark, mark);
  }
}

broker::ScheduleRecord any_schedule(Random& random) {
  const auto any_time = [&random] {
    const auto time = static_cast<std::int64_t>(any_number(random));
    return random.one_in(2) ? time : -time;
  };
  broker::ScheduleRecord record;
  record.settings.name = std::string(1 + random.below(200), 's');
  record.settings.tube = "reports";
  record.settings.spec = random.one_in(2) ? "every 30m" : "CRON_TZ=Europe/Amsterdam 30 2 * * *";
  record.settings.body = broker::Body(std::string(random.below(100), '\0'));
  record.settings.priority = static_cast<std::uint32_t>(any_number(random));
  record.settings.ttr_ms = any_time();
  record.settings.jitter_ms = any_time();
  record.settings.missed = static_cast<broker::Missed>(random.below(2));
  record.settings.overlap = static_cast<broker::Overlap>(random.below(3));
  if (random.one_in(2)) {
    broker::JobExtras extras;
    extras.content_type = "text/plain";
    extras.max_attempts = static_cast<std::uint32_t>(any_number(random));
    extras.backoff_base_ms = any_time();
    extras.backoff_cap_ms = any_time();
    extras.backoff_jitter = random.one_in(2);
    record.settings.extras = std::make_shared<const broker::JobExtras>(extras);
  }
  broker::ScheduleProgress& progress = record.progress;
  for (auto* time : {&progress.due_ms, &progress.queued_ms, &progress.last_ms}) {
    if (random.one_in(2)) *time = any_time();
  }
  progress.as_of_ms = any_time();
  for (auto* count : {&progress.last_job, &progress.runs, &progress.missed, &progress.skipped}) {
    *count = any_number(random);
  }
  return record;
}

TEST(RecordCodec, SchedulesComeBackAsTheyWere) {
  Random random(12);
  for (int i = 0; i < 5'000; ++i) {
    const broker::ScheduleRecord record = any_schedule(random);
    const auto settings = decode_schedule(encode_schedule(record.settings), record.settings.name);
    ASSERT_TRUE(settings) << settings.error().message;
    EXPECT_EQ(*settings, record.settings);
    const auto progress = decode_progress(encode_progress(record.progress));
    ASSERT_TRUE(progress) << progress.error().message;
    EXPECT_EQ(*progress, record.progress);
  }
}

TEST(RecordCodec, EveryPrefixOfAScheduleIsMalformed) {
  Random random(13);
  for (int i = 0; i < 50; ++i) {
    const broker::ScheduleRecord record = any_schedule(random);
    const std::string settings = encode_schedule(record.settings);
    // (Its body is the rest, whatever that is.)
    for (std::size_t size = 0; size < settings.size() - record.settings.body.size(); ++size) {
      EXPECT_FALSE(decode_schedule(settings.substr(0, size), "s")) << size;
    }
    const std::string progress = encode_progress(record.progress);
    for (std::size_t size = 0; size < progress.size(); ++size) {
      EXPECT_FALSE(decode_progress(progress.substr(0, size))) << size;
    }
    EXPECT_FALSE(decode_progress(progress + '\0'));
  }
}

TEST(RecordCodec, ExtremesComeBackAsTheyWere) {
  for (const std::int64_t due : {kMin, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, kMax}) {
    for (const std::int64_t created : {kMin, std::int64_t{0}, kMax}) {
      JobRecord record;
      record.id = 1;
      record.due_ms = due;
      record.created_ms = created;
      record.ttr_ms = kMin;
      record.delay_ms = kMax;
      const Result<DecodedJob> decoded = decode_job_alone(encoded(record), 1);
      ASSERT_TRUE(decoded) << due << " " << created;
      EXPECT_EQ(decoded->record, record);
    }
  }
}

// The bytes of docs/internals/storage.md: a change here is a change of the format.
TEST(RecordCodec, WritesTheBytesThatTheFormatPageShows) {
  JobRecord record;
  record.id = 0x0102;
  record.tube = 1;
  record.priority = 1'024;
  record.body_size = 5;
  record.ttr_ms = 60'000;
  record.created_ms = 1'700'000'000'000;
  EXPECT_EQ(to_hex(encoded(record)), "010001800805c0a90780a0abfef962");
  record.state = JobState::kDelayed;
  record.due_ms = record.created_ms + 86'400'000;
  record.delay_ms = 86'400'000;
  record.bury_order = 9;
  record.history = {3, 0, 1, 0, 0};
  EXPECT_EQ(to_hex(encoded(record, JobMark::kSettled)),
            "017d01800805c0a90780a0abfef96280f0b25280f0b252090300010000");
  record.bury_order = 0;
  record.history = {};
  broker::JobExtras extras;
  extras.key = "order-17";
  extras.content_type = "application/json";
  extras.max_attempts = 5;
  extras.backoff_base_ms = 1'000;
  extras.backoff_cap_ms = 60'000;
  extras.backoff_jitter = true;
  extras.due_at_ms = record.due_ms;
  record.extras = std::make_shared<const broker::JobExtras>(extras);
  EXPECT_EQ(to_hex(encoded(record, JobMark::kMoved)),
            "02197f01800805c0a90780a0abfef96280f0b25280f0b252086f726465722d3137106170706c6963617469"
            "6f6e2f6a736f6e05d00fc0a9078090ded0fa62");
  EXPECT_EQ(to_hex(key_key(1, 2, "order-17")), "0001000000026f726465722d3137");
  EXPECT_EQ(to_hex(encode_place({0x0102, record.due_ms, true})), "0282028090ded0fa6201");
  EXPECT_EQ(to_hex(job_key(0, record.id).view()), "00000000000000000102");
  EXPECT_EQ(to_hex(encode_tube({2, "mail", 3, 4, 5, 6})), "0102046d61696c03080a0c");
  TubeRecord mail{2, "mail", 3, 4, 5, 6};
  mail.settings.max_jobs = 300;
  mail.settings.document = "{}";
  mail.far_calendar_ms = -1;
  EXPECT_EQ(to_hex(encode_tube(mail)), "0202046d61696c03080a0cac02027b7d0101");
  EXPECT_EQ(to_hex(encode_format({2, 4})), "0204");
}

TEST(RecordCodec, EveryPrefixOfAJobIsMalformed) {
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    const std::string bytes = encoded(any_job(random));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const Result<DecodedJob> decoded = decode_job(bytes.substr(0, size), 1);
      ASSERT_FALSE(decoded) << to_hex(bytes) << " cut to " << size;
      EXPECT_EQ(decoded.error().code, ErrorCode::kCorrupt);
    }
  }
}

TEST(RecordCodec, RefusesWhatItWouldNotHaveWritten) {
  JobRecord record;
  record.id = 1;
  const std::string good = encoded(record);
  ASSERT_TRUE(decode_job_alone(good, 1));
  std::string bad = good;
  bad[0] = 3;
  EXPECT_NE(decode_job(bad, 1).error().message.find("version 3"), std::string::npos);
  // Version 2 with nothing new in it; a job that is settled and far.
  bad = good;
  bad[0] = 2;
  bad.insert(2, 1, '\0');
  EXPECT_FALSE(decode_job(bad, 1));
  bad[2] = 1;
  EXPECT_TRUE(decode_job_alone(bad, 1));
  bad[1] = 4;
  EXPECT_FALSE(decode_job(bad, 1));
  // A flag whose text is empty.
  bad[1] = 0;
  bad[2] = 2;
  EXPECT_FALSE(decode_job(bad + '\0', 1));
  bad = good;
  bad[1] = 3;  // reserved
  EXPECT_FALSE(decode_job(bad, 1));
  bad[1] = static_cast<char>(0x80);
  EXPECT_FALSE(decode_job(bad, 1));
  // A flag whose field is zero.
  bad = good + '\0';
  bad[1] = 0x10;
  EXPECT_FALSE(decode_job(bad, 1));
  // A number that is not in its shortest form; one of more than 64 bits; one of more than 32.
  EXPECT_FALSE(decode_job(std::string("\x01\x00\x80\x00\x00\x00\x00\x00", 8), 1));
  EXPECT_FALSE(decode_group("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"));
  EXPECT_TRUE(decode_group("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
  EXPECT_FALSE(decode_format("\xff\xff\xff\xff\x1f\x01"));
  // Something behind.
  EXPECT_FALSE(decode_job_alone(good + "x", 1));
  EXPECT_FALSE(decode_group(std::string("\x01\x01")));
}

TEST(RecordCodec, ABodyMustBeAsLongAsAnnounced) {
  JobRecord record;
  record.id = 1;
  record.body_size = 3;
  const std::string bytes = encoded(record);
  const std::string with_body = bytes + "abc";
  const Result<DecodedJob> whole = decode_job_with_body(with_body, 1);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->rest, "abc");
  EXPECT_FALSE(decode_job_with_body(bytes + "ab", 1));
  EXPECT_FALSE(decode_job_with_body(bytes + "abcd", 1));
}

TEST(RecordCodec, TubesAndPartitionsComeBackAsTheyWere) {
  const TubeRecord tubes[] = {
      {0, "", 0, 0, 0, 0},
      {std::numeric_limits<std::uint32_t>::max(), std::string(200, '\xff'),
       std::numeric_limits<std::uint64_t>::max(), kMin, kMax, -1},
      {1, "set", 0, 0, 0, 0, {std::numeric_limits<std::uint64_t>::max(), "{}"}, kMin},
      {1, "limited", 0, 0, 0, 0, {1, ""}, std::nullopt},
      {1, "dated", 1, 5, 0, 0, {}, 0},
  };
  for (const TubeRecord& tube : tubes) {
    const std::string bytes = encode_tube(tube);
    EXPECT_EQ(*decode_tube(bytes), tube);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_tube(bytes.substr(0, size)));
    }
    EXPECT_FALSE(decode_tube(bytes + "x"));
  }
  PartitionRecord partition;
  partition.next_id = std::numeric_limits<std::uint64_t>::max();
  partition.next_tube = 9;
  partition.next_bury_order = 1;
  partition.latest_ms = -3;
  partition.anchor = {"3f0a-boot", Span(kMin)};
  for (const PartitionRecord& record : {PartitionRecord{}, partition}) {
    const std::string bytes = encode_partition(record);
    EXPECT_EQ(*decode_partition(bytes), record);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode_partition(bytes.substr(0, size)));
    }
  }
}

TEST(RecordCodec, TheVersionOfANewerFormatCanBeReadWhateverFollowsIt) {
  EXPECT_EQ(*decode_format(encode_format({kFormatVersion, 4})), (FormatRecord{kFormatVersion, 4}));
  const Result<FormatRecord> newer = decode_format("\x63 anything at all");
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->version, 0x63U);
  EXPECT_FALSE(decode_format(""));
  EXPECT_FALSE(decode_format(encode_format({0, 1})));
  EXPECT_FALSE(decode_format(encode_format({kFormatVersion, 0})));
}

TEST(RecordCodec, TheOrderOfKeysIsTheOrderOfWhatTheyName) {
  Random random(5);
  std::vector<FarKeyParts> parts;
  for (int i = 0; i < 2'000; ++i) {
    const auto due = static_cast<std::int64_t>(any_number(random));
    parts.push_back({static_cast<std::uint32_t>(any_number(random)), random.one_in(2) ? due : -due,
                     any_number(random)});
  }
  std::sort(parts.begin(), parts.end(), [](const FarKeyParts& a, const FarKeyParts& b) {
    return std::tie(a.tube, a.due_ms, a.id) < std::tie(b.tube, b.due_ms, b.id);
  });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const FarKeyParts& at = parts[i];
    const Key key = far_key(3, at.tube, at.due_ms, at.id);
    const Result<FarKeyParts> back = parse_far_key(key.view());
    ASSERT_TRUE(back);
    EXPECT_EQ(std::tie(back->tube, back->due_ms, back->id), std::tie(at.tube, at.due_ms, at.id));
    EXPECT_LT(key.view(), far_end_key(3, at.tube).view());
    EXPECT_GE(key.view(), partition_begin(3).view());
    EXPECT_LT(key.view(), partition_end(3).view());
    if (i == 0) continue;
    const FarKeyParts& before = parts[i - 1];
    EXPECT_LE(far_key(3, before.tube, before.due_ms, before.id).view(), key.view());
  }
  EXPECT_LT(job_key(0, std::numeric_limits<std::uint64_t>::max()).view(), job_key(1, 0).view());
  EXPECT_LT(job_key(2, 255).view(), job_key(2, 256).view());
  EXPECT_EQ(*parse_job_key(job_key(9, 77).view()), 77U);
  EXPECT_FALSE(parse_job_key("short"));
  EXPECT_FALSE(parse_far_key(job_key(1, 1).view()));
  EXPECT_EQ(to_hex(far_key(1, 2, 3, 4).view()),
            "0001000000028000000000000003"
            "0000000000000004");
}

}  // namespace
}  // namespace carillon::store
