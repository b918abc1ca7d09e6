# SPDX-License-Identifier: Apache-2.0
# carillon_layer(NAME SOURCES ... HEADERS ... DEPS ...): one static library a folder.
# carillon_test(NAME SOURCES ... DEPS ... LABEL unit|property|sim|... [ARGS ...] [TIMEOUT s]): one
# GoogleTest program, one ctest entry.
# carillon_fuzz(NAME SOURCES ... DEPS ...): a libFuzzer program, only with CARILLON_FUZZ.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL)
  find_program(CARILLON_CCACHE ccache)
  if(CARILLON_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CARILLON_CCACHE})
  endif()
endif()

add_library(carillon_options INTERFACE)
target_compile_options(carillon_options INTERFACE
  $<BUILD_INTERFACE:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(carillon_options INTERFACE $<BUILD_INTERFACE:-Wthread-safety>)
endif()
set(CARILLON_SANITIZE "" CACHE STRING "Value of -fsanitize, e.g. address,undefined or thread")
if(CARILLON_SANITIZE)
  add_compile_options(-fsanitize=${CARILLON_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CARILLON_SANITIZE})
endif()

function(carillon_layer name)
  cmake_parse_arguments(A "" "" "SOURCES;HEADERS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(carillon_${name} STATIC ${A_SOURCES})
  target_sources(carillon_${name} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${A_HEADERS})
  target_compile_features(carillon_${name} PUBLIC cxx_std_20)
  target_link_libraries(carillon_${name} PUBLIC ${A_DEPS}
    PRIVATE $<BUILD_INTERFACE:carillon_options> ${A_PRIVATE_DEPS})
  set_target_properties(carillon_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
    EXPORT_NAME ${name})
endfunction()

function(carillon_test name)
  if(NOT CARILLON_TESTS)
    return()
  endif()
  cmake_parse_arguments(A "" "LABEL;TIMEOUT" "SOURCES;DEPS;ARGS" ${ARGN})
  find_package(GTest REQUIRED)
  add_executable(${name} ${A_SOURCES})
  target_link_libraries(${name} PRIVATE ${A_DEPS} carillon_options GTest::gtest GTest::gmock
                        GTest::gtest_main)
  if(NOT A_LABEL)
    set(A_LABEL unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${name} ${A_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT})
endfunction()

function(carillon_fuzz name)
  if(NOT CARILLON_FUZZ)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${A_SOURCES})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE ${A_DEPS} carillon_options)
endfunction()

if(PROJECT_IS_TOP_LEVEL)
  enable_testing()
endif()
