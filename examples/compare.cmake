# SPDX-License-Identifier: Apache-2.0
# Runs PROGRAM: it must end with 0, and print what is in EXPECTED.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE status)
file(READ ${EXPECTED} expected)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "ended with ${status}, after\n${printed}")
endif()
if(NOT printed STREQUAL expected)
  message(FATAL_ERROR "printed\n${printed}and not\n${expected}")
endif()
