// SPDX-License-Identifier: Apache-2.0
// Whatever the bytes, the decoders answer; and what they accept is what the encoders would have
// written.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "carillon/base/check.h"
#include "carillon/store/rocksdb/record_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace carillon::store;
  if (size == 0) return 0;
  const std::string_view value(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  switch (bytes[0] % 9) {
    case 0:
      if (const auto job = decode_job(value, 7)) {
        std::string again;
        encode_job(job->record, job->mark, again);
        CARILLON_CHECK(again + std::string(job->rest) == value, to_hex(value));
      }
      (void)decode_job_with_body(value, 7);
      break;
    case 1:
      if (const auto tube = decode_tube(value)) CARILLON_CHECK(encode_tube(*tube) == value);
      break;
    case 2:
      if (const auto partition = decode_partition(value)) {
        CARILLON_CHECK(encode_partition(*partition) == value, to_hex(value));
      }
      break;
    case 3:
      if (const auto format = decode_format(value); format && format->version <= kFormatVersion) {
        CARILLON_CHECK(encode_format(*format) == value, to_hex(value));
      }
      break;
    case 4:
      if (const auto group = decode_group(value)) CARILLON_CHECK(encode_group(*group) == value);
      break;
    case 5:
      if (const auto place = decode_place(value)) {
        CARILLON_CHECK(encode_place(*place) == value, to_hex(value));
      }
      break;
    case 7:
      if (const auto schedule = decode_schedule(value, "name")) {
        CARILLON_CHECK(encode_schedule(*schedule) == value, to_hex(value));
      }
      break;
    case 8:
      if (const auto progress = decode_progress(value)) {
        CARILLON_CHECK(encode_progress(*progress) == value, to_hex(value));
      }
      break;
    default:
      (void)parse_job_key(value);
      if (const auto parts = parse_far_key(value)) {
        const Key key = far_key(0, parts->tube, parts->due_ms, parts->id);
        CARILLON_CHECK(key.view().substr(2) == value.substr(2), to_hex(value));
      }
      break;
  }
  return 0;
}
