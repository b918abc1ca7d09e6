# SPDX-License-Identifier: Apache-2.0
# carillon_layer(NAME SOURCES ... HEADERS ... DEPS ...): one static library a folder.
# carillon_test(NAME SOURCES ... DEPS ... LABEL unit|property|sim|... [ARGS ...] [TIMEOUT s]): one
# GoogleTest program, one ctest entry.
# carillon_fuzz(NAME SOURCES ... DEPS ...): with CARILLON_FUZZ a libFuzzer program; otherwise a test
# labelled fuzz-smoke that replays tests/fuzz-corpus/NAME and seeded mutations of it.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE AND PROJECT_IS_TOP_LEVEL)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  # Paths relative to the root: __FILE__ in messages reads well, and a second clone or build folder
  # hits the compiler cache.
  file(RELATIVE_PATH CARILLON_ROOT_FROM_BUILD ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=
                      -ffile-prefix-map=${CARILLON_ROOT_FROM_BUILD}=)
  find_program(CARILLON_CCACHE ccache)
  if(CARILLON_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
        ${CARILLON_CCACHE})
  endif()
endif()

add_library(carillon_options INTERFACE)
target_compile_options(carillon_options INTERFACE
  $<BUILD_INTERFACE:-Wall -Wextra -Wpedantic -Wshadow>
  $<$<COMPILE_LANGUAGE:CXX>:$<BUILD_INTERFACE:-Wnon-virtual-dtor>>)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(carillon_options INTERFACE $<BUILD_INTERFACE:-Wthread-safety>)
endif()
set(CARILLON_SANITIZE "" CACHE STRING "Value of -fsanitize, e.g. address,undefined or thread")
if(CARILLON_SANITIZE)
  add_compile_options(-fsanitize=${CARILLON_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${CARILLON_SANITIZE})
endif()
if(CARILLON_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

function(carillon_layer name)
  cmake_parse_arguments(A "" "" "SOURCES;HEADERS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(carillon_${name} STATIC ${A_SOURCES})
  add_library(carillon::${name} ALIAS carillon_${name})
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
  if(CARILLON_SANITIZE MATCHES thread)
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/tsan_suppressions.cc)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  target_link_libraries(${name} PRIVATE ${A_DEPS} carillon_options GTest::gtest GTest::gmock
                        GTest::gtest_main)
  if(NOT A_LABEL)
    set(A_LABEL unit)
  endif()
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 300)
  endif()
  if(CARILLON_SANITIZE)
    math(EXPR A_TIMEOUT "${A_TIMEOUT} * 4")
  endif()
  add_test(NAME ${name} COMMAND ${name} ${A_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS ${A_LABEL} TIMEOUT ${A_TIMEOUT})
endfunction()

function(carillon_fuzz name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  if(CARILLON_FUZZ)
    add_executable(${name} ${A_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  elseif(CARILLON_TESTS)
    add_executable(${name} ${A_SOURCES} ${PROJECT_SOURCE_DIR}/tests/fuzz_replay.cc)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
    add_test(NAME ${name} COMMAND ${name} ${PROJECT_SOURCE_DIR}/tests/fuzz-corpus/${name})
    set_tests_properties(${name} PROPERTIES LABELS fuzz-smoke TIMEOUT 120)
  else()
    return()
  endif()
  target_link_libraries(${name} PRIVATE ${A_DEPS} carillon_base carillon_options)
endfunction()

if(PROJECT_IS_TOP_LEVEL)
  enable_testing()
endif()
