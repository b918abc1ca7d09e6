// SPDX-License-Identifier: Apache-2.0
#include "bench/common/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "bench/common/interrupt.h"

namespace carillon::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

std::string error_of(const std::function<std::string()>& call) {
  try {
    return "no error, but " + call();
  } catch (const BenchError& error) {
    return error.what();
  }
}

TEST(Child, SaysWhatItsWorkReturned) {
  const std::string much(1'000'000, 'x');
  EXPECT_EQ(output_of_fork([&much] { return std::string(much); }, minutes(1)), much);
  EXPECT_EQ(output_of_program({"echo", "two words"}, minutes(1)), "two words\n");
}

TEST(Child, IsAProcessOfItsOwn) {
  EXPECT_NE(output_of_fork([] { return std::to_string(::getpid()); }, minutes(1)),
            std::to_string(::getpid()));
}

TEST(Child, ItsErrorsAreOurs) {
  EXPECT_EQ(error_of([] {
              return output_of_fork([]() -> std::string { throw BenchError("it broke"); },
                                    minutes(1));
            }),
            "it broke");
  EXPECT_EQ(
      error_of([] { return output_of_program({"sh", "-c", "echo so >&2; exit 3"}, minutes(1)); }),
      "so");
  EXPECT_THAT(error_of([] { return output_of_program({"no-such-program"}, minutes(1)); }),
              testing::HasSubstr("not installed"));
}

TEST(Child, IsEndedWhenItTakesTooLong) {
  EXPECT_THAT(error_of([] { return output_of_program({"sleep", "600"}, milliseconds(1)); }),
              testing::HasSubstr("does not end"));
}

}  // namespace
}  // namespace carillon::bench
